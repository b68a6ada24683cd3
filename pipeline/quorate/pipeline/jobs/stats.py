"""Statistics of a table of messages: rates, sizes and gaps in time, by topic and by source.

Spark computes them, and the results are small. The messages of a batch have one time. So all
figures are computed from cells: the number of messages of one size, at one time, in one source.
Nothing here draws or prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from quorate.protocol.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BY_SOURCE = ("topic", "source")
BY_TOPIC = ("topic",)
BUCKETS_MAX = 240
"""Most points of a rate over time."""
GAPS_MAX = 100
"""Most gaps that a report names. It names the longest ones."""

_WIDTHS = (0.001, 0.01, 0.1, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400, 604_800)
_QUIET_INTERVALS = 10
_QUIET_SECONDS_MIN = 1.0


def cells(table: DataFrame) -> DataFrame:
    """Return the cells of a table: topic, source, timestamp, size, messages.

    table: the rows of format("quorate"), or at least topic, source, timestamp and payload.
    """
    size = f.octet_length("payload")
    if "key" in table.columns:
        size = size + f.coalesce(f.octet_length("key"), f.lit(0))
    return (
        table.select("topic", "source", "timestamp", size.alias("size"))
        .groupBy("topic", "source", "timestamp", "size")
        .agg(f.count(f.lit(1)).alias("messages"))
    )


def stats(
    table: DataFrame, *, by: Sequence[str] = BY_SOURCE, gap_seconds: float | None = None
) -> DataFrame:
    """Return a row for each source, or, with by=("topic",), for each topic.

    gap_seconds: the least seconds without a message that count as a gap. None: ten times the median
    time between two messages, and at least a second.
    Sizes are bytes of payload and key. Rates are over the time from the first to the last message,
    and null if that is 0.
    """
    return summary(cells(table), by=by, gap_seconds=gap_seconds)


def summary(
    cells: DataFrame, *, by: Sequence[str] = BY_SOURCE, gap_seconds: float | None = None
) -> DataFrame:
    """Return what `stats` returns, computed from cells."""
    _check(by, gap_seconds)
    size = f.col("size").cast("bigint")
    quantiles = f.percentile("size", f.array(f.lit(0.5), f.lit(0.99)), f.col("messages"))
    totals = (
        cells.groupBy(*by)
        .agg(
            f.sum("messages").alias("messages"),
            f.sum(size * f.col("messages")).alias("bytes"),
            f.min(size).alias("smallest"),
            quantiles.alias("quantiles"),
            f.max(size).alias("largest"),
            f.min("timestamp").alias("first"),
            f.max("timestamp").alias("last"),
        )
        .withColumn("seconds", _seconds_between("first", "last"))
    )
    seconds = f.when(f.col("seconds") > 0, f.col("seconds"))
    quiet = (
        _silences(cells, by, gap_seconds)
        .groupBy(*by)
        .agg(
            f.max("gap_over").alias("gap_over"),
            f.sum((f.col("seconds") > f.col("gap_over")).cast("bigint")).alias("gaps"),
            f.max("seconds").alias("longest_silence"),
            f.max_by("since", "seconds").alias("silent_since"),
        )
    )
    peak = (
        cells.groupBy(*by, f.window("timestamp", "1 second"))
        .agg(f.sum("messages").alias("messages"))
        .groupBy(*by)
        .agg(f.max("messages").alias("peak_per_second"))
    )
    return (
        totals.join(peak, list(by))
        .join(quiet, list(by), "left")
        .select(
            *by,
            "messages",
            "bytes",
            "first",
            "last",
            "seconds",
            (f.col("messages") / seconds).alias("messages_per_second"),
            (f.col("bytes") / seconds).alias("bytes_per_second"),
            "peak_per_second",
            "smallest",
            f.col("quantiles")[0].cast("bigint").alias("median_size"),
            f.col("quantiles")[1].cast("bigint").alias("p99_size"),
            "largest",
            f.coalesce("gaps", f.lit(0)).alias("gaps"),
            "gap_over",
            "longest_silence",
            "silent_since",
        )
        .orderBy(*by)
    )


def gaps(
    cells: DataFrame, *, by: Sequence[str] = BY_SOURCE, gap_seconds: float | None = None
) -> DataFrame:
    """Return a row for each gap, the longest first: since, until, seconds. See `stats`."""
    _check(by, gap_seconds)
    return (
        _silences(cells, by, gap_seconds)
        .where(f.col("seconds") > f.col("gap_over"))
        .select(*by, "since", "until", "seconds")
        .orderBy(f.col("seconds").desc(), "since", *by)
    )


def rates(cells: DataFrame, width_seconds: float) -> DataFrame:
    """Return topic, start, messages and bytes for each stretch of time that has a message.

    width_seconds: the length of each stretch.
    """
    return (
        cells.groupBy(
            "topic", f.window("timestamp", f"{round(width_seconds * 1_000_000)} microseconds")
        )
        .agg(
            f.sum("messages").alias("messages"),
            f.sum(f.col("size") * f.col("messages")).alias("bytes"),
        )
        .select("topic", f.col("window.start").alias("start"), "messages", "bytes")
        .orderBy("topic", "start")
    )


def sizes(cells: DataFrame) -> DataFrame:
    """Return topic, size and messages: the number of messages above half of size, up to size.

    The sizes are 0 and powers of two.
    """
    power = f.pow(f.lit(2), f.ceil(f.log2(f.greatest("size", f.lit(1))))).cast("bigint")
    return (
        cells.groupBy("topic", f.when(f.col("size") == 0, 0).otherwise(power).alias("size"))
        .agg(f.sum("messages").alias("messages"))
        .orderBy("topic", "size")
    )


def _silences(cells: DataFrame, by: Sequence[str], gap_seconds: float | None) -> DataFrame:
    """Return each silence between two messages, and the seconds above which it counts as a gap."""
    times = cells.select(*by, "timestamp").distinct()
    after = Window.partitionBy(*by).orderBy("timestamp")
    silences = (
        times.select(*by, f.lag("timestamp").over(after).alias("since"), "timestamp")
        .where(f.col("since").isNotNull())
        .select(
            *by,
            "since",
            f.col("timestamp").alias("until"),
            _seconds_between("since", "timestamp").alias("seconds"),
        )
    )
    if gap_seconds is not None:
        return silences.withColumn("gap_over", f.lit(float(gap_seconds)))
    usual = silences.groupBy(*by).agg(
        f.greatest(
            f.percentile_approx("seconds", 0.5) * _QUIET_INTERVALS, f.lit(_QUIET_SECONDS_MIN)
        ).alias("gap_over")
    )
    return silences.join(usual, list(by))


def _seconds_between(first: str, last: str) -> Column:
    return (f.unix_micros(last) - f.unix_micros(first)) / 1_000_000


def _check(by: Sequence[str], gap_seconds: float | None) -> None:
    if tuple(by) not in (BY_SOURCE, BY_TOPIC):
        raise InvalidArgument("by", f"{tuple(by)} is neither {BY_SOURCE} nor {BY_TOPIC}")
    check_gap(gap_seconds)


def check_gap(gap_seconds: float | None) -> None:
    """Raise InvalidArgument if no gap can be so long."""
    if gap_seconds is not None and not gap_seconds > 0:
        raise InvalidArgument("--gap", f"{gap_seconds} is not a number of seconds above 0")


# -- a report ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatsReport:
    """The statistics that `quorate stats` shows. Times are text, in UTC."""

    topics: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    """The longest gaps by topic, the longest first, at most GAPS_MAX."""
    width_seconds: float
    """Seconds of each stretch of time in `rates`."""
    rates: list[dict[str, Any]]
    sizes: list[dict[str, Any]]

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def report(table: DataFrame, *, gap_seconds: float | None = None) -> StatsReport:
    """Return all statistics. The table is read only once."""
    found = cells(table).persist()
    try:
        topics = _collected(summary(found, by=BY_TOPIC, gap_seconds=gap_seconds))
        span = max((topic["seconds"] for topic in topics), default=0.0)
        width = next((each for each in _WIDTHS if span / each <= BUCKETS_MAX), _WIDTHS[-1])
        return StatsReport(
            topics,
            _collected(summary(found, gap_seconds=gap_seconds)),
            _collected(gaps(found, by=BY_TOPIC, gap_seconds=gap_seconds).limit(GAPS_MAX)),
            float(width),
            _collected(rates(found, width)),
            _collected(sizes(found)),
        )
    finally:
        found.unpersist()


def _collected(frame: DataFrame) -> list[dict[str, Any]]:
    times = [name for name, kind in frame.dtypes if kind == "timestamp"]
    for name in times:
        frame = frame.withColumn(name, f.date_format(name, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"))
    return [row.asDict() for row in frame.collect()]
