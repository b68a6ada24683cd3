"""The `quorate bench` command itself: its options, and its exit code."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

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
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Format of the output.")
    ] = Output.TABLE,
) -> None:
    """Measure throughput and latency with stores, a source and receivers of its own.

    Every receiver checks every message. A message that is missing, wrong or out of order fails the
    run.
    """
    context.meta[OUTPUT_KEY] = output
    from quorate.console.bench.driver import Bench, BenchFailed
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
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", ignore_cleanup_errors=True) as where:
        try:
            outcome = run(lambda: Bench(settings, Path(where)).run())
        except BenchFailed as failed:
            say(str(failed), style="bold red", label="bench failed")
            raise typer.Exit(FAILED) from failed
    result = figures(settings, outcome)
    if output is Output.JSON:
        print_json(result)
    elif output is Output.JSONL:
        print_jsonl([result])
    else:
        print_table("quorate bench", rows(result), "")
    for problem in outcome.problems:
        say(problem, style="bold red", label="bench failed")
    if outcome.problems:
        raise typer.Exit(FAILED)
