"""`quorate repair`: stores fetch the messages that they lack."""

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
    from quorate.console.group.repair import Row
    from quorate.protocol.identity import SourceName


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
) -> None:
    """Repair the stores now, and compare them. Exit 0 only if nothing is missing or differs.

    A store that is in limbo as a whole cannot name what it lacks, and counts as lacking.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    from quorate.console.group.repair import parse_source

    _repair(settings, parse_source(source) if source is not None else None, thorough)


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
                    "gone for good: `quorate loss accept FIRST-LAST --source "
                    f"{lacking[0]['source']} --reason WHY`, for each range."
                )
            if differing := [row for row in rows if row["divergent"]]:
                say(
                    "Stores hold different content. `quorate status` names them, and the commands "
                    "that settle it: `quorate conflict settle --source "
                    f"{differing[0]['source']} --keep STORE --reason WHY`."
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
