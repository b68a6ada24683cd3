"""Several runs of the bench as one: medians, and ranges beside them."""

from __future__ import annotations

from typing import Any

from quorate.console.bench.repeats import with_ranges
from quorate.console.bench.report import rows


def result(stable: float, p50: float | None, source: float) -> dict[str, Any]:
    """The figures of one run, as `figures` returns them."""
    return {
        "stable_messages_per_second": stable,
        "delivered_messages_per_second": None,
        "megabytes_per_second": 1.0,
        "live_latency_ms": {"p50": p50, "p99": 2.0, "p999": 3.0},
        "stable_latency_ms": {"p50": 1.0, "p99": 2.0, "p999": 3.0},
        "cpu_seconds": {"sources": source},
        "cpu_seconds_per_million": {"sources": source},
        "peak_rss_mb": {"sources": 80.0},
        "longest_stall_ms": 5.0,
        "settings": {"size": 100, "rate": None},
    }


def test_figures_are_medians_in_their_places() -> None:
    both = with_ranges([result(100, 1.0, 3.0), result(300, 9.0, 1.0), result(200, 2.0, 2.0)])
    assert both["stable_messages_per_second"] == 200
    assert both["live_latency_ms"] == {"p50": 2.0, "p99": 2.0, "p999": 3.0}
    assert both["cpu_seconds_per_million"] == {"sources": 2.0}
    assert both["ranges"]["stable_messages_per_second"] == [100, 300]
    assert both["ranges"]["live_latency_ms"]["p50"] == [1.0, 9.0]
    assert both["settings"] == {"size": 100, "rate": None, "runs": 3}


def test_a_figure_that_a_run_lacks_is_in_none() -> None:
    both = with_ranges([result(100, 1.0, 3.0), result(300, None, 1.0)])
    assert both["live_latency_ms"]["p50"] is None
    assert "p50" not in both["ranges"]["live_latency_ms"]
    assert both["delivered_messages_per_second"] is None
    assert "delivered_messages_per_second" not in both["ranges"]


def test_people_see_the_range_of_each_figure() -> None:
    shown = rows(with_ranges([result(100, 1.0, 3.0), result(300, 2.0, 1.0)]))
    ranges = {row["figure"]: row["range"] for row in shown}
    assert ranges["made stable"] == "100 to 300"
    assert ranges["source to receiver"] == "1 to 2"
    assert ranges["CPU of sources"] == "1 to 3"
    assert ranges["delivered"] == ranges["setting size"] == ""
    assert all("range" not in row for row in rows(result(100, 1.0, 3.0)))
