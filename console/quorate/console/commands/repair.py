"""`quorate repair`: stores fetch the messages that they lack; an operator accepts a loss."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.options import (
    OutputFormat,
    Stores,
    Timeout,
)
from quorate.console.ui.output import (
    Output,
    people_watch,
    print_json,
    print_jsonl,
    print_table,
)
from quorate.console.ui.running import run
from quorate.console.ui.settings import (
    GroupSettings,
    resolve,
)
from quorate.protocol.exit_codes import FAILED, UNREACHABLE

if TYPE_CHECKING:
    from quorate.console.group.repair import (
        Prospect,
        Row,
    )
    from quorate.protocol.identity import SourceName, StoreAddress


def repair(
    context: typer.Context,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="TOPIC/SESSION", help="Only this source.  [all]"),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help="Read and check every message, not only the missing ones."),
    ] = False,
    accept_loss: Annotated[
        str | None,
        typer.Option(
            "--accept-loss",
            metavar="FIRST-LAST",
            help="Accept that these messages of --source are lost for good.",
        ),
    ] = None,
    leave_limbo: Annotated[
        bool,
        typer.Option(
            "--leave-limbo", help="End the limbo of --store, with the messages that it has."
        ),
    ] = False,
    store: Annotated[
        str | None, typer.Option("--store", metavar="NAME", help="The store that leaves limbo.")
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option("--reason", help="The reason, and who decided; recorded for ever."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Record it without a question.")] = False,
) -> None:
    """Repair the stores now, and compare them. Exit 0 only if nothing is missing or differs.

    A store that is in limbo as a whole cannot name what it lacks, and counts as lacking.

    With --accept-loss or --leave-limbo nothing is repaired. The command shows what would be lost.
    After a confirmation the stores record the loss, and go on without these messages.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    from quorate.console.group.repair import (
        parse_range,
        parse_source,
    )
    from quorate.protocol.errors import InvalidArgument

    name = parse_source(source) if source is not None else None
    if accept_loss is not None and leave_limbo:
        raise InvalidArgument("--leave-limbo", "cannot go with --accept-loss")
    if accept_loss is not None:
        if name is None:
            raise InvalidArgument("--accept-loss", "needs --source TOPIC/SESSION")
        _accept_loss(settings, name, parse_range(accept_loss), _given(reason), yes)
    elif leave_limbo:
        _leave_limbo(settings, _given_store(store), name, _given(reason), yes)
    elif reason is not None or store is not None or yes:
        raise InvalidArgument(
            "--reason, --store, --yes", "go with --accept-loss or --leave-limbo only"
        )
    else:
        _repair(settings, name, thorough)


def _given(reason: str | None) -> str:
    from quorate.protocol.errors import InvalidArgument

    if not reason or not reason.strip():
        raise InvalidArgument("--reason", "must give the reason, and who decided")
    return reason


def _given_store(store: str | None) -> str:
    from quorate.protocol.errors import InvalidArgument

    if store is None:
        raise InvalidArgument("--leave-limbo", "needs --store NAME, as `quorate status` shows it")
    return store


# Repair.


def _repair(settings: GroupSettings, source: SourceName | None, thorough: bool) -> None:
    from quorate.console.group.repair import repair_all

    with _Progress(settings.output) as progress:
        rows = run(
            lambda: repair_all(settings.stores, source, thorough, settings.timeout, progress.tell)
        )
    match settings.output:
        case Output.JSON:
            print_json(rows)
        case Output.TABLE:
            print_table("Repair", rows, empty="no store knows a source")
            if lacking := [row for row in rows if row["lacking"]]:
                say(
                    "No store that answered has the messages that are still missing. Start the "
                    "stores that did not answer, or put back a disk that has them. If they are "
                    "gone for good: `quorate repair --accept-loss FIRST-LAST --source "
                    f"{lacking[0]['source']} --reason WHY`, for each range."
                )
    if not all(row["complete"] for row in rows):
        silent = all(row["source"] is None and not row["limbo"] for row in rows)
        raise typer.Exit(UNREACHABLE if silent else FAILED)


class _Progress:
    """Progress: every row for programs, bars on a terminal."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._bars: Any = None
        self._tasks: dict[tuple[str, str | None], Any] = {}

    def __enter__(self) -> _Progress:
        if self._output is Output.TABLE and people_watch():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f} of {task.total:,.0f} messages"),
                console=Console(stderr=True),
                transient=True,
            )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def tell(self, row: Row) -> None:
        if self._output is Output.JSONL:
            print_jsonl([row])
            sys.stdout.flush()
        if self._bars is None:
            return
        key = row["store"], row["source"]
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task(f"{row['store']} {row['source'] or ''}", total=0)
        self._bars.update(
            self._tasks[key],
            completed=row["filled_messages"],
            total=row["filled_messages"] + row["lacking"],
        )


# Losses that an operator accepts.


def _accept_loss(
    settings: GroupSettings, source: SourceName, lost: Any, reason: str, yes: bool
) -> None:
    from quorate.console.group.repair import prospect_of_loss
    from quorate.console.group.status import (
        ask_all,
        too_few,
    )
    from quorate.protocol.errors import NotLost, QuorateError

    answers = run(lambda: ask_all(settings.stores, settings.timeout))
    prospect = prospect_of_loss(answers, source, lost)
    _show(prospect)
    if prospect.still_held:
        names = ", ".join(prospect.still_held)
        raise NotLost(str(source), lost.first, lost.last, names, "some of these messages are there")
    reached = [each for each, answer in answers.items() if not isinstance(answer, QuorateError)]
    if not reached:
        raise too_few("Accepting a loss", answers)
    _confirm(yes)
    _record(settings, reached, source, lost, reason)


def _leave_limbo(
    settings: GroupSettings, named: str, source: SourceName | None, reason: str, yes: bool
) -> None:
    from quorate.console.group.repair import (
        named_store,
        prospect_of_leaving,
    )
    from quorate.console.group.status import ask_all

    answers = run(lambda: ask_all(settings.stores, settings.timeout))
    store = named_store(answers, named)
    _show(prospect_of_leaving(answers, store, source))
    _confirm(yes)
    _record(settings, [store], source, None, reason)


def _show(prospect: Prospect) -> None:
    for line in prospect.lines:
        say(line)


def _confirm(yes: bool) -> None:
    from quorate.protocol.errors import InvalidArgument

    if yes:
        return
    if not people_watch(sys.stdin):
        raise InvalidArgument("--yes", "must be given where no person can be asked")
    typer.confirm("Record this, for ever?", abort=True, err=True)


def _record(
    settings: GroupSettings,
    stores: list[StoreAddress],
    source: SourceName | None,
    lost: Any,
    reason: str,
) -> None:
    from quorate.console.group.repair import accept

    rows = run(lambda: accept(stores, source, lost, reason, settings.timeout))
    match settings.output:
        case Output.JSON:
            print_json(rows)
        case Output.JSONL:
            print_jsonl(rows)
        case Output.TABLE:
            print_table("Recorded", rows, empty="nothing")
    if not any(row["recorded"] for row in rows):
        raise typer.Exit(FAILED)
