"""Many simulated worlds, one after the other, and what they were worth together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.simulation import simulate


@dataclass
class Tally:
    """Sums over worlds."""

    seeds: int = 0
    stable: int = 0
    steps: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [
            f"{self.seeds} seeds in {self.seconds:.1f} s ({self.seeds / self.seconds:.1f}/s), "
            f"{self.steps:,} steps, {self.stable:,} messages stable",
            *_table("faults injected", self.faults),
            *_table("rare states reached", self.reached),
        ]
        return "\n".join(lines)


def _table(title: str, counts: Counter[str]) -> list[str]:
    return [f"{title}:", *(f"  {count:8,}  {kind}" for kind, count in counts.most_common())]


def run(seeds: Iterable[int]) -> Tally:
    """Run the worlds of these seeds; raises Failed at the first that does not hold."""
    tally = Tally()
    begun = time.perf_counter()
    for seed in seeds:
        outcome = simulate(seed)
        tally.seeds += 1
        tally.stable += outcome.stable
        tally.steps += outcome.steps
        tally.faults.update(outcome.faults)
        tally.reached.update(outcome.reached)
    tally.seconds = time.perf_counter() - begun
    return tally
