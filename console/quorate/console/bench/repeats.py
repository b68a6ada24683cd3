"""The figures of several runs as one: medians, and how far the runs are apart.

Figures keep their places. Settings are those of the first run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

SETTINGS = "settings"
RANGES = "ranges"


def with_ranges(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of the figures of runs, and under `ranges` the least and the greatest.

    A figure that a run lacks counts in no run.
    """
    first = {name: value for name, value in results[0].items() if name != SETTINGS}
    medians: dict[str, Any] = {}
    ranges: dict[str, Any] = {}
    for path in _paths(first):
        found = [_at(result, path) for result in results]
        if any(value is None for value in found):
            _put(medians, path, None)
        else:
            _put(medians, path, median(found))
            _put(ranges, path, [min(found), max(found)])
    return {**medians, RANGES: ranges, SETTINGS: {**results[0][SETTINGS], "runs": len(results)}}


def _paths(figures: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the way to each figure."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from ((name, *path) for path in _paths(value))
        else:
            yield (name,)


def _at(figures: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        figures = figures.get(name) if figures is not None else None
    return figures


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value
