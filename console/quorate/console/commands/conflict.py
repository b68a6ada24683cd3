"""`quorate conflict`: an operator says which of two contents under one number is kept."""

from __future__ import annotations

from typing import Annotated

import typer

from quorate.console.commands.loss import RECORD, Reason, check_reason
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
from quorate.protocol.exit_codes import FAILED

conflict = typer.Typer(
    help="Settle a conflict between stores.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@conflict.callback()
def _group() -> None:
    """Settle a conflict between stores."""


@conflict.command(short_help="Keep the content of one store where stores differ.")
def settle(
    context: typer.Context,
    source: Annotated[
        str, typer.Option("--source", metavar="TOPIC/SESSION", help="The source in conflict.")
    ],
    keep: Annotated[
        str,
        typer.Option(
            "--keep", metavar="NAME", help="The store whose content is kept; see `quorate status`."
        ),
    ],
    reason: Reason,
    yes: Yes = False,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """Keep the content of one store, where stores hold different content under one number.

    The other stores in the conflict set their side aside (`quorate store aside` shows it), and
    fetch the kept content. The command shows what each store gives up, and asks for a confirmation.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    from quorate.console.group.conflict_settling import settle as settled
    from quorate.console.group.conflict_settling import settlement
    from quorate.console.group.repair import parse_source
    from quorate.console.group.status import ask_all

    name = parse_source(source)
    check_reason(reason)
    answers = run(lambda: ask_all(settings.stores, settings.timeout))
    found = settlement(answers, name, keep)
    for line in found.lines:
        say(line)
    confirm(RECORD, yes)
    rows = run(lambda: settled(found, reason, settings.timeout))
    match settings.output:
        case Output.JSON:
            print_json(rows)
        case Output.JSONL:
            print_jsonl(rows)
        case Output.TABLE:
            print_table("Settled", rows, empty="nothing")
    if not all(row["recorded"] for row in rows):
        raise typer.Exit(FAILED)
    say("`quorate repair` fetches the kept content now.")
