"""Options that several sub-commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from quorate.console.output import Output

Stores = Annotated[
    str | None,
    typer.Option(
        "--stores",
        metavar="HOST:PORT,…",
        help="The stores, as [name=]host:port. Else QUORATE_STORES, else the configuration file.",
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
