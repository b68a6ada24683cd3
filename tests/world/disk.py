"""The disks of simulated stores: what was synced outlives a crash, and of the rest a part may.

And the writer of a store, whose thread is a task here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from quorate.protocol.errors import QuorateError, StorageFailed
from quorate.store.storage.group_commit import Writer
from quorate.store.storage.interface import Columns, Table, Write, with_columns
from quorate.store.storage.memory import MemoryStorage

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
        after = Disk(self._on_synced)
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
        key, value = random.choice(rows)
        bit = random.randrange(8 * len(value))
        turned = bytearray(value)
        turned[bit // 8] ^= 1 << bit % 8
        for each in (self._synced, self):
            if key in each._rows[Table.JOURNAL]:
                each._rows[Table.JOURNAL][key] = bytes(turned)
        return True


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

    def open(self, path: Path, is_new: bool) -> Disk:
        """Return the disk in the place of RocksDB. Raises StorageFailed if it is lost."""
        if path not in self._by_path:
            if not is_new:
                raise StorageFailed(str(path), "there is no database")
            self._by_path[path] = Disk(lambda writes: self.on_synced(path, writes))
        return self._by_path[path]

    def at(self, path: Path) -> Disk | None:
        """Return the disk with this path; None: it is blank."""
        return self._by_path.get(path)

    def crash(self, path: Path) -> None:
        """Lose a part of what was not synced."""
        if path in self._by_path:
            self._by_path[path] = self._by_path[path].crashed(self._random)

    def wipe(self, path: Path) -> None:
        """Lose everything."""
        self._by_path.pop(path, None)


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
