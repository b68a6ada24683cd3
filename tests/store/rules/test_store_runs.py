"""Whether a directory is what a peer has known: compared with what really became of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from quorate.store.rules.store_runs import (
    contradiction,
    run_from_wire,
    run_to_wire,
)
from quorate.store.storage.records import (
    NO_RUN,
    StoreRun,
)
from quorate.v1.store_pb2 import Greeting


@dataclass(frozen=True)
class _Directory:
    """What is in a data directory; a copy of it is the same object."""

    runs: tuple[StoreRun, ...] = ()
    commits: int = 0

    def started(self, drawn: int) -> _Directory:
        return replace(self, runs=(*self.runs, StoreRun(b"%d" % drawn, self.commits)))

    def greeting(self, known_runs: int, synced: int) -> Greeting:
        *former, run = map(run_to_wire, self.runs[-known_runs:])
        starts = len(self.runs)
        return Greeting(starts=starts, run=run, former_runs=former, commits=synced)

    def was(self, known: Greeting) -> bool:
        """Whether the peer has known this very directory, at some time."""
        at = known.starts - 1
        if at >= len(self.runs) or self.runs[at].drawn != known.run.drawn:
            return False
        ends = [*(run.commits_before for run in self.runs[1:]), self.commits]
        return known.commits <= ends[at]


def _refuted(directory: _Directory, known: Greeting, known_runs: int) -> bool:
    greeting = directory.greeting(known_runs, directory.commits)
    runs = [run_from_wire(run) for run in (*greeting.former_runs, greeting.run)]
    return bool(contradiction(known, greeting.starts, runs))


_EVENTS = ("commit", "commit", "commit", "meet", "meet", "copy", "start", "lose", "put back")


@pytest.mark.parametrize("known_runs", [100, 3, 1])
@pytest.mark.parametrize("seed", range(20))
def test_it_is_found_out_if_and_only_if_it_was_put_back(seed: int, known_runs: int) -> None:
    """If all its runs are known: else what is forgotten proves nothing, but nothing wrong, either.

    Stores that do not sync may lose what nobody was told of, never what was there when the run
    began.
    """
    chooser = random.Random(seed)
    found = [0, 0]
    for _ in range(200):
        drawn = synced = 0
        directory = _Directory().started(drawn)
        copies, known = [directory], directory.greeting(known_runs, 0)
        for event in chooser.choices(_EVENTS, k=20):
            match event:
                case "commit":
                    directory = replace(directory, commits=directory.commits + 1)
                    synced = chooser.choice((synced, directory.commits))
                    continue
                case "meet":
                    if not _refuted(directory, known, known_runs):
                        known = directory.greeting(known_runs, synced)
                    continue
                case "copy":
                    copies.append(directory)
                    continue
                case "lose":
                    directory = replace(directory, commits=synced)
                case "put back":
                    directory = chooser.choice(copies)
            drawn, synced = drawn + 1, directory.commits
            directory = directory.started(drawn)
            refuted = _refuted(directory, known, known_runs)
            was_put_back = not directory.was(known)
            assert refuted <= was_put_back
            if known_runs == 100:
                assert refuted == was_put_back
            found[was_put_back] += 1
    assert min(found) > 100


def test_the_present_run_contradicts_nothing() -> None:
    present = StoreRun(b"7", 10)
    known = Greeting(starts=7, run=run_to_wire(present), commits=90)
    assert not contradiction(known, 7, [present])
    assert not contradiction(Greeting(), 0, [NO_RUN])
