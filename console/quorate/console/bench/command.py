"""The `quorate bench` command itself: its options, and its exit code."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

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
from quorate.protocol.exit_codes import FAILED


def bench(
    context: typer.Context,
    stores: Annotated[int, typer.Option(min=1, max=9, help="How many stores.")] = 3,
    messages: Annotated[int, typer.Option(min=1, help="How many messages.")] = 1_000_000,
    size: Annotated[int, typer.Option(help="Bytes of each message.")] = 100,
    durability: Annotated[
        str, typer.Option(metavar="fsync|os|memory", help="What the stores mean by stable.")
    ] = "fsync",
    rate: Annotated[
        float | None, typer.Option(help="Messages a second; as many as go if none is given.")
    ] = None,
    receivers: Annotated[int, typer.Option(min=0, max=16, help="How many receivers.")] = 1,
    delivery: Annotated[
        str, typer.Option(metavar="live|stable", help="When receivers get a message.")
    ] = "live",
    kill_store: Annotated[
        bool, typer.Option("--kill-store", help="kill -9 one store at half way.")
    ] = False,
    pause_store: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop one store for so long, from half way on."),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Form of the output.")
    ] = Output.TABLE,
) -> None:
    """Measure throughput and latency with stores, a source and receivers of its own.

    Every message is checked by every receiver; anything missing, wrong or out of order fails it.
    """
    context.meta[OUTPUT_KEY] = output
    from quorate.console.bench.driver import Bench, Failed
    from quorate.console.bench.report import figures, rows
    from quorate.console.bench.settings import Settings
    from quorate.console.ui.running import run

    settings = Settings(
        stores=stores,
        messages=messages,
        size=size,
        durability=durability,
        rate=rate,
        receivers=receivers,
        delivery=delivery,
        kill_store=kill_store,
        pause_store=pause_store,
    )
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", ignore_cleanup_errors=True) as where:
        try:
            outcome = run(lambda: Bench(settings, Path(where)).run())
        except Failed as failed:
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
