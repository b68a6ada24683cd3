"""`quorate loss`: an operator accepts that messages are lost, and stores record it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

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
from quorate.console.ui.settings import (
    GroupSettings,
    resolve,
)
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.exit_codes import FAILED

if TYPE_CHECKING:
    from quorate.protocol.identity import SourceName, StoreAddress
    from quorate.protocol.ranges import Range

RECORD = "Record this, for ever?"

Reason = Annotated[
    str, typer.Option("--reason", help="The reason, and who decided; recorded for ever.")
]

loss = typer.Typer(
    help="Accept that messages are lost.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@loss.callback()
def _group() -> None:
    """Accept that messages are lost."""


@loss.command(short_help="Accept that messages of a source are lost for good.")
def accept(
    context: typer.Context,
    messages: Annotated[
        str, typer.Argument(metavar="FIRST-LAST", help="The sequence numbers of the messages.")
    ],
    source: Annotated[str, typer.Option("--source", metavar="TOPIC/SESSION", help="Their source.")],
    reason: Reason,
    yes: Yes = False,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """Accept that these messages of a source are lost for good.

    The command shows what each store has, and refuses if a store still has one of them. After a
    confirmation the stores record the loss, and the source and its receivers go on without these
    messages.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    from quorate.console.group.repair import (
        parse_range,
        parse_source,
        prospect_of_loss,
    )
    from quorate.console.group.status import (
        ask_all,
        too_few,
    )
    from quorate.protocol.errors import NotLost, QuorateError

    name, lost = parse_source(source), parse_range(messages)
    check_reason(reason)
    answers = run(lambda: ask_all(settings.stores, settings.timeout))
    prospect = prospect_of_loss(answers, name, lost)
    for line in prospect.lines:
        say(line)
    if prospect.still_held:
        names = ", ".join(prospect.still_held)
        raise NotLost(str(name), lost.first, lost.last, names, "some of these messages are there")
    reached = [each for each, answer in answers.items() if not isinstance(answer, QuorateError)]
    if not reached:
        raise too_few("Accepting a loss", answers)
    confirm(RECORD, yes)
    record(settings, reached, name, lost, reason)


def check_reason(reason: str) -> None:
    """Raise InvalidArgument for a reason that says nothing."""
    if not reason.strip():
        raise InvalidArgument("--reason", "must give the reason, and who decided")


def record(
    settings: GroupSettings,
    stores: Sequence[StoreAddress],
    source: SourceName | None,
    lost: Range | None,
    reason: str,
) -> None:
    """Tell these stores to record what was accepted, and show the answer of each.

    lost: None stands for everything that a store in limbo may lack.
    """
    from quorate.console.group.repair import accept as have_accepted

    rows = run(lambda: have_accepted(stores, source, lost, reason, settings.timeout))
    match settings.output:
        case Output.JSON:
            print_json(rows)
        case Output.JSONL:
            print_jsonl(rows)
        case Output.TABLE:
            print_table("Recorded", rows, empty="nothing")
    if not any(row["recorded"] for row in rows):
        raise typer.Exit(FAILED)
