"""Runs many simulated worlds and says what they met: `python -m tests.simulation --help`."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation.seeds import Tally, run_on
from tests.simulation.simulation import Failed, simulate
from tests.simulation.thawing import thaw
from tests.simulation.world import TRACE_LINES

_PROGRESS_SECONDS = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed; to see one again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--lines", type=int, default=TRACE_LINES, help="of the story of a world that fails"
    )
    options = parser.parse_args()
    if options.seeds == 1:
        return _one(options.first, options.lines)
    thaw()
    tally = run_on(options.jobs, range(options.first, options.first + options.seeds), _Progress())
    print(tally)
    for failed in sorted(tally.failed, key=lambda failed: failed.seed):
        print(f"FAILED seed {failed.seed}: {failed.reason[:300]}")
        print(f"  see it again: make simulate FIRST={failed.seed} SEEDS=1")
    if tally.missed:
        print(f"FAILED: {tally.seeds:,} seeds should have reached: {', '.join(tally.missed)}")
    if tally.spared:
        print(f"FAILED: {tally.seeds:,} seeds should have had: {', '.join(tally.spared)}")
    if tally.seeds < options.seeds:
        print(f"interrupted after {tally.seeds:,} of {options.seeds:,} seeds")
    return 1 if tally.failed or tally.missed or tally.spared else 0


def _one(seed: int, lines: int) -> int:
    try:
        outcome = simulate(seed, trace_lines=lines)
    except Failed as failed:
        print(failed)
        return 1
    print(f"seed {seed} holds: {outcome}")
    return 0


class _Progress:
    """A line now and then, and each failure at once."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()
        self._failed = 0

    def __call__(self, tally: Tally) -> None:
        for failed in tally.failed[self._failed :]:
            print(f"FAILED {failed}", file=sys.stderr, flush=True)
        self._failed = len(tally.failed)
        if time.monotonic() - self._said_at >= _PROGRESS_SECONDS:
            self._said_at = time.monotonic()
            print(f"… {tally.summary()}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
