"""`quorate store readmit`: an operator ends the limbo of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from quorate.console.commands.loss import RECORD, Reason, check_reason, record
from quorate.console.ui.confirmation import Yes, confirm
from quorate.console.ui.exits import say
from quorate.console.ui.options import (
    OutputFormat,
    Stores,
    Timeout,
)
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve


def readmit(
    context: typer.Context,
    store: Annotated[
        str, typer.Argument(metavar="NAME", help="The store, as `quorate status` shows it.")
    ],
    reason: Reason,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="TOPIC/SESSION", help="Only for this source.  [all]"),
    ] = None,
    yes: Yes = False,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """End the limbo of a store: it goes on with the messages that it has.

    A store leaves limbo by itself when its peers have filled it. Use this command only if they
    cannot, because too many disks are lost. Messages that no store has are then lost. The command
    shows what each store has, and asks for a confirmation.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    from quorate.console.group.repair import (
        named_store,
        parse_source,
        prospect_of_leaving,
    )
    from quorate.console.group.status import ask_all

    name = parse_source(source) if source is not None else None
    check_reason(reason)
    answers = run(lambda: ask_all(settings.stores, settings.timeout))
    found = named_store(answers, store, "NAME")
    for line in prospect_of_leaving(answers, found, name).lines:
        say(line)
    confirm(RECORD, yes)
    record(settings, [found], name, None, reason)
