"""`quorate deregister`: end a source, or one of its receivers, on every store for good."""

from __future__ import annotations

from typing import Annotated

import typer

from quorate.console.ui.confirmation import Yes, confirm
from quorate.console.ui.exits import say
from quorate.console.ui.options import (
    OutputFormat,
    Stores,
    Timeout,
)
from quorate.console.ui.output import (
    Output,
    print_json,
    print_jsonl,
    print_table,
)
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve
from quorate.protocol.figures import counted


def deregister(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Option("--source", metavar="TOPIC/SESSION", help="The source."),
    ],
    receiver: Annotated[
        str | None,
        typer.Option("--receiver", metavar="SESSION", help="Only this receiver of the source."),
    ] = None,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
    yes: Yes = False,
) -> None:
    """End an identity: a source with all its messages, or a receiver with its position.

    A source that still runs is told, and cannot go on. The other stores tell a store that is away
    when it is back; until then the exit code is not 0.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    from quorate.console.group.deregistration import deregister as tell_all
    from quorate.console.group.deregistration import find
    from quorate.console.group.repair import parse_source
    from quorate.protocol.identity import parse_session_id

    name = parse_source(source)
    session_id = parse_session_id(receiver) if receiver is not None else 0
    found = run(lambda: find(settings.stores, name, session_id, settings.timeout))
    if not yes:
        what = f"receiver {session_id:#x} of {name}" if session_id else f"{name}"
        if not session_id:
            state = "which is alive" if found.live else "which is away"
            say(
                f"{name}, {state}, has {counted(found.messages, 'message')} on "
                f"{counted(len(found.known_by), 'store')}"
            )
        confirm(f"Have every store forget {what}?", yes)
    rows, errors = run(lambda: tell_all(found, name, session_id, settings.timeout))
    match settings.output:
        case Output.JSON:
            print_json(rows)
        case Output.JSONL:
            print_jsonl(rows)
        case Output.TABLE:
            print_table("Deregistered", rows, empty="no store was told")
    if errors:
        missed = ", ".join(row["store"] for row in rows if not row["done"])
        say(
            f"Not told: {missed}. The other stores tell it when it is back, as long as they have "
            "their data. You may also run this again when it is back."
            if any(row["done"] for row in rows)
            else "Not done: too few stores took part. Run this again when more of them are back. "
            "Until then the identity may go on."
        )
        raise typer.Exit(errors[0].exit_code)
