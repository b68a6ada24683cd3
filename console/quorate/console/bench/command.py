"""The `quorate bench` command itself: its options, and its exit code."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from quorate.console.bench.settings import BenchSettings, KeptIn
from quorate.console.ui.exits import (
    OUTPUT_KEY,
    say,
)
from quorate.console.ui.output import (
    Output,
    print_json,
    print_jsonl,
    print_table,
)
from quorate.protocol.delivery import DELIVERY_DEFAULT, Delivery
from quorate.protocol.exit_codes import FAILED


def bench(
    context: typer.Context,
    stores: Annotated[int, typer.Option(min=1, max=9, help="The number of stores.")] = 3,
    messages: Annotated[int, typer.Option(min=1, help="The number of messages.")] = 1_000_000,
    size: Annotated[int, typer.Option(help="Bytes of each message.")] = 100,
    durability: Annotated[
        str, typer.Option(metavar="fsync|os|memory", help="The stores' durability.")
    ] = "fsync",
    rate: Annotated[
        float | None, typer.Option(help="Messages a second.  [as many as possible]")
    ] = None,
    receivers: Annotated[int, typer.Option(min=0, max=16, help="The number of receivers.")] = 1,
    delivery: Annotated[
        Delivery, typer.Option(help="Hand over a message at once, or when it is stable.")
    ] = DELIVERY_DEFAULT,
    publish_store: Annotated[
        KeptIn,
        typer.Option(help="The place where the source keeps what is not stable yet."),
    ] = KeptIn.MEMORY,
    tls: Annotated[
        bool, typer.Option("--tls", help="Secure connections, with certificates made for it.")
    ] = False,
    kill_store: Annotated[
        bool, typer.Option("--kill-store", help="Kill one store with SIGKILL at half way.")
    ] = False,
    pause_store: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Pause one store for this long, from half way on."),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, max=99, help="The number of runs; their medians are printed.")
    ] = 1,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Format of the output.")
    ] = Output.TABLE,
) -> None:
    """Measure throughput and latency with stores, a source and receivers of its own.

    Every receiver checks every message. A message that is missing, wrong or out of order fails the
    run. With --repeat the figures are medians, with the least and the greatest.
    """
    context.meta[OUTPUT_KEY] = output
    from quorate.console.bench.driver import Bench, BenchFailed
    from quorate.console.bench.repeats import with_ranges
    from quorate.console.bench.report import figures, rows
    from quorate.console.ui.running import run

    settings = BenchSettings(
        stores=stores,
        messages=messages,
        size=size,
        durability=durability,
        rate=rate,
        receivers=receivers,
        delivery=delivery.value,
        publish_store=publish_store.value,
        tls=tls,
        kill_store=kill_store,
        pause_store=pause_store,
    )
    results, problems = list[dict[str, Any]](), list[str]()
    for number in range(1, repeat + 1):
        if repeat > 1:
            say(f"run {number} of {repeat} ...")
        with tempfile.TemporaryDirectory(prefix="quorate-bench-", ignore_cleanup_errors=True) as at:
            try:
                outcome = run(partial(Bench(settings, Path(at)).run))
            except BenchFailed as failed:
                say(str(failed), style="bold red", label="bench failed")
                raise typer.Exit(FAILED) from failed
        results.append(figures(settings, outcome))
        problems += outcome.problems
    result = results[0] if repeat == 1 else with_ranges(results)
    if output is Output.JSON:
        print_json(result)
    elif output is Output.JSONL:
        print_jsonl([result])
    else:
        print_table("quorate bench", rows(result), "")
    for problem in problems:
        say(problem, style="bold red", label="bench failed")
    if problems:
        raise typer.Exit(FAILED)
