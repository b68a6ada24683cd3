"""`quorate stats`: rates, sizes and gaps of messages, as tables, JSON or a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.options import (
    Master,
    OutputFormat,
    Stores,
    Topics,
    TopicsPattern,
)
from quorate.console.ui.output import (
    Output,
    print_json,
    print_jsonl,
    print_table,
)
from quorate.console.ui.settings import resolve

if TYPE_CHECKING:
    from quorate.pipeline.jobs.stats import StatsReport

Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only messages from this time on, as 2026-01-31T12:00:00Z."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only messages before this time.")
]
Archive = Annotated[
    str | None,
    typer.Option(
        "--archive", metavar="PATH", help="The archive of messages that have left the stores."
    ),
]

_GAPS_SHOWN = 10


def stats(
    context: typer.Context,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    since: Since = None,
    until: Until = None,
    archive: Archive = None,
    gap: Annotated[
        float | None,
        typer.Option(
            "--gap",
            metavar="SECONDS",
            help="How long a silence must be to count as a gap.  [ten times the usual]",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Also draw a picture: .png, .svg or .pdf."),
    ] = None,
    master: Master = None,
    stores: Stores = None,
    output: OutputFormat = None,
) -> None:
    """Show rates, sizes and gaps in time of the stable messages, by topic and by source.

    Needs the extra `archive`.
    """
    settings = resolve(context.meta, stores=stores, output=output)

    from quorate.pipeline.jobs.command import run_stats

    report = run_stats(
        [store.address for store in settings.stores],
        topics=topic or (),
        topics_pattern=topics_pattern,
        since=since,
        until=until,
        archive=archive,
        gap_seconds=gap,
        picture=plot,
        master=master,
        told=say,
    )
    _show(report, settings.output)
    if plot is not None:
        say(f"Drawn: {plot}.")


def _show(report: StatsReport, output: Output) -> None:
    match output:
        case Output.JSON:
            print_json(report.as_object())
        case Output.JSONL:
            print_jsonl(report.sources)
        case Output.TABLE:
            print_table("Topics", list(map(_rates, report.topics)), empty="no messages")
            print_table("Sources", list(map(_rates, report.sources)), empty="no messages")
            print_table("Sizes in bytes", list(map(_sizes, report.topics)), empty="no messages")
            print_table("Longest gaps", list(map(_gap, report.gaps[:_GAPS_SHOWN])), empty="none")


def _rates(row: dict[str, Any]) -> dict[str, Any]:
    named = {name: row[name] for name in ("topic", "source") if name in row}
    return named | {
        "messages": row["messages"],
        "first": _time(row["first"]),
        "last": _time(row["last"]),
        "messages/s": row["messages_per_second"],
        "peak/s": row["peak_per_second"],
        "KiB/s": None if row["bytes_per_second"] is None else row["bytes_per_second"] / 1024,
        "gaps": row["gaps"],
        "longest silence s": row["longest_silence"],
    }


def _sizes(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": row["topic"],
        "smallest": row["smallest"],
        "median": row["median_size"],
        "p99": row["p99_size"],
        "largest": row["largest"],
        "all": row["bytes"],
    }


def _gap(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": row["topic"],
        "since": _time(row["since"]),
        "until": _time(row["until"]),
        "seconds": float(row["seconds"]),
    }


def _time(text: str) -> str:
    """Return a time for people, to the millisecond."""
    return text.replace("T", " ")[:23]
