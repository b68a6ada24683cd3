"""Replaying a range of what the stores and the archive have, in the order of time.

Spark sorts, and hands the rows over one partition after the other; while one is replayed the next
is fetched. The pace is kept in quorate.pipeline.jobs.replay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from quorate.pipeline.jobs.replay import (
    Clock,
    Pace,
    Position,
    Progress,
    Replayed,
    Sink,
    as_time,
    replay,
)
from quorate.pipeline.jobs.replay_sinks import (
    FunctionSink,
    TopicsSink,
)
from quorate.protocol.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_ORDER = ("time_us", "topic", "source", "sequence")


class WallClock:
    """Time as it passes for everybody."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(slots=True)
class BacktestReport:
    """What came of a replay."""

    progress: Progress
    interrupted: bool = False
    """It was stopped before its end."""
    resumed_at: Position | None = None
    """An earlier one of the same name had come so far."""
    last: dict[str, int] = field(default_factory=dict)
    """By topic that was sent to, the number of the last message; all are stable."""

    def as_object(self) -> dict[str, Any]:
        """For JSON; times are text, UTC."""
        progress = self.progress
        seconds = progress.seconds
        return {
            "messages": progress.messages,
            "already": progress.already,
            "bytes": progress.bytes,
            "first": _text(progress.first_us),
            "last": _text(progress.last_us),
            "seconds": round(seconds, 3),
            "original_seconds": progress.original_seconds,
            "speed": progress.original_seconds / seconds if seconds > 0 else None,
            "behind_max_seconds": round(progress.behind_max, 3),
            "interrupted": self.interrupted,
            "resumed_at": _text(self.resumed_at.time_us) if self.resumed_at else None,
            "sent_upto": self.last,
        }


def _text(time_us: int | None) -> str | None:
    return None if time_us is None else as_time(time_us).isoformat(timespec="microseconds")


def backtest(
    table: DataFrame,
    function: Callable[[Replayed], object],
    *,
    speed: float = 1.0,
    clock: Clock | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> BacktestReport:
    """Call a function with each message of the table, in the order of time, at a pace.

    table: as format("quorate") gives it. The order is that of time, topic, source and sequence
    number; a source whose clock was put back is replayed in the order of its clock.
    speed: how many times faster than they came; quorate.pipeline.jobs.replay.FLAT_OUT.
    told: is told once a second how far it is. Ctrl-C ends it, and the report says so. Raises
    InvalidArgument, and FunctionFailed, caused by what the function raised.
    """
    report = BacktestReport(Progress())
    _run(report, ordered(table), FunctionSink(function), speed, clock, told)
    return report


def backtest_to(
    table: DataFrame,
    to: str,
    layout: Layout,
    *,
    name: str,
    speed: float = 1.0,
    clock: Clock | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> BacktestReport:
    """Send each message of the table again, to a topic; see `backtest`.

    to: the topic; `{topic}` in it stands for the message's own. Payload, key and properties stay;
    the properties original-time and original-topic say when and where the message was.
    name: one with the same name, of the same table, goes on where the last one was, so that each
    message is sent once. Returns when all is stable. Raises as Source.open and send, WriteNotOurs.
    """
    report = BacktestReport(Progress())
    with TopicsSink(to, layout, name) as sink:
        report.resumed_at = sink.position
        _run(report, after(ordered(table), sink.position), sink, speed, clock, told)
    report.last = sink.last
    return report


def _run(
    report: BacktestReport,
    rows: DataFrame,
    sink: Sink,
    speed: float,
    clock: Clock | None,
    told: Callable[[str], None],
) -> None:
    pace = Pace(speed)
    try:
        with closing(messages(rows)) as each:
            replay(each, sink, pace, clock or WallClock(), report.progress, told)
    except KeyboardInterrupt:
        report.interrupted = True
        # What was handed over counts.
        sink.flush()


def ordered(table: DataFrame) -> DataFrame:
    """The rows in the order in which they are replayed, with their time as a number."""
    return table.select(
        f.unix_micros("timestamp").alias("time_us"),
        "topic",
        "source",
        "sequence",
        "epoch",
        "payload",
        "key",
        "properties",
    ).orderBy(*_ORDER)


def after(rows: DataFrame, position: Position | None) -> DataFrame:
    """Those behind a position; all, if there is none."""
    if position is None:
        return rows
    here = f.struct(*_ORDER)
    there = f.struct(
        *(f.lit(value).alias(name) for name, value in zip(_ORDER, position, strict=True))
    )
    return rows.where(here > there)


def messages(rows: DataFrame) -> Generator[Replayed, None, None]:
    """The rows of `ordered`, one after the other."""
    for row in rows.toLocalIterator(prefetchPartitions=True):
        yield _message(row)


def _message(row: Row) -> Replayed:
    properties = row.properties or {}
    return Replayed(
        Position(row.time_us, row.topic, row.source, row.sequence),
        row.epoch,
        bytes(row.payload),
        None if row.key is None else bytes(row.key),
        {name: bytes(value) for name, value in properties.items()},
    )
