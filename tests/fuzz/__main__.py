"""Run the fuzzer for a time: `python -m tests.fuzz --minutes 10`, or one target from a seed.

Every target has its turn with some inputs, again and again. Each finding is printed once, with the
command that repeats it. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz import lies, live, store
from tests.fuzz.decoders import targets
from tests.fuzz.judge import Finding, each_judged, warnings_found

_TURN_SECONDS = 2.0
"""Seconds of one turn of a decoder, about. A store and its liars have a round in each turn."""
_FIRST_INPUTS = 50


class Fuzzing:
    """The turns of all targets."""

    def __init__(self, directory: Path, chosen: str | None) -> None:
        """directory: for files that are read. chosen: the only target; None: all of them."""
        self._directory = directory
        self._decoders = targets(directory)
        rounds = {"store": store.rounds, "live": live.rounds, "lies": lies.rounds}
        self._names = [
            name for name in (*rounds, *self._decoders) if chosen is None or name == chosen
        ]
        if not self._names:
            every = ", ".join((*rounds, *self._decoders))
            sys.exit(f"there is no target {chosen!r}; there are {every}")
        self._rounds = rounds
        self._sizes: dict[str, int] = dict.fromkeys(self._names, _FIRST_INPUTS)
        self._next: Counter[str] = Counter()
        self.inputs: Counter[str] = Counter()

    def turns(self, first: int) -> Iterator[list[Finding]]:
        """Yield the findings of each turn, for ever. first: the seed to begin with."""
        while True:
            for name in self._names:
                began, seed = time.monotonic(), first + self._next[name]
                count = 1 if name in self._rounds else self._sizes[name]
                yield self.turn(name, seed, count)
                self._next[name] += count
                took = max(time.monotonic() - began, 1e-3)
                self._sizes[name] = max(1, int(count * _TURN_SECONDS / took))

    def turn(self, name: str, first: int, count: int) -> list[Finding]:
        """Feed a target with the inputs of so many seeds, and return what is wrong."""
        warned: list[Finding] = []
        with warnings_found(name, first, warned):
            found = self._fed(name, first, count)
        return [*found, *warned]

    def _fed(self, name: str, first: int, count: int) -> list[Finding]:
        if name not in self._rounds:
            self.inputs[name] += count
            return each_judged({name: self._decoders[name]}, first, count)
        with tempfile.TemporaryDirectory(dir=self._directory) as round_directory:
            found, inputs = self._rounds[name](Path(round_directory), first, count)
        self.inputs[name] += inputs
        return found

    def all_once(self, first: int, count: int) -> list[Finding]:
        """Feed each target once."""
        return [finding for name in self._names for finding in self.turn(name, first, count)]


def _quick() -> str | None:
    """Return a directory in memory if there is one: a sync costs nothing there."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None


def main() -> int:
    """Run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--target", help="the only target; all of them if it is not given")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--inputs", type=int, help="as many inputs of each target, and no more")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quorate-fuzz-", dir=_quick()) as directory:
        return _fuzz(Fuzzing(Path(directory), asked.target), asked)


def _fuzz(fuzzing: Fuzzing, asked: argparse.Namespace) -> int:
    shown: set[tuple[str, str]] = set()
    end = time.monotonic() + 60 * asked.minutes
    turns = (
        fuzzing.turns(asked.first)
        if asked.inputs is None
        else iter([fuzzing.all_once(asked.first, asked.inputs)])
    )
    for found in turns:
        for finding in found:
            if finding.kind not in shown:
                shown.add(finding.kind)
                print(finding, flush=True)
        if time.monotonic() >= end:
            break
    print(f"{fuzzing.inputs.total():,} inputs, {len(shown)} findings")
    for name, count in sorted(fuzzing.inputs.items()):
        print(f"  {name:32} {count:>12,}")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main())
