"""The faults of a simulated world, one method a kind, and what the policy tolerates of them.

Each fault begins at once and ends by itself, so several are under way at a time. Only one store at
a time lacks what it had: the others have to make up for it first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random

from tests.world.cast import OPERATOR, Cast
from tests.world.disk import SYNC_SECONDS, Disk

KINDS = (
    "crash_store",
    "crash_store",
    "crash_stores",
    "wipe_store",
    "flip_bit",
    "fail_sync",
    "slow_disk",
    "pause_store",
    "cut_store",
    "crash_application",
    "pause_application",
    "strand_source",
    "succeed",
    "end_by_owner",
    "end_by_operator",
    "rest_source",
    "end_receiver",
    "change_stores",
)
"""The usual faults; those that come twice come twice as often."""
_SERVES_SECONDS = 60.0


class Faults:
    """Makes things go wrong."""

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

    # Processes.

    def crash_store(self) -> bool:
        """Crash a store, perhaps in the middle of what it does."""
        return self._crash(self._pick(self._cast.stores), 0.05, 0.5, 3.0)

    def crash_stores(self) -> bool:
        """Crash all stores at once."""
        for name in self._cast.stores:
            if self._runs(name):
                self._world.crash(name)
            self._restart(name, 0.05, 0.5, 1.0)
        return True

    def crash_application(self) -> bool:
        """Kill an application."""
        return self._crash(self._pick(self._cast.applications), 0.05, 1.0, 2.0)

    def _crash(self, name: str | None, *away: float) -> bool:
        if name is None:
            return False
        if self._random.random() < 0.5:
            self._world.crash(name)
        else:
            self._world.processes[name].loop.rounds_left = self._random.randint(1, 100)
        self._restart(name, *away)
        return True

    def pause_store(self) -> bool:
        """Let a store hang for a while."""
        return self._hold(self._pick(self._cast.stores))

    def pause_application(self) -> bool:
        """Let an application hang for a while."""
        return self._hold(self._pick(self._cast.applications))

    def _hold(self, name: str | None) -> bool:
        if name is None:
            return False
        self._world.pause(name, self._random.choice((0.3, 0.3, 2.0, 2.0, 8.0)))
        return True

    def succeed(self) -> bool:
        """Let an application hang, start its successor, and let it wake beside that."""
        name = self._pick([*self._cast.sources, *self._cast.receivers])
        if name is None or (former := f"former {name}") in self._world.processes:
            return False
        self._world.pause(name, self._random.choice((0.5, 2.0, 4.0)))
        self._world.rename(name, former)
        self._cast.seen.contested.add(name.rpartition(" ")[2])
        self._cast.start(name)
        return True

    # Ends.

    def end_by_owner(self) -> bool:
        """Let the application of a source end it."""
        stream = self._random.choice(self._cast.seen.streams)
        stream.is_to_end = True
        return True

    def end_by_operator(self) -> bool:
        """Let an operator end a source. The command may be killed in the middle."""
        if self._cast.operator_works():
            return False
        process = self._cast.end_source(self._random.choice(self._cast.seen.streams))
        if self._random.random() < 0.3:
            process.loop.rounds_left = self._random.randint(1, 60)
        return True

    def rest_source(self) -> bool:
        """Keep the sources of a topic away for longer than stores keep them, if that is short."""
        lifetime = self._cast.seen.circumstances.lifetime
        if lifetime > 60.0 or (name := self._pick(self._cast.sources)) is None:
            return False
        self._world.crash(name)
        seconds = lifetime + self._random.uniform(1.0, 3.0)
        self._resting[name] = self._world.clock.now + seconds
        self._restart(name, seconds)
        return True

    def end_receiver(self) -> bool:
        """Let the receiver of a topic end. It begins anew as a new one."""
        self._cast.seen.receivers_to_end.add(self._random.choice(self._cast.topics))
        return True

    # The group.

    def change_stores(self) -> bool:
        """Let an operator add a store, remove one, or replace one."""
        if self._cast.changes():
            return False
        state_only = self._cast.seen.circumstances.state_only
        change = self._cast.group.begin_change(self._random, lambda name: name != state_only)
        if change is None:
            return False
        self._cast.begin_change(change)
        return True

    # The network.

    def cut_store(self) -> bool:
        """Cut a store off from some of the others, in one direction or both."""
        name = self._random.choice(self._cast.stores)
        others = [other for other in [*self._cast.everybody, OPERATOR] if other != name]
        chosen = self._random.sample(others, self._random.randint(1, len(others)))
        for other in chosen:
            ways = ((name, other), (other, name))
            self._cut(self._random.choice((ways, ways[:1], ways[1:])))
        return True

    def strand_source(self) -> bool:
        """Leave a source with one store, then kill it, and let the store hang.

        The store has a tail that nobody shares, and the next instance may decide without it.
        """
        name = self._pick(self._cast.sources)
        if name is None:
            return False
        spared = self._random.choice(self._cast.stores)
        ways = [(name, store) for store in self._cast.stores if store != spared]
        for way in ways:
            self._world.network.part(*way)
        self._later(self._random.uniform(0.2, 1.5), lambda: self._kill(name, spared, ways))
        return True

    def _kill(self, source: str, spared: str, ways: Sequence[tuple[str, str]]) -> None:
        self._world.network.mend(ways)
        for name in (source, spared):
            if not self._runs(name):
                return
        self._world.crash(source)
        self._world.pause(spared, self._random.choice((0.3, 5.0)))
        self._restart(source, 0.05, 1.0)

    def _cut(self, ways: Sequence[tuple[str, str]]) -> None:
        for way in ways:
            self._world.network.part(*way)
        seconds = self._random.choice((0.3, 1.0, 3.0, 7.0))
        self._later(seconds, lambda: self._world.network.mend(ways))

    # Disks.

    def slow_disk(self) -> bool:
        """Let the disk of a store be slow for a while."""
        disk = self._disk(self._random.choice(self._cast.stores))
        if disk is None:
            return False
        disk.sync_seconds = self._random.choice((0.05, 0.3, 0.8))
        self._later(2.0, lambda: setattr(disk, "sync_seconds", SYNC_SECONDS))
        return True

    def fail_sync(self) -> bool:
        """Let the next sync of a store fail. It stops, and is started again."""
        name = self._random.choice(self._cast.stores)
        disk = self._disk(name)
        if disk is None or not self._runs(name):
            return False
        disk.fails_next_sync = True
        self._later(1.0, lambda: setattr(disk, "fails_next_sync", False))
        self._restart(name, 3.0, 4.0)
        return True

    def _may_lose(self, name: str) -> bool:
        """Return whether the others have all that this store has, so that it may lose it."""
        return self._cast.group.tolerates_without(name) and all(
            self._cast.serves(other) and other not in self._damaged
            for other in self._cast.stores
            if other != name
        )

    def wipe_store(self) -> bool:
        """Take the disk of a store away."""
        name = self._random.choice(self._cast.stores)
        if not self._may_lose(name):
            return False
        if name in self._world.processes:
            self._world.crash(name)
        self._world.wipe(name)
        self._damaged.discard(name)
        self._restart(name, 0.05, 0.5, 2.0)
        return True

    def flip_bit(self) -> bool:
        """Turn a bit of a batch in the journal of a store."""
        name = self._random.choice(self._cast.stores)
        disk = self._disk(name)
        if disk is None or not self._may_lose(name) or not disk.flip(self._random):
            return False
        self._damaged.add(name)
        return True
