"""`quorate topics`, `sources`, `receivers`, `subscribers`: one view over all stores of a group."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.options import OutputFormat, Stores, Topics, TopicsPattern, pattern_for
from quorate.console.ui.output import Output, print_json, print_jsonl, print_table
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve
from quorate.protocol.exit_codes import UNHEALTHY

if TYPE_CHECKING:
    from quorate.console.group.rules.assessment import Look
    from quorate.console.group.rules.listing import Choice, Row


class State(enum.StrEnum):
    """Whether a source streams."""

    LIVE = "live"
    AWAY = "away"


Session = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="Only this session ID, decimal or 0x…."),
]
Idle = Annotated[
    float,
    typer.Option("--idle", min=0, help="Only those that were silent for so many seconds."),
]
ByApplication = Annotated[
    str,
    typer.Option(
        "--application",
        metavar="TEXT",
        help="Only those with this text in their application.",
    ),
]
Sort = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="COLUMN",
        help="Sort by this column; with a - before it, the highest first.",
    ),
]
Limit = Annotated[int, typer.Option(min=0, help="Show so many rows at most. 0: all.")]
Seconds = Annotated[float, typer.Option("--timeout", help="Seconds to wait for each store.")]

_LIMIT = 100
_SECONDS = 5.0


def topics(
    context: typer.Context,
    stores: Stores = None,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    idle: Idle = 0.0,
    sort: Sort = "",
    limit: Limit = _LIMIT,
    timeout: Seconds = _SECONDS,
    output: OutputFormat = None,
) -> None:
    """List topics: sources, receivers, messages, bytes, and for how long nothing was heard.

    Exit 10 if a store does not answer, 69 if none does.
    """
    from quorate.console.group.rules.listing import TOPIC_COLUMNS, Choice, topic_rows

    _list(
        context, "topics", TOPIC_COLUMNS, lambda look: topic_rows(look.views()),
        Choice(None, idle, "", "", sort, limit),
        stores, timeout, output, pattern_for(topic or (), topics_pattern),
    )  # fmt: skip


def sources(
    context: typer.Context,
    stores: Stores = None,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    session: Session = None,
    state: Annotated[
        State | None, typer.Option("--state", help="Only those that stream, or that are away.")
    ] = None,
    idle: Idle = 0.0,
    application: ByApplication = "",
    sort: Sort = "",
    limit: Limit = _LIMIT,
    timeout: Seconds = _SECONDS,
    output: OutputFormat = None,
) -> None:
    """List sources: session, application, state, numbers, stores, lag, idle time and bytes.

    A source that is gone for good can be forgotten: `quorate deregister`. Exit 10 if a store does
    not answer, 69 if none does.
    """
    from quorate.console.group.rules.listing import SOURCE_COLUMNS, Choice, source_rows

    _list(
        context, "sources", SOURCE_COLUMNS, lambda look: source_rows(look.views()),
        Choice(_session(session), idle, application, state or "", sort, limit),
        stores, timeout, output, pattern_for(topic or (), topics_pattern),
        "A source that is gone for good can be forgotten, with all its messages: `quorate "
        "deregister --source TOPIC/SESSION`.",
    )  # fmt: skip


def receivers(
    context: typer.Context,
    stores: Stores = None,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    session: Session = None,
    idle: Idle = 0.0,
    application: ByApplication = "",
    sort: Sort = "",
    limit: Limit = _LIMIT,
    timeout: Seconds = _SECONDS,
    output: OutputFormat = None,
) -> None:
    """List the receivers of each source: session, application, position, lag and idle time.

    A receiver that is gone for good can be forgotten: `quorate deregister`. Exit 10 if a store does
    not answer, 69 if none does.
    """
    from quorate.console.group.rules.listing import RECEIVER_COLUMNS, Choice, receiver_rows

    _list(
        context, "receivers", RECEIVER_COLUMNS, lambda look: receiver_rows(look.views()),
        Choice(_session(session), idle, application, "", sort, limit),
        stores, timeout, output, pattern_for(topic or (), topics_pattern),
        "A receiver that is gone for good can be forgotten: `quorate deregister --source "
        "TOPIC/SOURCE --receiver SESSION`.",
    )  # fmt: skip


def subscribers(
    context: typer.Context,
    stores: Stores = None,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    application: ByApplication = "",
    sort: Sort = "-behind",
    limit: Limit = _LIMIT,
    timeout: Seconds = _SECONDS,
    output: OutputFormat = None,
) -> None:
    """List the subscriptions that run: store, client, application, filter, and messages behind.

    Stores forget a subscription when it ends. Exit 10 if a store does not answer, 69 if none does.
    """
    from quorate.console.group.rules.listing import SUBSCRIBER_COLUMNS, Choice, subscriber_rows

    _list(
        context, "subscribers", SUBSCRIBER_COLUMNS,
        lambda look: subscriber_rows(look.subscriptions),
        Choice(None, 0.0, application, "", sort, limit),
        stores, timeout, output, pattern_for(topic or (), topics_pattern),
    )  # fmt: skip


def _session(text: str | None) -> int | None:
    from quorate.protocol.identity import parse_session_id

    return None if text is None else parse_session_id(text)


def _list(
    context: typer.Context,
    name: str,
    columns: Sequence[str],
    rows_of: Callable[[Look], list[Row]],
    choice: Choice,
    stores: str | None,
    timeout: float,
    output: Output | None,
    pattern: str,
    hint: str = "",
) -> None:
    """Ask the stores, and show the rows that are wanted. hint: the next step, for people."""
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    choice.check(columns)

    from quorate.console.group.check import look
    from quorate.console.group.status import too_few
    from quorate.protocol.errors import QuorateError

    seen = run(lambda: look(settings.stores, settings.timeout, pattern, subscriptions_max=0))
    if not seen.reached:
        raise too_few(f"The list of {name}", seen.answers)
    found = choice.of(rows_of(seen))
    shown = found[: choice.limit or None]
    problems = [str(each) for each in seen.answers.values() if isinstance(each, QuorateError)]
    left_out = len(found) - len(shown)
    match settings.output:
        case Output.JSON:
            print_json({name: shown, "problems": problems, "left_out": left_out})
        case Output.JSONL:
            print_jsonl(shown)
        case Output.TABLE:
            print_table(name.capitalize(), [*map(_for_people, shown)], empty="none")
            if left_out:
                say(f"Not shown: {left_out:,} {name}. See --limit and --topic.")
            if hint and shown:
                say(hint)
    if problems:
        for problem in problems:
            say(problem, style="bold red")
        raise typer.Exit(UNHEALTHY)


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose applications and values by store are text."""
    from quorate.console.group.rules.listing import application_text

    shown = dict(row)
    if "application" in row:
        shown["application"] = application_text(row["application"]) or None
    if "lag" in row and isinstance(row["lag"], dict):
        behind = ", ".join(f"{store}: {lag:,}" for store, lag in row["lag"].items() if lag)
        shown["lag"] = behind or "none"
    return shown
