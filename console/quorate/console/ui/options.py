"""Options that several sub-commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from quorate.console.ui.help import FORMAT, GROUPS, WAITING
from quorate.console.ui.output import Output
from quorate.protocol.errors import InvalidArgument

TopicOrPattern = Annotated[str, typer.Argument(help="The topic, or a pattern with --pattern.")]
Pattern = Annotated[
    bool,
    typer.Option("--pattern", help="TOPIC is a regular expression that a whole topic matches."),
]
Count = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="Stop after this many messages.")
]
Stores = Annotated[
    str | None,
    typer.Option(
        "--stores",
        metavar="NAME=HOST:PORT,…",
        help="The stores, as [name=]host:port.  [QUORATE_STORES, or the configuration file]",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME[/RULE]=HOST:PORT,…[+BACKUPS]",
        rich_help_panel=GROUPS,
        help="A group of stores with its rule (quorum, all-active, all) and its backups; may be "
        "given several times.  [the configuration file's groups]",
    ),
]
Intergroup = Annotated[
    str | None,
    typer.Option(
        "--intergroup",
        rich_help_panel=GROUPS,
        help="The rule over the groups: any, majority, all-active, all.  [any]",
    ),
]
Also = Annotated[
    str | None,
    typer.Option(
        "--also",
        metavar="NAME=HOST:PORT,…",
        rich_help_panel=GROUPS,
        help="Replicas: stores that take the messages and have no part in what is stable.  [the "
        "configuration file's also]",
    ),
]
OutputFormat = Annotated[
    Output | None,
    typer.Option(
        "--output",
        "-o",
        rich_help_panel=FORMAT,
        help="Format of the output.  [QUORATE_OUTPUT, or table]",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        rich_help_panel=WAITING,
        help="Seconds to wait for stores.  [QUORATE_TIMEOUT, or 30]",
    ),
]
SessionId = Annotated[
    str | None,
    typer.Option(
        "--session-id", metavar="ID", help="The session ID, decimal or hexadecimal (0x…).  [random]"
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="NAME", help="Only this topic; may be given several times."),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Let this Spark run the job, spark://host:7077; needs the extra `spark`. Without it "
        "processes of this machine do.",
    ),
]
TopicsPattern = Annotated[
    str | None,
    typer.Option("--topics-pattern", metavar="REGEX", help="Only topics that match as a whole."),
]


def pattern_for(topics: Sequence[str], pattern: str | None) -> str:
    """Return the pattern that selects these topics; empty: all. Raises InvalidArgument."""
    from quorate.protocol.patterns import pattern_of, topic_pattern

    if topics and pattern is not None:
        raise InvalidArgument("--topics-pattern", "is given together with --topic; give one")
    if pattern is None:
        return pattern_of(topics)
    try:
        return topic_pattern(pattern).text
    except InvalidArgument as error:
        raise InvalidArgument("--topics-pattern", error.detail) from None
