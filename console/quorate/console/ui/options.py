"""Options that several sub-commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from quorate.console.ui.output import Output

Stores = Annotated[
    str | None,
    typer.Option(
        "--stores",
        metavar="HOST:PORT,…",
        help="The stores, as [name=]host:port.  [QUORATE_STORES, or the configuration file]",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME[/RULE]=HOST:PORT,…[+BACKUPS]",
        help="A group of stores with its rule (quorum, all-active, all) and its backups; may be "
        "given several times.  [the configuration file's groups]",
    ),
]
Intergroup = Annotated[
    str | None,
    typer.Option(
        "--intergroup", help="The rule over the groups: any, majority, all-active, all.  [any]"
    ),
]
OutputFormat = Annotated[
    Output | None,
    typer.Option("--output", "-o", help="Format of the output.  [QUORATE_OUTPUT, or table]"),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds to wait for stores.  [QUORATE_TIMEOUT, or 30]"),
]
SessionId = Annotated[
    str | None,
    typer.Option(
        "--session-id", metavar="ID", help="The session ID, decimal or hexadecimal (0x…).  [random]"
    ),
]
