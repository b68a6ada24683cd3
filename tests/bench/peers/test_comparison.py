"""The table of what was measured."""

from __future__ import annotations

from bench.peers.comparison import Figures, Shape, table
from bench.peers.load import Load

SHAPE = Shape("100 B", Load(messages=1, size=100, rate=0, warm_up=0))


def figures(delivered: float, p50_ms: float | None = None) -> Figures:
    """Return the figures of a run."""
    return Figures(delivered, delivered, 1.0, p50_ms, p50_ms)


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_system_has_its_median_its_range_and_its_ratio() -> None:
    found = {
        SHAPE: {
            "quorate": [figures(400_000), figures(500_000), figures(450_000)],
            "redis": [figures(90_000)],
        }
    }
    head, ours, redis = rows(table(found))
    assert "p50 ms" not in head, "it was not measured"
    assert ours[2] == "450,000 (400,000 to 500,000)"
    assert ours[-1] == "1.00"
    assert redis[2] == "90,000"
    assert redis[-1] == "0.20"


def test_latency_is_shown_where_it_was_measured() -> None:
    found = {SHAPE: {"quorate": [figures(5000, 1.5)], "redis": [figures(5000)]}}
    head, ours, redis = rows(table(found))
    at = head.index("p50 ms")
    assert (ours[at], redis[at]) == ("1.50", "")
