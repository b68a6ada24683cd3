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
        help="The stores, as [name=]host:port. Else QUORATE_STORES, else the configuration file.",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME[/RULE]=HOST:PORT,…[+BACKUPS]",
        help="A group of stores with its rule (quorum, all-active, all) and its backups; may be "
        "given several times. Else [[groups]] of the configuration file.",
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
    typer.Option("--output", "-o", help="Form of the output. Else QUORATE_OUTPUT.  [table]"),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds to wait for stores. Else QUORATE_TIMEOUT.  [30]"),
]
SessionId = Annotated[
    str | None,
    typer.Option("--session-id", metavar="ID", help="Decimal or 0x…; random if none is given."),
]
