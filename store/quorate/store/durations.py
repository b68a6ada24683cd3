"""How long something took, counted in buckets. Nothing here knows what took long."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

BOUNDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01),
    *(0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)
"""The upper bounds of the buckets, in seconds. One more bucket has everything above."""


class Durations:
    """Durations that were observed, all on one thread. Other threads may read the counts."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """The number of durations in each bucket."""
        self.seconds = 0.0
        """The sum of all durations."""

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """Return each upper bound, and how many durations do not pass it; the last is infinite."""
        return list(zip((*BOUNDS, float("inf")), accumulate(self.counts), strict=True))
