"""The job that counts messages: rates, sizes and gaps in time, by topic and by source.

Tasks read ranges and report counts by moment and by size. All figures are computed from these
counts, where the job runs. Nothing here draws, prints, or knows Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.pipeline.archive.tasks import Run
from quorate.pipeline.jobs.counting import Counts, by_source, count_part, joined
from quorate.pipeline.options import ReadOptions
from quorate.pipeline.read.ranges import stores_of, wanted_ranges
from quorate.pipeline.rules.planning import plan
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.times import moment_of

BUCKETS_MAX = 240
"""Most points of a rate over time."""
GAPS_MAX = 100
"""Most gaps that a report names. It names the longest ones."""
PART_MESSAGES_MIN = 250_000
"""Fewer messages are not worth a task of their own."""
PART_MESSAGES_MAX = 2_000_000

_WIDTHS = (0.001, 0.01, 0.1, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600, 86_400, 604_800)
_QUIET_INTERVALS = 10
_QUIET_SECONDS_MIN = 1.0
_SECOND_US = 1_000_000

Figures = dict[str, Any]
"""A row of a report."""


def _quiet(_: str) -> None:
    """Drop a line about the progress of the job."""


@dataclass(frozen=True, slots=True)
class StatsReport:
    """The statistics that `quorate stats` shows. Times are text, in UTC."""

    topics: list[Figures]
    sources: list[Figures]
    gaps: list[Figures]
    """The longest gaps by topic, the longest first, at most GAPS_MAX."""
    width_seconds: float
    """Seconds of each stretch of time in `rates`."""
    rates: list[Figures]
    sizes: list[Figures]

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def check_gap(gap_seconds: float | None) -> None:
    """Raise InvalidArgument if no gap can be so long."""
    if gap_seconds is not None and not gap_seconds > 0:
        raise InvalidArgument("--gap", f"{gap_seconds} is not a number of seconds above 0")


def stats(
    run: Run,
    options: ReadOptions,
    *,
    parts: int = 2,
    gap_seconds: float | None = None,
    told: Callable[[str], None] = _quiet,
) -> StatsReport:
    """Read the messages that options select once, and return their statistics.

    - run: runs the tasks, as quorate.pipeline.archive.tasks.on_spark does.
    - parts: the number of tasks that run at the same time.
    - gap_seconds: as of `report`.
    - told: a function that gets lines about the progress.

    Raises InvalidArgument, TaskFailed, and as quorate.pipeline.read.ranges.wanted_ranges.
    """
    check_gap(gap_seconds)
    stores = stores_of(options)
    ranges = wanted_ranges(stores, options)
    planned = plan(
        ranges,
        parts=parts,
        part_messages_max=PART_MESSAGES_MAX,
        part_messages_min=PART_MESSAGES_MIN,
    )
    messages = sum(map(len, planned))
    told(f"counting {messages:,} messages in {len(planned)} parts")
    task = partial(count_part, stores=stores, fail_on_data_loss=options.fail_on_data_loss)
    return report(by_source(run(planned, task)), gap_seconds=gap_seconds)


def report(counts: Mapping[SourceName, Counts], *, gap_seconds: float | None = None) -> StatsReport:
    """Return all statistics of sources.

    Sizes are bytes of payload and key. Rates are over the time from the first to the last message,
    and None if that is 0.

    gap_seconds: the least seconds without a message that count as a gap. None: ten times the median
    time between two messages, and at least a second.
    """
    topics = _by_topic(counts)
    silences = {name: _silences(each, gap_seconds) for name, each in topics.items()}
    span = max((_seconds(each) for each in topics.values()), default=0.0)
    width = next((each for each in _WIDTHS if span / each <= BUCKETS_MAX), _WIDTHS[-1])
    return StatsReport(
        [{"topic": name} | _figures(each, silences[name]) for name, each in topics.items()],
        [
            {"topic": name.topic, "source": f"{name.session_id:#x}"}
            | _figures(each, _silences(each, gap_seconds))
            for name, each in sorted(counts.items(), key=lambda one: _place(one[0]))
        ],
        _longest([gap for name, each in silences.items() for gap in each.gaps(name)]),
        float(width),
        [rate for name, each in topics.items() for rate in _rates(name, each, width)],
        [size for name, each in topics.items() for size in _sizes(name, each)],
    )


def _place(source: SourceName) -> tuple[str, str]:
    return source.topic, f"{source.session_id:#x}"


def _by_topic(counts: Mapping[SourceName, Counts]) -> dict[str, Counts]:
    found: dict[str, list[Counts]] = {}
    for source, each in counts.items():
        found.setdefault(source.topic, []).append(each)
    return {topic: joined(found[topic]) for topic in sorted(found)}


def _text(time_us: int) -> str:
    return f"{moment_of(time_us * 1000):%Y-%m-%dT%H:%M:%S.%fZ}"


def _seconds(counts: Counts) -> float:
    times = counts.moments["time_us"]
    seconds: float = (times[-1].as_py() - times[0].as_py()) / _SECOND_US
    return seconds


def _figures(counts: Counts, silences: _Silences) -> Figures:
    times, sizes = counts.moments["time_us"], counts.sizes["size"]
    messages, size = counts.messages, pc.sum(counts.moments["bytes"]).as_py()
    seconds = _seconds(counts)
    return {
        "messages": messages,
        "bytes": size,
        "first": _text(times[0].as_py()),
        "last": _text(times[-1].as_py()),
        "seconds": seconds,
        "messages_per_second": messages / seconds if seconds else None,
        "bytes_per_second": size / seconds if seconds else None,
        "peak_per_second": pc.max(_stretches(counts, _SECOND_US)["messages"]).as_py(),
        "smallest": sizes[0].as_py(),
        "median_size": _percentile(counts, 0.5),
        "p99_size": _percentile(counts, 0.99),
        "largest": sizes[-1].as_py(),
    } | silences.figures()


def _percentile(counts: Counts, share: float) -> int:
    """Return a percentile of the sizes; between two of them, the one that a line gives."""
    upto = pc.cumulative_sum(counts.sizes["messages"])
    place = (counts.messages - 1) * share

    def size_at(rank: int) -> int:
        size: int = counts.sizes["size"][pc.index(pc.greater(upto, rank), True).as_py()].as_py()
        return size

    below = int(place)
    low, high = size_at(below), size_at(min(below + 1, counts.messages - 1))
    return int(low + (high - low) * (place - below))


# Silences.


@dataclass(frozen=True, slots=True)
class _Silences:
    """The silences between the moments of a topic or a source."""

    since: pa.Array
    """The moments at which they begin, in µs since 1970."""
    steps: pa.Array
    """Their lengths in µs."""
    gap_over: float | None
    """Seconds above which a silence counts as a gap; None: there is no silence."""

    def _are_gaps(self) -> pa.Array:
        return pc.greater(pc.divide(self.steps.cast(pa.float64()), _SECOND_US), self.gap_over)

    def figures(self) -> Figures:
        if self.gap_over is None:
            return {"gaps": 0, "gap_over": None, "longest_silence": None, "silent_since": None}
        longest = pc.max(self.steps)
        return {
            "gaps": pc.sum(self._are_gaps()).as_py(),
            "gap_over": self.gap_over,
            "longest_silence": longest.as_py() / _SECOND_US,
            "silent_since": _text(self.since[pc.index(self.steps, longest).as_py()].as_py()),
        }

    def gaps(self, topic: str) -> list[Figures]:
        """Return the longest gaps, with their times as numbers of µs."""
        if self.gap_over is None:
            return []
        are = self._are_gaps()
        found = pa.table({"since": self.since.filter(are), "step": self.steps.filter(are)})
        order = [("step", "descending"), ("since", "ascending")]
        return [
            {"topic": topic, "since": row["since"], "step": row["step"]}
            for row in found.sort_by(order).slice(0, GAPS_MAX).to_pylist()
        ]


def _silences(counts: Counts, gap_seconds: float | None) -> _Silences:
    times = counts.moments["time_us"].combine_chunks()
    steps = pc.pairwise_diff(times)[1:]
    if not len(steps):
        return _Silences(times[:0], steps, None)
    if gap_seconds is None:
        # A quantile "lower" is one of the times between two messages.
        usual = pc.quantile(steps, 0.5, interpolation="lower")[0].as_py() / _SECOND_US
        gap_seconds = max(usual * _QUIET_INTERVALS, _QUIET_SECONDS_MIN)
    return _Silences(times[:-1], steps, float(gap_seconds))


def _longest(gaps: Sequence[Figures]) -> list[Figures]:
    ranked = sorted(gaps, key=lambda gap: (-gap["step"], gap["since"], gap["topic"]))
    return [
        {
            "topic": gap["topic"],
            "since": _text(gap["since"]),
            "until": _text(gap["since"] + gap["step"]),
            "seconds": gap["step"] / _SECOND_US,
        }
        for gap in ranked[:GAPS_MAX]
    ]


# Rates and sizes.


def _stretches(counts: Counts, width_us: int) -> pa.Table:
    """Return start_us, messages and bytes of each stretch of time that has a message."""
    times = counts.moments["time_us"]
    # Division rounds towards 0, and a clock may be before 1970.
    base = times[0].as_py() // width_us * width_us
    number = pc.divide(pc.subtract(times, base), width_us)
    table = counts.moments.set_column(0, "start_us", pc.add(pc.multiply(number, width_us), base))
    sums = table.group_by("start_us", use_threads=False)
    return (
        sums.aggregate([("messages", "sum"), ("bytes", "sum")])
        .select(["start_us", "messages_sum", "bytes_sum"])
        .rename_columns(["start_us", "messages", "bytes"])
    )


def _rates(topic: str, counts: Counts, width_seconds: float) -> list[Figures]:
    """Return the messages and bytes of each stretch of time that has a message."""
    return [
        {
            "topic": topic,
            "start": _text(row["start_us"]),
            "messages": row["messages"],
            "bytes": row["bytes"],
        }
        for row in _stretches(counts, round(width_seconds * _SECOND_US)).to_pylist()
    ]


def _sizes(topic: str, counts: Counts) -> list[Figures]:
    """Return the number of messages above half of a size and up to it: 0 and powers of two."""
    found: dict[int, int] = {}
    for row in counts.sizes.to_pylist():
        size = 1 << (row["size"] - 1).bit_length() if row["size"] else 0
        found[size] = found.get(size, 0) + row["messages"]
    return [{"topic": topic, "size": size, "messages": found[size]} for size in sorted(found)]
