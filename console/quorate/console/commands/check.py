"""`quorate check`: everything that is wrong in a group, the worst first, with the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.options import OutputFormat, Stores, Topics, TopicsPattern, pattern_for
from quorate.console.ui.output import Output, print_json, print_jsonl, unfolded_console
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve
from quorate.protocol.exit_codes import UNHEALTHY

if TYPE_CHECKING:
    from quorate.console.group.rules.findings import Finding

_INDENT = 4
_STYLES = {"critical": "bold red", "warning": "yellow", "note": "cyan"}


def check(
    context: typer.Context,
    stores: Stores = None,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    lag_max: Annotated[
        int, typer.Option(min=0, help="Stable messages that a healthy store may lack.")
    ] = 100_000,
    receiver_lag_max: Annotated[
        int, typer.Option(min=0, help="Messages that a receiver may be behind.")
    ] = 100_000,
    subscriber_lag_max: Annotated[
        int, typer.Option(min=0, help="Messages that a subscriber may be behind.")
    ] = 1_000_000,
    certificate_days: Annotated[
        float, typer.Option(min=0, help="Days that a certificate should still be valid.")
    ] = 21.0,
    clock_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds that clocks of stores may be apart.")
    ] = 1.0,
    queue_backlog_max: Annotated[
        int, typer.Option(min=0, help="Messages of a queue that may wait for a consumer.")
    ] = 10_000,
    row_lag_max: Annotated[
        int, typer.Option(min=0, help="Stable messages that rows of the state may be behind.")
    ] = 100_000,
    row_lag_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds that rows of the state may be behind.")
    ] = 60.0,
    tail_seconds: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds in which what a source sent should become stable, or a part of it."
        ),
    ] = 2.0,
    rows: Annotated[
        bool,
        typer.Option(
            "--rows", help="Compare the rows of topics with keys, too. Each store reads them all."
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds to wait for each store.")
    ] = 5.0,
    output: OutputFormat = None,
) -> None:
    """Show everything that is wrong, the worst first, with what it means and the next step.

    Exit 0 if the group is healthy, 10 if it is not, 69 if no store answers. A note makes no group
    unhealthy.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    pattern = pattern_for(topic or (), topics_pattern)

    from quorate.console.group.check import check as check_group
    from quorate.console.group.rules.findings import Bounds, is_healthy

    bounds = Bounds(
        lag_max,
        receiver_lag_max,
        subscriber_lag_max,
        certificate_days,
        clock_seconds,
        queue_backlog_max,
        row_lag_max,
        row_lag_seconds,
    )
    found = run(
        lambda: check_group(
            settings.stores, settings.timeout, pattern, bounds, tail_seconds, rows=rows
        )
    )
    healthy = is_healthy(found)
    match settings.output:
        case Output.JSON:
            print_json({"healthy": healthy, "findings": [each.row() for each in found]})
        case Output.JSONL:
            print_jsonl(each.row() for each in found)
        case Output.TABLE:
            _show(found)
            if healthy:
                say("Healthy.", "green")
    if not healthy:
        raise typer.Exit(UNHEALTHY)


def _show(found: Sequence[Finding]) -> None:
    """Print each finding as a paragraph of three lines."""
    from rich.padding import Padding
    from rich.text import Text

    console = unfolded_console()
    for each in found:
        head = Text(f"{each.severity.value.upper()}  ", style=_STYLES[each.severity])
        console.print(head.append(each.what, style=""))
        console.print(Padding(Text(each.means, style="dim"), (0, 0, 0, _INDENT), expand=False))
        step = Text("Next: ", style="bold").append(each.next, style="not bold")
        console.print(Padding(step, (0, 0, 0, _INDENT), expand=False))
        console.print()
