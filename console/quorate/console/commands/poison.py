"""`quorate poison`: an operator marks messages that must not be delivered."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.console.commands.loss import check_reason
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
from quorate.console.ui.settings import (
    GroupSettings,
    resolve,
)
from quorate.protocol.exit_codes import FAILED, UNHEALTHY
from quorate.protocol.figures import counted

if TYPE_CHECKING:
    from quorate.console.group.repair import Row
    from quorate.v1.store_pb2 import Poison

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The source: TOPIC/SESSION.")]
Messages = Annotated[
    str, typer.Argument(metavar="FIRST[-LAST]", help="The sequence numbers of the messages.")
]
Why = Annotated[str, typer.Option("--reason", help="The reason; receivers are told.")]

poison = typer.Typer(
    help="Mark messages that must not be delivered.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@poison.callback()
def _group() -> None:
    """Mark messages that must not be delivered."""


@poison.command(short_help="Mark messages of a source: stores no longer deliver them.")
def add(
    context: typer.Context,
    source: Source,
    messages: Messages,
    reason: Why,
    yes: Yes = False,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """Mark messages of a source as poison: stores keep them, and no longer deliver them.

    Receivers and subscribers that read from stores skip them, and are told why. The live stream of
    the source is not changed. A receiver that is restarted goes on behind the messages.
    """
    from quorate.v1.store_pb2 import POISON_MARKED

    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    asked = "Have stores no longer deliver these messages?"
    _decide(settings, source, messages, POISON_MARKED, reason, asked, yes)


@poison.command(short_help="Remove a mark: stores deliver the messages again.")
def remove(
    context: typer.Context,
    source: Source,
    messages: Messages,
    reason: Why,
    yes: Yes = False,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """Remove the mark from messages: stores deliver them again.

    A receiver that skipped them does not go back.
    """
    from quorate.v1.store_pb2 import POISON_REMOVED

    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    asked = "Have stores deliver these messages again?"
    _decide(settings, source, messages, POISON_REMOVED, reason, asked, yes)


@poison.command("list", short_help="Show the marked messages.")
def show(
    context: typer.Context,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """Show the marked messages, with who marked them and why, and the stores that know it.

    Exit 10 if a store does not answer, 69 if none does.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    from quorate.console.group.poison import marked, reached, silent
    from quorate.console.group.status import ask_all, too_few

    answers = run(lambda: ask_all(settings.stores, settings.timeout))
    if not reached(answers):
        raise too_few("Listing the marks", answers)
    _print(settings, "Poison", marked(answers))
    for error in (unanswered := silent(answers)).values():
        say(str(error), style="bold red")
    if unanswered:
        raise typer.Exit(UNHEALTHY)


def _decide(
    settings: GroupSettings,
    source: str,
    messages: str,
    decision: Poison,
    reason: str,
    asked: str,
    yes: bool,
) -> None:
    """Make the stores record a decision, once it is confirmed."""
    from quorate.console.group.poison import check_known, mark, reached, silent
    from quorate.console.group.repair import parse_range, parse_source
    from quorate.console.group.status import ask_all, too_few

    name, part = parse_source(source), parse_range(messages)
    check_reason(reason)
    answers = run(lambda: ask_all(settings.stores, settings.timeout))
    if not reached(answers):
        raise too_few("A mark of poison", answers)
    check_known(answers, name, part)
    say(f"{counted(len(part), 'message')}, {part} of {name}.")
    confirm(asked, yes)
    said = f"{reason} (said by {getpass.getuser()})"
    rows = run(lambda: mark(answers, name, part, decision, said, settings.timeout))
    _print(settings, "Recorded", rows)
    for store, error in silent(answers).items():
        say(f"Store {store.name} does not know this yet, and learns it from the others: {error}")
    if not any(row["recorded"] for row in rows):
        raise typer.Exit(FAILED)


def _print(settings: GroupSettings, title: str, rows: list[Row]) -> None:
    match settings.output:
        case Output.JSON:
            print_json(rows)
        case Output.JSONL:
            print_jsonl(rows)
        case Output.TABLE:
            print_table(title, rows, empty="nothing")
