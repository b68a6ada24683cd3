"""Latencies as arrays of nanoseconds: kept, passed on in files, and summed up."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from quorate.disk.files import replace_file

Latencies: TypeAlias = "array[int]"


def empty() -> Latencies:
    """Return an array without latencies."""
    return array("q")


def save(latencies: Latencies, path: Path) -> None:
    """Write latencies to a file."""
    replace_file(path, latencies.tobytes())


def load(path: Path) -> Latencies:
    """Return the latencies of a file."""
    return array("q", path.read_bytes())


def percentiles(latencies: Sequence[int]) -> dict[str, float | None]:
    """Return p50, p99 and p999 in milliseconds, by nearest rank; None without samples."""
    ordered = sorted(latencies)
    ranks = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    if not ordered:
        return dict.fromkeys(ranks)
    return {
        name: round(ordered[max(0, math.ceil(rank * len(ordered)) - 1)] / 1e6, 3)
        for name, rank in ranks.items()
    }
