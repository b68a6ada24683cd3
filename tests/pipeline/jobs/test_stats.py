"""Statistics without Spark, and their picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.archive.support import NOON_NS, ORDERS, TRADES, FakeStores, Stream, batch, here

from quorate.pipeline.jobs.counting import Counts, by_source, count_part, counted
from quorate.pipeline.jobs.plot import (
    TOPICS_MAX,
    draw,
    plot,
)
from quorate.pipeline.jobs.stats import (
    GAPS_MAX,
    StatsReport,
    check_gap,
    report,
)
from quorate.pipeline.rules.planning import SourceRange, plan
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term

START_US = 1_790_000_000_000_000
FIRST = Lineage((Term(1, 0),))


def counts_of(*messages: tuple[int, bytes, bytes | None]) -> Counts:
    """The counts of messages: time in µs, payload, key. Each is in a batch of its own."""
    return counted(
        pa.record_batch(
            {
                "timestamp": pa.array([time_us], pa.timestamp("us", tz="UTC")),
                "payload": pa.array([payload]),
                "key": pa.array([key], pa.binary()),
            }
        )
        for time_us, payload, key in messages
    )


def table() -> dict[SourceName, Counts]:
    """Topic a: two a second for 20 s, with 8 s without any; topic b: one message."""
    halves = [half for half in range(40) if not 10 <= half < 25]
    by_session = {
        session: [
            (START_US + half * 500_000, b"x" * (half + 1), None)
            for half in halves
            if half % 2 == odd
        ]
        for session, odd in ((1, 1), (2, 0))
    }
    by_session[1].append((START_US + 39 * 500_000, b"", None))
    return {
        SourceName("b", 3): counts_of((START_US, b"y" * 990, b"k" * 10)),
        **{SourceName("a", session): counts_of(*rows) for session, rows in by_session.items()},
    }


def test_rates_sizes_and_gaps_by_topic() -> None:
    a, b = report(table()).topics
    assert (a["topic"], a["messages"], a["bytes"]) == (
        "a",
        26,
        sum(range(1, 11)) + sum(range(26, 41)),
    )
    assert (a["smallest"], a["median_size"], a["largest"]) == (0, 27, 40)
    assert a["p99_size"] == 39, "between the largest two sizes"
    assert a["seconds"] == 19.5
    assert a["messages_per_second"] == pytest.approx(26 / 19.5)
    assert a["peak_per_second"] == 3
    assert (a["gaps"], a["gap_over"], a["longest_silence"]) == (1, 5.0, 8.0)
    assert a["silent_since"] == "2026-09-21T14:13:24.500000Z"
    assert (b["messages"], b["bytes"], b["seconds"]) == (1, 1000, 0.0)
    assert (b["messages_per_second"], b["bytes_per_second"]) == (None, None)
    assert (b["gaps"], b["gap_over"], b["longest_silence"]) == (0, None, None)


def test_sources_are_told_apart() -> None:
    rows = report(table(), gap_seconds=0.75).sources
    assert [(row["topic"], row["source"], row["messages"]) for row in rows] == [
        ("a", "0x1", 14),
        ("a", "0x2", 12),
        ("b", "0x3", 1),
    ]
    assert [row["gaps"] for row in rows] == [12, 11, 0]


def test_a_report_is_for_machines_too() -> None:
    said = report(table()).as_object()
    assert said["gaps"] == [
        {
            "topic": "a",
            "since": "2026-09-21T14:13:24.500000Z",
            "until": "2026-09-21T14:13:32.500000Z",
            "seconds": 8.0,
        }
    ]
    assert said["width_seconds"] == 0.1
    assert len(said["rates"]) == 26
    assert said["rates"][1] == {
        "topic": "a",
        "start": "2026-09-21T14:13:20.500000Z",
        "messages": 1,
        "bytes": 2,
    }
    assert [(row["topic"], row["size"], row["messages"]) for row in said["sizes"]] == [
        *(("a", 0, 1), ("a", 1, 1), ("a", 2, 1), ("a", 4, 2), ("a", 8, 4)),
        *(("a", 16, 2), ("a", 32, 7), ("a", 64, 8), ("b", 1024, 1)),
    ]


def test_rates_are_over_stretches_that_fit_the_whole_time() -> None:
    day_us = 86_400_000_000
    seldom = counts_of(*((-day_us + day * day_us, b"x", None) for day in range(100)))
    said = report({SourceName("a", 1): seldom})
    assert said.width_seconds == 86_400
    assert [rate["start"][:10] for rate in said.rates[:3]] == [
        "1969-12-31",
        "1970-01-01",
        "1970-01-02",
    ]
    assert {rate["messages"] for rate in said.rates} == {1}


def test_only_the_longest_gaps_are_named() -> None:
    places = [number * (number + 1) // 2 for number in range(GAPS_MAX + 20)]
    times = counts_of(*((START_US + place * 1_000_000, b"", None) for place in places))
    said = report({SourceName("a", 1): times}, gap_seconds=0.5)
    assert said.topics[0]["gaps"] == GAPS_MAX + 19
    assert [gap["seconds"] for gap in said.gaps] == list(range(GAPS_MAX + 19, 19, -1))


def test_tasks_count_what_stores_have_and_parts_are_joined() -> None:
    frames = [batch(0, 9, passing_ns=10**9), batch(10, 19, time_ns=NOON_NS + 9 * 10**9)]
    streams = {
        ORDERS: Stream(frames=frames),
        TRADES: Stream(frames=[batch(0, 4, source=TRADES, attributes=True)]),
    }
    stores = FakeStores(streams)
    ranges = [SourceRange(ORDERS, 0, 20, FIRST), SourceRange(TRADES, 1, 4, FIRST)]
    parts = plan(ranges, parts=3, part_messages_max=7)
    assert len(parts) == 4
    counts = by_source(
        here(parts, lambda part: count_part(part, stores=stores, fail_on_data_loss=True))
    )
    assert {source: each.messages for source, each in counts.items()} == {ORDERS: 20, TRADES: 3}
    orders, trades = report(counts).sources
    assert (orders["source"], orders["seconds"], orders["peak_per_second"]) == ("0x10", 9.0, 11)
    assert orders["bytes"] == sum(len(f"message {number}") for number in range(20))
    assert trades["bytes"] == 3 * len("message 1") + 2 * len("key 1")


def test_nothing_to_count_is_no_error() -> None:
    assert report({}) == StatsReport([], [], [], 0.001, [], [])


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_what_can_not_be_is_refused(wrong: float) -> None:
    with pytest.raises(InvalidArgument):
        check_gap(wrong)


def test_the_statistics_import_no_spark() -> None:
    code = "import sys, quorate.pipeline.jobs.stats; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def made(topics: int) -> StatsReport:
    names = [f"topic{number}" for number in range(topics)]
    return StatsReport(
        [{"topic": name, "messages": 10, "bytes": 1000} for name in names],
        [{} for _ in names],
        [
            {
                "topic": name,
                "since": "2026-09-21T14:13:24.500000Z",
                "until": "2026-09-21T14:15:24.500000Z",
                "seconds": 120.0,
            }
            for name in names[:1]
        ],
        10.0,
        [
            {
                "topic": name,
                "start": f"2026-09-21T14:{minute}:00.000000Z",
                "messages": 5,
                "bytes": 9,
            }
            for name in names
            for minute in (10, 20)
        ],
        [{"topic": name, "size": size, "messages": 5} for name in names for size in (0, 128)],
    )


@pytest.mark.parametrize("topics", [0, 1, 3, TOPICS_MAX + 3])
def test_a_picture_has_a_row_for_each_topic_and_one_for_sizes(topics: int) -> None:
    *over_time, by_size = draw(made(topics)).get_axes()
    titles = [axes.get_title(loc="left") for axes in over_time]
    expected = [f"topic{number}" for number in range(min(topics, TOPICS_MAX))]
    if topics > TOPICS_MAX:
        expected.append("all others")
    assert titles == (expected or [""])
    assert by_size.get_title(loc="left") == "Sizes of payload and key"
    if topics:
        line = over_time[0].get_lines()[0]
        heights: Any = line.get_ydata()
        assert list(heights) == [0.5, 0.0, 0.5, 0.0]
        assert [text.get_text() for text in over_time[0].texts] == ["2 min"]
        labels = [label.get_text() for label in by_size.get_xticklabels()]
        assert labels == ["empty", "≤ 128 B"]


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_picture_is_written(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"picture.{kind}"
    plot(made(2), str(path))
    assert path.stat().st_size > 10_000
