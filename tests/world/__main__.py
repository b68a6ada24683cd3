"""`make worlds`: run worlds of the code that ships from seeds, on several processes."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.world.weather import run_world


def tried(seed: int) -> tuple[int, str, Counter[str], Counter[str]]:
    """Run a world. Return its seed, what was violated, its faults, and its rare states."""
    logging.disable(logging.CRITICAL)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        try:
            told = run_world(seed, Path(directory))
        except Exception as error:
            return seed, f"{type(error).__name__}: {error}", Counter(), Counter()
    return seed, "", told.faults, told.reached


def run_all(seeds: range, processes: int) -> Iterator[tuple[int, str, Counter[str], Counter[str]]]:
    """Run worlds, and yield what came of each."""
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(tried, seeds)


def main() -> None:
    """Run the worlds that the arguments ask for. Exit with 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of texts is a part of the world.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.world", *sys.argv[1:]])
    failed, faults, reached = 0, Counter[str](), Counter[str]()
    for number, (seed, violated, of_world, reached_there) in enumerate(
        run_all(range(given.first, given.first + given.seeds), given.processes), 1
    ):
        faults += of_world
        reached += reached_there
        if violated:
            failed += 1
            print(f"seed {seed}: {violated}", flush=True)
        if number % 50 == 0:
            print(f"{number} worlds, {failed} failed", flush=True)
    print(f"{given.seeds} worlds, {failed} failed")
    for what, counts in (("faults", faults), ("rare states", reached)):
        print(f"{what}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
