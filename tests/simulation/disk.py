"""A disk of the simulated world, as a store's storage over it: written is not yet durable.

A commit is whole or not there at all. A crash keeps every synced commit and, of those after the
last sync, the first few; if the store relies on the page cache, all that was written, as long as
its host goes on. Nothing here knows what the rows mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from tests.simulation.world import World

from quorate.protocol.errors import StorageFailed
from quorate.store.storage.clean_shutdown import Run
from quorate.store.storage.interface import (
    Columns,
    Row,
    Table,
    Write,
    with_columns,
)
from quorate.store.storage.memory import MemoryRows


class Watcher(Protocol):
    """Who is told of every commit, with the store's name."""

    def written(self, store: str, writes: Sequence[Write]) -> None: ...

    def synced(self, store: str, writes: Sequence[Write]) -> None: ...

    def may_lose(self, store: str) -> bool:
        """Whether what is only in the page cache may be lost now; it counts as lost then."""
        ...


class Snapshot(NamedTuple):
    """A copy of a disk."""

    rows: MemoryRows
    acknowledged: int
    run: Run | None
    flipped: bool


class Disk:
    """One store's storage; it outlives the store's processes."""

    def __init__(self, world: World, name: str, watcher: Watcher) -> None:
        self._world = world
        self._name = name
        self._watcher = watcher
        self._now = MemoryRows()
        self._unsynced: list[list[Write]] = []
        self.synced = MemoryRows()
        """What a crash at this moment is sure to leave."""
        self.sync_seconds_max = 0.002
        self.fails_next_sync = False
        self.acknowledged = 0
        """The number of the last commit that the store takes for durable."""
        self.flipped = False
        """Something on it may be unreadable."""
        self.run: Run | None = None
        """How its store ran, if that was not ended."""
        self.boot = "boot 1"
        """Of the host."""

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._now.get(table, keys)

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        return self._now.scan(table, first, last, limit)

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        return self._now.at_or_before(table, key)

    def frozen(self, table: Table) -> MemoryRows:
        return self._now.frozen(table)

    def write(self, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        commit = with_columns(writes, columns)
        self._now.write(commit)
        self._unsynced.append(commit)
        self._watcher.written(self._name, commit)

    def sync(self) -> None:
        if self.fails_next_sync:
            self.fails_next_sync = False
            # What was to be synced is marked clean: no later sync writes it.
            self._unsynced.clear()
            raise StorageFailed(self._name, "the sync failed")
        self._keep(len(self._unsynced))

    def sync_state(self) -> None:
        self.sync()

    def remove_state(self, first: bytes, last: bytes) -> None:
        assert not self.scan(Table.STATE, first, last, 1), "no store of this world makes rows"

    def sync_for_sure(self) -> None:
        """A sync that does not fail."""
        self._keep(len(self._unsynced))

    def wipe(self) -> None:
        """Nothing is left."""
        self._unsynced.clear()
        self._now, self.synced = MemoryRows(), MemoryRows()
        self.acknowledged = 0
        self.flipped = False
        self.run = None

    def snapshot(self) -> Snapshot:
        """What a copy of the disk would have now."""
        return Snapshot(_copy(self.synced), self.acknowledged, self.run, self.flipped)

    def put_back(self, snapshot: Snapshot) -> None:
        """Have what the copy has."""
        self._unsynced.clear()
        self._now, self.synced = _copy(snapshot.rows), _copy(snapshot.rows)
        self.acknowledged = snapshot.acknowledged
        self.run = snapshot.run
        self.flipped = snapshot.flipped

    def flip(self, position: bytes, at: int) -> None:
        """One bit of a batch in the journal is another from now on."""
        frame = bytearray(self.synced.get(Table.JOURNAL, [position])[0] or b"")
        frame[at % len(frame)] ^= 1 << at % 8
        self.plant([Write(Table.JOURNAL, position, bytes(frame))])
        self.flipped = True

    def plant(self, writes: Sequence[Write]) -> None:
        """These rows are other than they were written, or gone, and nothing tells."""
        for rows in (self._now, self.synced):
            rows.write(writes)

    def close(self) -> None:
        self.sync()

    def sync_seconds(self) -> float:
        """How long the next sync takes."""
        return self._world.chooser.uniform(0.0001, self.sync_seconds_max)

    def crash(self) -> None:
        """The machine stops now; the rows are as it finds them when it is back."""
        if self._unsynced:
            kept = self._world.chooser.randint(0, len(self._unsynced))
            state = "unsynced commit survived" if kept else "unsynced commit lost"
            self._world.reach(state, self._name)
            self._lost(kept, len(self._unsynced))
            self._keep(kept)
        self._unsynced.clear()
        self._now = _copy(self.synced)

    def _lost(self, kept: int, written: int) -> None:
        """So many of the commits that were written are there after a fault."""
        if kept < written:
            self._world.faults["writes torn" if kept else "writes lost"] += 1

    def _keep(self, count: int) -> None:
        for commit in self._unsynced[:count]:
            self.synced.write(commit)
            self._watcher.synced(self._name, commit)
        del self._unsynced[:count]


class CachedDisk(Disk):
    """That of a store that acknowledges what is only in the page cache of its host.

    So `synced` has all that was written, though only a sync takes it to the platter.
    """

    def __init__(self, world: World, name: str, watcher: Watcher) -> None:
        super().__init__(world, name, watcher)
        self._platter = MemoryRows()
        self._cached: list[list[Write]] = []

    def write(self, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        super().write(writes, columns)
        self._cached += self._unsynced
        self._keep(len(self._unsynced))

    def sync(self) -> None:
        if self.fails_next_sync and self._watcher.may_lose(self._name):
            self.fails_next_sync = False
            self.run = Run("", "os")
            self._go_down(0)
            raise StorageFailed(self._name, "the sync failed")
        self.sync_for_sure()

    def sync_for_sure(self) -> None:
        for commit in self._cached:
            self._platter.write(commit)
        self._cached.clear()

    def reboot(self) -> None:
        """The host goes down, and comes back with the first of what was not synced, if any."""
        self.boot = f"boot {int(self.boot.split()[1]) + 1}"
        kept = self._world.chooser.randint(0, len(self._cached))
        if kept < len(self._cached):
            self._world.reach("cached commits lost", self._name)
        self._lost(kept, len(self._cached))
        self._go_down(kept)

    def _go_down(self, kept: int) -> None:
        for commit in self._cached[:kept]:
            self._platter.write(commit)
        self._cached.clear()
        self._now, self.synced = _copy(self._platter), _copy(self._platter)

    def wipe(self) -> None:
        super().wipe()
        self._cached.clear()
        self._platter = MemoryRows()

    def put_back(self, snapshot: Snapshot) -> None:
        super().put_back(snapshot)
        self._cached.clear()
        self._platter = _copy(snapshot.rows)

    def flip(self, position: bytes, at: int) -> None:
        self.sync_for_sure()
        super().flip(position, at)
        self._platter.write(
            [Write(Table.JOURNAL, position, self.get(Table.JOURNAL, [position])[0])]
        )


def _copy(rows: MemoryRows) -> MemoryRows:
    other = MemoryRows()
    rows.copy_to(other)
    return other
