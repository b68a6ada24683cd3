"""Many simulated worlds, on one process or several, and what they were worth together."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from tests.simulation.simulation import Failed, Outcome, simulate

FAULTS = (
    "call lost",
    "stream broken",
    "connections reset",
    "message delayed",
    "message overtook others",
    "call duplicated",
    "partition",
    "one-way partition",
    "store left behind",
    "store cut off for long",
    "source stranded",
    "stores in rotation",
    "source succeeds",
    "store crash",
    "store crash, all at once",
    "store down for long",
    "store pause",
    "source crash",
    "source pause",
    "zombie",
    "source away for long",
    "source started twice",
    "source deregistered",
    "receiver crash",
    "receiver pause",
    "receiver away for long",
    "receiver started twice",
    "receiver deregistered",
    "receiver deregistered while it is frozen",
    "writes lost",
    "writes torn",
    "sync failure",
    "slow disk",
    "host rebooted, page cache lost",
    "bit flipped",
    "every copy of a batch turned",
    "store hangs",
    "store lags",
    "store wiped",
    "stores wiped at once",
    "store fails in need",
    "disk copied",
    "disk put back",
    "store configured otherwise",
    "retired stores switched off",
    "clock jumped forward",
    "clock jumped back",
)
"""Every kind of fault; a few hundred worlds have each of them."""
RARE = (
    "promise refused in limbo",
    "fetched to leave limbo",
    "failed store vouches again",
    "wiped store in quorum",
    "source heard of a replaced store",
    "receiver registered with a store in limbo",
    "unreadable batch found",
    "scrub found what can not be read",
    "compared with a peer",
    "comparison found a difference",
    "beyond what is tolerated, and honest",
    "membership change under way",
    "membership changed",
    "bringing-up interrupted",
    "an old configuration is run",
    "quorum lost",
    "quorum regained",
    "fenced in mid-recovery",
    "source fenced",
    "second source refused beside a living one",
    "second source took over from a living one",
    "second receiver refused beside a living one",
    "second receiver took over from a living one",
    "refused as another is active",
    "promise that went nowhere overtaken",
    "epoch begun by a minority",
    "begin taken over from a peer",
    "divergent tail set aside",
    "kept but unstable sent again",
    "publish store sent again",
    "hole opened by a new stream",
    "repair filled a hole",
    "delivered messages withdrawn",
    "live stream overrun",
    "source says goodbye",
    "store said absent",
    "store said unknown",
    "unsynced commit lost",
    "unsynced commit survived",
    "answers for a source that is away",
    "found out as a copy",
    "cached commits lost",
    "in limbo for what was only cached",
    "let go of what is stable",
    "batch left the journal",
    "store said released",
    "source held up by receivers",
    "registered with a store that takes no messages",
    "no more messages though it has some",
    "ends as its time is over",
    "ended",
    "deregistered for good",
    "deregistered everywhere",
    "ended while a store was away",
    "stream begun anew, after it ended",
    "receiver deregistered at a store",
    "receiver deleted as its time is over",
    "receiver follows a stream that begins anew",
    "promise taken back",
    "lagging store caught up while the source sent",
)
"""Rare states that a few hundred worlds reach; one that is never reached is a hole in the
simulation."""
RARER = (
    "registered though a store hangs",
    "hole opened by Skip",
    "fetched batch of an outdated lineage",
    "live batch found no room",
    "epoch begun during a fetch",
    "receiver begins anew, after it was deregistered",
    "store heard from its receiver that it had ended",
    "backup steps in",
    "backup steps back",
    "proxy found out what is stable",
    "loss accepted by an operator",
    "gap of what was accepted as lost",
    "gap of what was let go",
    "stream begun anew while a store was failed",
)
"""Those that need thousands."""
RAREST = (
    "batch overlaps what is held",
    "one epoch decided by two",
    "limbo ended by an operator",
    "receiver over before it started",
)
"""Those that four thousand worlds reach a dozen times at most, some of them never.

