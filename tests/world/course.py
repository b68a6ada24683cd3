"""The course of a storm in a simulated world: which fault comes when, and what follows later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random

from tests.world.cast import Cast
from tests.world.disk import SYNC_SECONDS, Copy, Disk


class Course:
    """Makes things go wrong, by the methods of the classes that inherit it."""

    def __init__(self, cast: Cast, random: Random, kinds: Sequence[str], pause: float) -> None:
        """Begin with nothing wrong. pause: the mean seconds between two faults."""
        self._cast = cast
        self._world = cast.world
        self._random = random
        self._kinds = [(kind, getattr(self, kind)) for kind in kinds]
        self._pause = pause
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._planned = 0
        self._damaged: set[str] = set()
        """The stores that lack what they do not know that they lack."""
        self._copies: dict[str, Copy] = {}
        self._resting: dict[str, float] = {}
        """By the name of a process of sources: the time until which it stays away."""
        self.counts: Counter[str] = Counter()

    # The course of a storm.

    def storm(self, seconds: float) -> None:
        """Let faults come, for so long."""
        end = self._world.clock.now + seconds
        self._later(self._random.uniform(0.0, 2.0), self._next)
        while self._agenda and self._agenda[0][0] < end:
            at, _, act = heappop(self._agenda)
            self._world.run_for(max(0.0, at - self._world.clock.now))
            act()
        self._world.run_for(max(0.0, end - self._world.clock.now))

    def stop(self) -> None:
        """End all faults: everybody runs, and reaches everybody."""
        self._agenda.clear()
        for stream in self._cast.seen.streams:
            stream.is_to_end = False
        self._cast.seen.receivers_to_end.clear()
        self._world.network.heal()
        for name in self._cast.stores:
            if (disk := self._disk(name)) is not None:
                disk.sync_seconds, disk.fails_next_sync = SYNC_SECONDS, False
        self._world.clock.jumps.clear()
        for process in list(self._world.processes.values()):
            process.loop.paused_until = 0.0
            process.loop.rounds_left = None
        for name in self._cast.everybody:
            self._cast.start_if_down(name)

    def _next(self) -> None:
        kind, fault = self._random.choice(self._kinds)
        self._note(kind, fault())
        self._later(self._random.expovariate(1 / self._pause), self._next)

    def _note(self, kind: str, happened: bool) -> None:
        if happened:
            self.counts[kind] += 1

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        self._planned += 1
        heappush(self._agenda, (self._world.clock.now + seconds, self._planned, act))

    def _restart(self, name: str, *choices: float) -> None:
        """Start it again in a while, unless it goes on."""
        self._later(self._random.choice(choices), lambda: self._start(name))

    def _start(self, name: str) -> None:
        if self._resting.get(name, 0.0) <= self._world.clock.now:
            self._cast.start_if_down(name)

    def _runs(self, name: str) -> bool:
        process = self._world.processes.get(name)
        return process is not None and not process.task.done()

    def _pick(self, names: Sequence[str]) -> str | None:
        """Return one of them; None: the one that was chosen does not run."""
        name = self._random.choice(names)
        return name if self._runs(name) else None

    def _disk(self, store: str) -> Disk | None:
        return self._world.disks.at(self._world.path_of(store) / "rocksdb")
