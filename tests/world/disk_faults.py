"""The faults of the disks of simulated stores, and of their hosts.

Whatever destroys data looks first whether the policies tolerate it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.world.course import Course
from tests.world.disk import SYNC_SECONDS, Disk
from tests.world.seen import Stream

from quorate.protocol.identity import SourceName
from quorate.store.storage.index import entries
from quorate.store.storage.records import IndexEntry, position_key

CHECK_SECONDS = 10.0
"""The time within which a store that starts has asked its peers."""


class DiskFaults(Course):
    """Makes disks and hosts fail."""

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
        if disk.is_cached:  # The store does not know which messages it has lost.
            if not self._may_lose(name):
                return False
            self._damaged.add(name)
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

    def reboot_host(self) -> bool:
        """Let the host of a store go down. Messages that were only in its page cache may go."""
        name = self._random.choice(self._cast.stores)
        if not self._may_lose(name) or (disk := self._disk(name)) is None or not disk.is_cached:
            return False
        if name in self._world.processes:
            self._world.crash(name)
        self._world.reboot(name)
        self._restart(name, 0.05, 0.5, 2.0)
        return True

    def copy_disk(self) -> bool:
        """Make a copy of the directory of a store."""
        name = self._random.choice(self._cast.stores)
        if self._disk(name) is None or not self._cast.serves(name):
            return False
        self._copies[name] = self._world.copy(name)
        return True

    def put_back(self) -> bool:
        """Put the copy of a store's directory in its place, where a peer can tell.

        Nothing else is promised to be found out: some peer remembers more starts, and answers.
        """
        if not self._copies:
            return False
        name = self._random.choice(sorted(self._copies))
        if not self._may_lose(name) or name not in self._cast.stores:
            return False
        starts = self._copies[name].starts
        others = [other for other in self._cast.stores if other != name]
        if not any(self._remembers_more(other, name, starts) for other in others):
            return False
        for other in others:
            self._world.processes[other].loop.rounds_left = None
            self._world.processes[other].loop.paused_until = 0.0
            self._world.network.mend([(name, other), (other, name)])
        if name in self._world.processes:
            self._world.crash(name)
        self._world.put_back(name, self._copies[name])
        self._cast.start(name)
        self._world.run_until(lambda: self._has_asked(name), CHECK_SECONDS)
        standing = self._cast.standing(name)
        if standing is None or standing.record.incarnation == self._copies[name].incarnation:
            self._cast.seen.failures.append(f"store {name} was put back, and it went on")
        return True

    def _remembers_more(self, store: str, of: str, starts: int) -> bool:
        standing = self._cast.standing(store)
        return standing is not None and any(
            known.store_name == of and known.starts > starts for known in standing.peers.values()
        )

    def _has_asked(self, store: str) -> bool:
        standing = self._cast.standing(store)
        return standing is not None and not standing.unchecked

    def lose_batch(self) -> bool:
        """Turn a bit in every copy of a batch that is stable. An operator accepts the loss."""
        stream = self._random.choice(self._cast.seen.streams)
        if stream.lost or not stream.life.stable or not all(map(self._is_whole, self._cast.stores)):
            return False
        number = self._random.choice(sorted(stream.life.stable))
        by_store = {
            store: list(self._copies_of(store, stream, number)) for store in self._cast.stores
        }
        if not all(by_store[store] for store in self._cast.holders):
            return False  # The source sends it to those that lack it yet.
        copies = [each for found in by_store.values() for each in found]
        if not all(disk.has_synced(entry.position) for disk, entry in copies):
            return False
        for disk, entry in copies:
            disk.flip_at(position_key(entry.position), self._random)
            stream.lost.update(range(entry.first, entry.last + 1))
        self._damaged.update(self._cast.stores)
        return True

    def _is_whole(self, store: str) -> bool:
        return self._cast.serves(store) and store not in self._damaged

    def _copies_of(
        self, store: str, stream: Stream, number: int
    ) -> Iterator[tuple[Disk, IndexEntry]]:
        """Yield the batches of a store that have this message."""
        state = self._cast.states(store).get(SourceName(stream.topic, stream.session_id))
        disk = self._disk(store)
        if state is not None and disk is not None:
            for entry in entries(disk, state.reg_id, number, number):
                yield disk, entry
