"""Many simulated worlds on several processes, and what they were worth together."""

from __future__ import annotations

import gc
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.world.faults import KINDS
from tests.world.weather import Told, run_world

FAULTS_NEEDED = 300
"""From so many worlds on, a run without some kind of fault has failed."""
RARE = (
    "MembershipChanged",
    "QuorumLost",
    "ReceiverDetached",
    "SourceFailed",
    "StoreCaughtUp",
    "StoreInLimbo",
    "StoreReplaced",
    "WaitingForStores",
    "Withdrawn",
    "changes: add",
    "changes: replace",
    "ends by an operator",
    "ends by owners",
    "ends with stable messages",
    "messages set aside at a store",
    "ranges that live receivers were told are taken back",
    "receivers that ended",
    "sources that were told of an end",
    "streams of several epochs",
    "streams of which a store let messages go",
    "streams that began anew",
    "streams that were read back from behind 0",
    "worlds with a state-only store",
    "worlds with live receivers",
    "worlds with retention",
    "worlds with rows",
)
"""Rare states that a few hundred worlds reach, each dozens of times."""
RARER = (
    "BackupSteppedBack",
    "BackupSteppedIn",
    "changes: remove",
    "ends by an operator that failed",
    "losses that an operator accepted",
    "ranges that applications were told are lost",
    "ranges that receivers were told are gone",
    "ranges that the subscriber was told are gone",
    "sources that expired",
)
"""Those that need thousands."""
NEEDED = {300: RARE, 3_000: RARER}
"""From so many worlds on, a run that never reaches one of these has failed: something keeps the
worlds from reaching it."""


@dataclass
class Tally:
    """Sums over worlds."""

    seeds: int = 0
    seconds: float = 0.0
    steps: int = 0
    stable: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)
    """By seed: what was violated."""

    def add(self, seed: int, told: Told | str) -> None:
        """Add a world. told: a text says what was violated in it."""
        self.seeds += 1
        if isinstance(told, str):
            self.failed[seed] = told
            return
        self.steps += told.steps
        self.stable += told.stable
        self.faults.update(told.faults)
        self.reached.update(told.reached)

    @property
    def missed(self) -> list[str]:
        """The rare states that so many worlds should have reached, and did not."""
        return [
            state
            for needed, states in NEEDED.items()
            if self.seeds >= needed
            for state in states
            if not self.reached[state]
        ]

    @property
    def spared(self) -> list[str]:
        """The kinds of faults that so many worlds should have had, and had not."""
        if self.seeds < FAULTS_NEEDED:
            return []
        return [kind for kind in sorted(set(KINDS)) if not self.faults[kind]]

    def problems(self) -> list[str]:
        """Return a line for each reason why the run has failed."""
        found = [f"seed {seed}: {violated}" for seed, violated in sorted(self.failed.items())]
        if self.missed:
            found.append(f"{self.seeds:,} worlds should have reached: {', '.join(self.missed)}")
        if self.spared:
            found.append(f"{self.seeds:,} worlds should have had: {', '.join(self.spared)}")
        return found

    def summary(self) -> str:
        """Return one line."""
        rate = self.seeds / self.seconds if self.seconds else 0.0
        return (
            f"{self.seeds:,} worlds in {self.seconds:,.1f} s ({rate:.1f}/s), {self.steps:,} steps, "
            f"{self.stable:,} messages stable, {self.faults.total():,} faults, "
            f"{len(self.failed)} worlds failed"
        )

    def __str__(self) -> str:
        return "\n".join(
            [
                self.summary(),
                *_table("faults", self.faults),
                *_table("rare states", self.reached),
            ]
        )


def _table(title: str, counts: Counter[str]) -> list[str]:
    return [f"{title}:", *(f"  {count:10,}  {kind}" for kind, count in counts.most_common())]


def tried(seed: int) -> tuple[int, Told | str]:
    """Run a world. Return its seed, and its figures, or what was violated in it."""
    try:
        with tempfile.TemporaryDirectory(dir=in_memory()) as directory:
            return seed, run_world(seed, Path(directory))
    except Exception as error:
        return seed, f"{type(error).__name__}: {error}"
    finally:
        gc.collect()


def _begin() -> None:
    """Prepare a process that runs worlds.

    Garbage is collected between worlds: looking through a world that lives takes long.
    """
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    gc.disable()


def in_memory() -> Path | None:
    """Return a directory in memory; None: there is none."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None


def run_all(seeds: range, processes: int, progress: Callable[[Tally], None]) -> Tally:
    """Run worlds. Ends early, with what there is, when it is interrupted."""
    tally, began = Tally(), time.perf_counter()
    with ProcessPoolExecutor(processes, initializer=_begin) as pool:
        try:
            for seed, told in pool.map(tried, seeds):
                tally.add(seed, told)
                tally.seconds = time.perf_counter() - began
                progress(tally)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
    return tally
