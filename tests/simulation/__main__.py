"""Runs many simulated worlds and says what they met: `python -m tests.simulation --help`."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.seeds import run
from tests.simulation.simulation import Failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed; to see one again")
    options = parser.parse_args()
    try:
        print(run(range(options.first, options.first + options.seeds)))
    except Failed as failed:
        print(failed)
        print(f"again: make simulate FIRST={failed.seed} SEEDS=1")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
