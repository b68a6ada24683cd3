"""The backtest: it replays messages of the stores and the archive, in the order of time.

What stores and an archive have is merged by quorate.pipeline.jobs.merging. The rows of a DataFrame
are sorted by Spark, and handed over partition by partition. While one partition is replayed, the
next is fetched. quorate.pipeline.jobs.replay keeps the pace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from quorate.pipeline.jobs.merging import StoredTable
from quorate.pipeline.jobs.replay import (
    NO_PROPERTIES,
    SLICE_MESSAGES_MAX,
    Clock,
    Pace,
    Position,
    Replayed,
    ReplayProgress,
    Sink,
    Slice,
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
    """The clock of this machine."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(slots=True)
class BacktestReport:
    """The result of a replay."""

    progress: ReplayProgress
    interrupted: bool = False
    """The replay was stopped before its end."""
    resumed_at: Position | None = None
    """The position up to which an earlier replay of the same name had come; None: none had."""
    last: dict[str, int] = field(default_factory=dict)
    """By topic that was sent to, the number of the last message. All messages are stable."""

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON. Times are text, in UTC."""
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
    table: DataFrame | StoredTable,
    function: Callable[[Replayed], object],
    *,
    speed: float = 1.0,
    clock: Clock | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> BacktestReport:
    """Call a function with each message of the table, in the order of time, at a pace.

    The order is that of time, topic, source and sequence number. If the clock of a source was put
    back, Spark goes by its clock, and a StoredTable by its numbers. Ctrl-C ends the replay, and the
    report says so.

    - table: the rows of format("quorate"), or a table that no Spark reads.
    - speed: times faster than the original; quorate.pipeline.jobs.replay.FLAT_OUT waits for
      nothing.
    - told: a function that gets a line about the progress every second.

    Raises InvalidArgument, and FunctionFailed, caused by the error of the function.
    """
    report = BacktestReport(ReplayProgress())
    _run(report, _messages_of(table, None), FunctionSink(function), speed, clock, told)
    return report


def backtest_to(
    table: DataFrame | StoredTable,
    to: str,
    layout: Layout,
    *,
    name: str,
    speed: float = 1.0,
    clock: Clock | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> BacktestReport:
    """Send each message of the table again, to a topic, and return when all are stable.

    Payload, key and properties stay. The properties original-time and original-topic are added.
    `backtest` explains the order and the pace.

    - to: the topic; `{topic}` in it stands for the topic of the message.
    - name: a replay with the same name, of the same table, goes on where the last one ended. So
      each message is sent once.

    Raises as Source.open and Source.send, and WriteNotOurs.
    """
    report = BacktestReport(ReplayProgress())
    with TopicsSink(to, layout, name) as sink:
        report.resumed_at = sink.position
        _run(report, _messages_of(table, sink.position), sink, speed, clock, told)
    report.last = sink.last
    return report


def _run(
    report: BacktestReport,
    messages: Generator[Slice, None, None],
    sink: Sink,
    speed: float,
    clock: Clock | None,
    told: Callable[[str], None],
) -> None:
    pace = Pace(speed)
    try:
        with closing(messages):
            replay(messages, sink, pace, clock or WallClock(), report.progress, told)
    except KeyboardInterrupt:
        report.interrupted = True
        # Messages that were handed over are sent.
        sink.flush()


def _messages_of(
    table: DataFrame | StoredTable, position: Position | None
) -> Generator[Slice, None, None]:
    if isinstance(table, StoredTable):
        return table.slices(position)
    return slices(after(ordered(table), position))


def ordered(table: DataFrame) -> DataFrame:
    """Return the rows in the order of the replay, with their time as a number of µs."""
    from pyspark.sql import functions as f

    return table.select(
        f.unix_micros("timestamp").alias("time_us"),
        "topic",
        "source",
        "sequence",
        "epoch",
        "payload",
        "key",
        "properties",
        "deleted",
        f.unix_micros("expires").alias("expires_us"),
    ).orderBy(*_ORDER)


def after(rows: DataFrame, position: Position | None) -> DataFrame:
    """Return the rows behind a position; all rows if it is None."""
    from pyspark.sql import functions as f

    if position is None:
        return rows
    here = f.struct(*_ORDER)
    there = f.struct(
        *(f.lit(value).alias(name) for name, value in zip(_ORDER, position, strict=True))
    )
    return rows.where(here > there)


def slices(rows: DataFrame) -> Generator[Slice, None, None]:
    """Yield the rows of `ordered` as messages."""
    each = rows.toLocalIterator(prefetchPartitions=True)
    while some := list(islice(each, SLICE_MESSAGES_MAX)):
        yield _slice(some)


def _slice(rows: Sequence[Row]) -> Slice:
    times, topics, sources, sequences, epochs, payloads, keys, properties, deleted, expires = zip(
        *rows, strict=True
    )
    return Slice(
        times,
        topics,
        sources,
        sequences,
        epochs,
        [bytes(payload) for payload in payloads],
        [None if key is None else bytes(key) for key in keys],
        [
            {name: bytes(value) for name, value in each.items()} if each else NO_PROPERTIES
            for each in properties
        ],
        deleted,
        expires,
        times,
    )
