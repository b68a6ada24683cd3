"""The faults of a simulated world, one method a kind, and what the policy tolerates of them.

Each fault begins at once and ends by itself, so several are under way at a time. Only one store at
a time lacks what it had: the others have to make up for it first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.world.cast import OPERATOR
from tests.world.disk_faults import DiskFaults

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
    "reset_connections",
    "jump_clock",
    "reboot_host",
    "copy_disk",
    "copy_disk",
    "put_back",
    "put_back",
    "lose_batch",
)
"""The usual faults; those that come twice come twice as often."""
YEARS_SECONDS = 3e8


class Faults(DiskFaults):
    """Makes things go wrong."""

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

    def jump_clock(self) -> bool:
        """Let the clock of a host show another time of day, by seconds, an hour or years."""
        if (name := self._pick(self._cast.everybody)) is None:
            return False
        sign = self._random.choice((-1, 1))
        self._world.clock.jumps[name] = sign * self._random.choice((2.0, 3600.0, YEARS_SECONDS))
        if self._random.random() < 0.5:  # A store looks at that clock when it starts.
            self._crash(name, 0.05, 0.5)
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

    def reset_connections(self) -> bool:
        """Break all connections of a process."""
        if (name := self._pick(self._cast.everybody)) is None:
            return False
        self._world.network.reset(self._world.processes[name].loop)
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
