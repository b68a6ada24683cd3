"""The disks of simulated stores: what was synced outlives a crash, and of the rest a part may.

And the writer of a store, whose thread is a task here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from quorate.protocol.errors import QuorateError, StorageFailed
from quorate.store.storage.group_commit import Writer
from quorate.store.storage.interface import Columns, Table, Write, with_columns
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.records import position_key

SYNC_SECONDS = 0.003
"""The longest usual time of a sync, in seconds."""
_LAST_KEY = b"\xff" * 16

OnSynced = Callable[[Sequence[Write]], None]
"""Is told which rows are on a disk from now on."""


class Disk(MemoryStorage):
    """A storage that fails as a disk does."""

    def __init__(self, on_synced: OnSynced = lambda _: None) -> None:
        """Begin blank, and in order."""
        super().__init__()
        self._on_synced = on_synced
        self.sync_seconds = SYNC_SECONDS
        """The longest time of a sync."""
        self.fails_next_sync = False
        self._has_failed = False
        self.is_cached = False
        """Whether the store acknowledges messages that are only in the page cache of its host."""
        self._commits: list[list[Write]] = []
        """The rows that are not synced yet, one list for each write."""
        self._state_commits: list[list[Write]] = []
        """The rows of Table.STATE that are not synced yet, one list for each write with any."""

    def write(self, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        commit = with_columns(writes, columns)
        self._commits.append(commit)
        if state := _of_state(commit):
            self._state_commits.append(state)
        super().write(commit)

    def sync(self) -> None:
        if self.fails_next_sync or self._has_failed:
            self._has_failed = True
            raise StorageFailed("the disk", "the sync failed")
        super().sync()
        synced = [write for commit in self._commits for write in commit]
        self._commits.clear()
        self._on_synced(synced)

    def sync_state(self) -> None:
        super().sync_state()
        self._state_commits.clear()

    def crashed(self, random: Random) -> Disk:
        """Return the disk as a restart finds it: some of the last writes are there, each whole."""
        after = self._next()
        self._synced.copy_to(after)
        kept = random.randint(0, len(self._commits))
        for commit in self._commits[:kept]:
            MemoryStorage.write(after, [each for each in commit if each.table is not Table.STATE])
        lost = sum(1 for commit in self._commits[kept:] if _of_state(commit))
        if left := len(self._state_commits) - lost:
            for commit in self._state_commits[: random.randint(0, left)]:
                MemoryStorage.write(after, commit)
        after.copy_to(after._synced)
        after._unsynced.clear()
        after._unsynced_state.clear()
        return after

    def flip(self, random: Random) -> bool:
        """Turn a bit of a batch in the journal. Return False if there is none."""
        rows = self._synced.scan(Table.JOURNAL, b"", _LAST_KEY, 100_000)
        if not rows:
            return False
        self.flip_at(random.choice(rows)[0], random)
        return True

    def flip_last(self) -> None:
        """Turn the last bit of the last batch in the journal."""
        key, value = self._synced.scan(Table.JOURNAL, b"", _LAST_KEY, 100_000)[-1]
        self._turn(key, value, 8 * len(value) - 1)

    def flip_at(self, key: bytes, random: Random) -> None:
        """Turn a bit of the batch at this place of the journal."""
        value = self._rows[Table.JOURNAL][key]
        self._turn(key, value, random.randrange(8 * len(value)))

    def _turn(self, key: bytes, value: bytes, bit: int) -> None:
        turned = bytearray(value)
        turned[bit // 8] ^= 1 << bit % 8
        for each in (self._synced, self):
            if key in each._rows[Table.JOURNAL]:
                each._rows[Table.JOURNAL][key] = bytes(turned)

    def has_synced(self, position: int) -> bool:
        """Return whether the batch at this place of the journal is synced."""
        return position_key(position) in self._synced._rows[Table.JOURNAL]

    def cached(self) -> Disk:
        """Return the disk as a restart finds it whose host went on: all that was written."""
        after = self._next()
        self.copy_to(after)
        self._synced.copy_to(after._synced)
        after._commits = self._commits
        after._state_commits = self._state_commits
        after._unsynced, after._unsynced_state = self._unsynced, self._unsynced_state
        return after

    def copy(self) -> Disk:
        """Return a copy of what is synced."""
        after = self._next()
        self._synced.copy_to(after)
        after.copy_to(after._synced)
        return after

    def _next(self) -> Disk:
        after = Disk(self._on_synced)
        after.is_cached = self.is_cached
        return after


def _of_state(commit: Iterable[Write]) -> list[Write]:
    return [each for each in commit if each.table is Table.STATE]


class Disks:
    """The disks of all stores, by the path of the database."""

    def __init__(self, random: Random) -> None:
        """Begin blank."""
        self._random = random
        self._by_path: dict[Path, Disk] = {}
        self.on_synced: Callable[[Path, Sequence[Write]], None] = lambda _, __: None
        """Is told, with the path of a disk, what is on it from now on."""
        self._cached: set[Path] = set()

    def open(self, path: Path, is_new: bool) -> Disk:
        """Return the disk in the place of RocksDB. Raises StorageFailed if it is lost."""
        if path not in self._by_path:
            if not is_new:
                raise StorageFailed(str(path), "there is no database")
            self._by_path[path] = Disk(lambda writes: self.on_synced(path, writes))
            self._by_path[path].is_cached = path in self._cached
        return self._by_path[path]

    def rely_on_cache(self, path: Path) -> None:
        """Say that the store of this path acknowledges what is only in the page cache."""
        self._cached.add(path)

    def at(self, path: Path) -> Disk | None:
        """Return the disk with this path; None: it is blank."""
        return self._by_path.get(path)

    def crash(self, path: Path) -> None:
        """Lose a part of what was not synced, unless the page cache is relied on."""
        if path in self._by_path:
            disk = self._by_path[path]
            self._by_path[path] = disk.cached() if disk.is_cached else disk.crashed(self._random)

    def reboot(self, path: Path) -> None:
        """Lose a part of what was not synced, as the host went down."""
        if path in self._by_path:
            self._by_path[path] = self._by_path[path].crashed(self._random)

    def put_back(self, path: Path, copy: Disk) -> None:
        """Put a copy in the place of a disk."""
        self._by_path[path] = copy.copy()

    def wipe(self, path: Path) -> None:
        """Lose everything."""
        self._by_path.pop(path, None)


@dataclass(frozen=True)
class Copy:
    """A copy of a data directory."""

    disk: Disk
    files: dict[str, bytes]
    """The files beside the database, by name."""
    incarnation: bytes
    starts: int
    """How often the store was started until then, as it says itself."""


class _NoLock:
    """Stands for the condition on which the writer's thread waits."""

    def __init__(self) -> None:
        self.notified = asyncio.Event()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def notify(self) -> None:
        self.notified.set()


class WorldWriter(Writer):
    """A writer that commits in a task."""

    random: Random

    def start(self) -> None:
        """Begin the task."""
        self._lock = _NoLock()
        self._arrived = self._lock  # type: ignore[assignment]
        self._task = self._loop.create_task(self._commit_all())

    async def stop(self) -> None:
        """Commit all submitted rows, then end the task."""
        self._stopping = True
        if hasattr(self, "_task"):
            self._lock.notify()
            await self._task

    async def _commit_all(self) -> None:
        try:
            while True:
                while not self._pending:
                    if self._stopping:
                        return
                    self._idle = True
                    self._lock.notified.clear()
                    await self._lock.notified.wait()
                commit = self._take()
                assert commit is not None
                assert isinstance(self._storage, Disk)
                await asyncio.sleep(self.random.uniform(0, self._storage.sync_seconds))
                self._commit(commit)
                self._loop.call_soon(self._on_committed, commit)
        except QuorateError as error:
            self._on_failed(error)
        except Exception as error:
            self._on_failed(StorageFailed("the data directory", repr(error)))


def writers_of(random: Random) -> Any:
    """Return the class of the writers of a world."""
    return type("WritersOfAWorld", (WorldWriter,), {"random": random})
