"""The disk of a simulated store: what was synced outlives a crash, and of the rest a part may.

And the writer of a store, whose thread is a task here.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from quorate.protocol.errors import QuorateError, StorageFailed
from quorate.store.storage.group_commit import Writer
from quorate.store.storage.memory import MemoryStorage

SYNC_SECONDS = 0.003
"""The longest usual time of a sync, in seconds."""


class Disks:
    """The storages of all stores, by the path of the database."""

    def __init__(self) -> None:
        """Begin blank."""
        self._by_path: dict[Path, MemoryStorage] = {}

    def open(self, path: Path, is_new: bool) -> MemoryStorage:
        """Return the storage in the place of RocksDB. Raises StorageFailed if it is lost."""
        if path not in self._by_path:
            if not is_new:
                raise StorageFailed(str(path), "there is no database")
            self._by_path[path] = MemoryStorage()
        return self._by_path[path]

    def crash(self, path: Path) -> None:
        """Lose what was not synced."""
        if path in self._by_path:
            self._by_path[path] = self._by_path[path].crash()

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
                await asyncio.sleep(self.random.uniform(0, SYNC_SECONDS))
                self._commit(commit)
                self._loop.call_soon(self._on_committed, commit)
        except QuorateError as error:
            self._on_failed(error)
        except Exception as error:
            self._on_failed(StorageFailed("the data directory", repr(error)))


def writers_of(random: Random) -> Any:
    """Return the class of the writers of a world."""
    return type("WritersOfAWorld", (WorldWriter,), {"random": random})
