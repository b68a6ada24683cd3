"""The `quorate bench` command itself: its options, and its exit code."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from quorate.console.bench.settings import BenchSettings, KeptIn, rate_of_all
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
    sources: Annotated[
        int, typer.Option(min=1, max=100_000, help="The number of sources of each process.")
    ] = 1,
    processes: Annotated[
        int, typer.Option(min=1, max=1000, help="The number of processes that send.")
    ] = 1,
    messages: Annotated[
        int, typer.Option(min=1, help="The number of messages of all sources together.")
    ] = 1_000_000,
    warm_up: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="MESSAGES",
            help="Messages that come first and are not measured.  [a tenth, at most 51,200]",
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Bytes of each message.")] = 100,
    durability: Annotated[
        str, typer.Option(metavar="fsync|os|memory", help="The stores' durability.")
    ] = "fsync",
    rate: Annotated[
        float | None,
        typer.Option(help="Messages a second of all sources together.  [as many as possible]"),
    ] = None,
    messages_per_source_per_second: Annotated[
        float | None, typer.Option(help="Messages a second of each source, in place of --rate.")
    ] = None,
    receivers: Annotated[
        int, typer.Option(min=0, max=100, help="The number of receivers, a process each.")
    ] = 1,
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
    """Measure throughput, latency and CPU time with stores, sources and receivers of its own.

    Every receiver checks every message of every source. A message that is missing, wrong or out of
    order fails the run. CPU time is that of all processes of a role, and of all roles. With
    --repeat the figures are medians, with the least and the greatest.
    """
    context.meta[OUTPUT_KEY] = output
    from quorate.console.bench.driver import Bench, BenchFailed
    from quorate.console.bench.repeats import with_ranges
    from quorate.console.bench.report import figures, rows
    from quorate.console.ui.running import run

    settings = BenchSettings(
        stores=stores,
        sources=sources,
        processes=processes,
        messages=messages,
        warm_up=warm_up,
        size=size,
        durability=durability,
        rate=rate_of_all(rate, messages_per_source_per_second, sources, processes),
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
