"""Statistics by Spark, and their picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate.pipeline.jobs.plot import (
    TOPICS_MAX,
    draw,
    plot,
)
from quorate.pipeline.jobs.stats import (
    BY_TOPIC,
    StatsReport,
    cells,
    gaps,
    rates,
    report,
    sizes,
    stats,
)
from quorate.protocol.errors import InvalidArgument

START_US = 1_790_000_000_000_000


def table(spark: SparkSession) -> DataFrame:
    """Topic a: two a second for 20 s, with 8 s without any; topic b: one message."""
    rows = [
        ("a", "0x1" if half % 2 else "0x2", half // 2, START_US + half * 500_000, b"x" * (half + 1))
        for half in range(40)
        if not 10 <= half < 25
    ]
    rows += [("a", "0x1", 100, START_US + 39 * 500_000, b"")]
    rows += [("b", "0x3", 0, START_US, b"y" * 1000)]
    made = spark.createDataFrame(
        rows, "topic string, source string, sequence bigint, us bigint, payload binary"
    )
    return made.selectExpr(
        "topic", "source", "sequence", "timestamp_micros(us) as timestamp", "payload"
    )


def test_rates_sizes_and_gaps_by_topic(spark: SparkSession) -> None:
    a, b = (row.asDict() for row in stats(table(spark), by=BY_TOPIC).collect())
    assert (a["topic"], a["messages"], a["bytes"]) == (
        "a",
        26,
        sum(range(1, 11)) + sum(range(26, 41)),
    )
    assert (a["smallest"], a["median_size"], a["largest"]) == (0, 27, 40)
    assert a["seconds"] == 19.5
    assert a["messages_per_second"] == pytest.approx(26 / 19.5)
    assert a["peak_per_second"] == 3
    assert (a["gaps"], a["gap_over"], a["longest_silence"]) == (1, 5.0, 8.0)
    assert a["silent_since"].timestamp() == START_US / 1e6 + 4.5
    assert (b["messages"], b["seconds"], b["messages_per_second"]) == (1, 0.0, None)
    assert (b["gaps"], b["longest_silence"]) == (0, None)


def test_sources_are_told_apart(spark: SparkSession) -> None:
    rows = stats(table(spark), gap_seconds=0.75).collect()
    assert [(row.topic, row.source, row.messages) for row in rows] == [
        ("a", "0x1", 14),
        ("a", "0x2", 12),
        ("b", "0x3", 1),
    ]
    assert [row.gaps for row in rows] == [12, 11, 0]


def test_parts_of_a_report(spark: SparkSession) -> None:
    found = cells(table(spark))
    [gap] = gaps(found, by=BY_TOPIC).collect()
    assert (gap.topic, gap.seconds) == ("a", 8.0)
    by_ten = [(row.topic, row.messages) for row in rates(found, 10.0).collect()]
    assert by_ten == [("a", 10), ("a", 16), ("b", 1)]
    assert [(row.topic, row["size"], row.messages) for row in sizes(found).collect()] == [
        ("a", 0, 1),
        ("a", 1, 1),
        ("a", 2, 1),
        ("a", 4, 2),
        ("a", 8, 4),
        ("a", 16, 2),
        ("a", 32, 7),
        ("a", 64, 8),
        ("b", 1024, 1),
    ]


@pytest.mark.long
def test_a_report_is_for_machines_too(spark: SparkSession) -> None:
    said = report(table(spark)).as_object()
    assert [topic["topic"] for topic in said["topics"]] == ["a", "b"]
    assert len(said["sources"]) == 3
    assert said["gaps"] == [
        {
            "topic": "a",
            "since": "2026-09-21T14:13:24.500000Z",
            "until": "2026-09-21T14:13:32.500000Z",
            "seconds": 8.0,
        }
    ]
    assert said["width_seconds"] == 0.1


@pytest.mark.parametrize("wrong", [{"by": ("payload",)}, {"gap_seconds": 0.0}])
def test_what_can_not_be_is_refused(spark: SparkSession, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        stats(table(spark), **wrong)


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