A state that a hundred thousand did not reach is reached by a script alone: "stable in a stream that
is over" in test_checks_of_ends.
"""
NEEDED = {1_000: RARE, 10_000: RARER, 100_000: RAREST}
"""From so many worlds on, a run that never reaches one of these has failed: something keeps worlds
from reaching it. All but the very rarest come dozens of times in so many."""
FAULTS_NEEDED = 1_000
"""The same of every kind of fault."""
CHUNK = 25
"""So many worlds are run in one process."""
_FORK = multiprocessing.get_context("fork")


@dataclass
class Tally:
    """Sums over worlds."""

    seeds: int = 0
    stable: int = 0
    steps: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    failed: list[Failed] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.stable += outcome.stable
        self.steps += outcome.steps
        self.faults.update(outcome.faults)
        self.reached.update(outcome.reached)

    def join(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.stable += other.stable
        self.steps += other.steps
        self.faults.update(other.faults)
        self.reached.update(other.reached)
        self.failed += other.failed

    @property
    def never(self) -> list[str]:
        """Rare states that were not reached."""
        return [state for states in NEEDED.values() for state in states if not self.reached[state]]

    @property
    def missed(self) -> list[str]:
        """Those of them that so many worlds should have reached."""
        due = {state for seeds, states in NEEDED.items() if self.seeds >= seeds for state in states}
        return [state for state in self.never if state in due]

    @property
    def uninjected(self) -> list[str]:
        """Kinds of faults that there were none of."""
        return [kind for kind in FAULTS if not self.faults[kind]]

    @property
    def spared(self) -> list[str]:
        """Those of them that so many worlds should have had."""
        return self.uninjected if self.seeds >= FAULTS_NEEDED else []

    def summary(self) -> str:
        """One line."""
        rate = self.seeds / self.seconds if self.seconds else 0.0
        return (
            f"{self.seeds:,} seeds in {self.seconds:,.1f} s ({rate:.1f}/s), {self.steps:,} steps, "
            f"{self.stable:,} messages stable, {sum(self.faults.values()):,} faults, "
            f"{len(self.failed)} worlds failed"
        )

    def __str__(self) -> str:
        lines = [
            self.summary(),
            *_table("faults injected", self.faults),
            *_table("rare states reached", self.reached),
        ]
        if self.uninjected:
            lines.append(
                f"!!! NO SUCH FAULT, so nothing is proven of: {', '.join(self.uninjected)}"
            )
        if self.never:
            lines.append(f"!!! NEVER REACHED, so nothing is proven of: {', '.join(self.never)}")
        return "\n".join(lines)


def _table(title: str, counts: Counter[str]) -> list[str]:
    return [f"{title}:", *(f"  {count:10,}  {kind}" for kind, count in counts.most_common())]


def run(seeds: Iterable[int]) -> Tally:
    """Run the worlds of these seeds; those that do not hold are in the tally."""
    with collecting_between_worlds() as collect:
        return _run(seeds, collect)


def _run(seeds: Iterable[int], between: Callable[[], object]) -> Tally:
    tally = Tally()
    begun = time.perf_counter()
    for seed in seeds:
        try:
            tally.add(simulate(seed))
        except Failed as failed:
            tally.seeds += 1
            tally.failed.append(failed)
        between()
    tally.seconds = time.perf_counter() - begun
    return tally


@contextlib.contextmanager
def collecting_between_worlds() -> Iterator[Callable[[], object]]:
    """Garbage is collected when the caller says so: a world is full of cycles that live as long as
    it does, and looking through them again and again takes a quarter of the time."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield gc.collect
    finally:
        gc.enable()
        gc.unfreeze()


def run_on(jobs: int, seeds: range, progress: Callable[[Tally], None]) -> Tally:
    """The same on several processes; ends early, with what there is, when it is interrupted."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)][::-1]
    running: dict[Connection, ForkProcess] = {}
    tally = Tally()
    begun = time.perf_counter()
    try:
        while chunks or running:
            while chunks and len(running) < jobs:
                running.update((_started(chunks.pop()),))
            done = wait([*running])
            for told in [told for told in running if told in done]:
                tally.join(told.recv())
                tally.seconds = time.perf_counter() - begun
                progress(tally)
                running.pop(told).join()
    except KeyboardInterrupt:
        tally.seconds = time.perf_counter() - begun
    finally:
        for process in running.values():
            process.terminate()
    return tally


def _started(seeds: range) -> tuple[Connection, ForkProcess]:
    """A process that runs these worlds, and where it tells what they were worth.

    It ends with all its garbage: to look for that takes a tenth of the time.
    """
    theirs, ours = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_run_apart, args=(seeds, ours))
    process.start()
    ours.close()
    return theirs, process


def _run_apart(seeds: range, told: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    told.send(_run(seeds, lambda: None))
