"""`make worlds`: run worlds of the code that ships from seeds, and say what they met."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path

from tests.world.seeds import Tally, in_memory, run_all
from tests.world.weather import run_world

_PROGRESS_WORLDS = 50


def main() -> int:
    """Run the worlds that the arguments ask for. Return 1 if one of them failed, or too little
    happened in all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.seeds == 1:
        return _run_one(given.first)
    tally = run_all(
        range(given.first, given.first + given.seeds), given.processes, _Progress().tell
    )
    print(tally)
    problems = tally.problems()
    for problem in problems:
        print(f"FAILED: {problem}")
    if tally.seeds < given.seeds:
        print(f"interrupted after {tally.seeds:,} of {given.seeds:,} worlds")
    return 1 if problems else 0


def _run_one(seed: int) -> int:
    """Run one world. What it raises says where it failed."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(dir=in_memory()) as directory:
        print(f"seed {seed} holds: {run_world(seed, Path(directory))}")
    return 0


class _Progress:
    """Tells each failure at once, and how far a run is now and then."""

    def __init__(self) -> None:
        self._failed = 0

    def tell(self, tally: Tally) -> None:
        for seed, violated in list(tally.failed.items())[self._failed :]:
            print(f"seed {seed}: {violated}", file=sys.stderr, flush=True)
        self._failed = len(tally.failed)
        if tally.seeds % _PROGRESS_WORLDS == 0:
            print(f"… {tally.summary()}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
