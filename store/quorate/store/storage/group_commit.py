"""Group commit: one thread writes all rows that have arrived, syncs once, and acknowledges them.

There is no timer: the window is as long as the last sync took. After the first failure nothing is
written, synced or acknowledged. Nothing here knows the meaning of the rows, except for the commit's
own record, which goes with every commit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quorate.protocol.errors import QuorateError, StorageFailed
from quorate.store.durations import Durations
from quorate.store.storage.interface import (
    Columns,
    Storage,
    Table,
    Write,
)
from quorate.store.storage.records import (
    COMMIT_KEY,
    CommitRecord,
    pack_commit,
)

_LAZY_SECONDS = 0.1
"""Seconds after which rows that were submitted lazily are written without others."""
_ROW_BYTES = 64
"""The bytes that a row is taken to cost apart from its value."""


class Acknowledged(Protocol):
    """A stream that is told, on the event loop, up to which number everything is durable."""

    def acknowledge(self, upto: int) -> None: ...


@dataclass(slots=True)
class _Commit:
    number: int
    writes: list[Write] = field(default_factory=list)
    columns: list[Columns] = field(default_factory=list)
    uptos: dict[Acknowledged, int] = field(default_factory=dict)
    bytes: int = 0
    sync: bool = False

    def __bool__(self) -> bool:
        return bool(self.writes or self.columns or self.uptos)


class Writer:
    """The writer of one store. It commits in the order of submission, from one event loop only."""

    def __init__(
        self,
        storage: Storage,
        committed: int,
        position: Callable[[], int],
        acknowledged: Callable[[int], None],
        check_room: Callable[[], None],
        failed: Callable[[QuorateError], None],
        pending_bytes_max: int,
    ) -> None:
        """Make the writer; `start` starts its thread.

        - committed: the number of the last commit on the disk.
        - position: returns, in the thread, a journal position behind all submitted batches.
        - acknowledged: called in the thread with each synced commit's number, before any waiter.
        - check_room: raises StorageFailed, in the thread, if no commit may begin.
        - failed: called once, on the event loop.
        - pending_bytes_max: the bytes of submitted rows above which `full` is true.
        """
        self._storage = storage
        self._position = position
        self._acknowledged = acknowledged
        self._check_room = check_room
        self._failed = failed
        self._pending_bytes_max = pending_bytes_max
        self._loop = asyncio.get_running_loop()
        self._arrived = threading.Condition()
        self._idle = False
        self._stopping = False
        self._pending = _Commit(committed + 1)
        self._bytes = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._lazily: asyncio.TimerHandle | None = None
        """The call that has rows written that were submitted lazily; None: none may wait."""
        self._room: asyncio.Event = asyncio.Event()
        self._room.set()
        self.committed = committed
        """The number of the last commit that is durable."""
        self.on_committed: Callable[[int], None] = _nobody
        """Called, on the event loop, with the number of each commit that is durable."""
        self.failure: QuorateError | None = None
        self.sync_durations = Durations()
        """How long each sync took."""
        self._thread = threading.Thread(target=self._run, name="quorate-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(
        self,
        writes: Sequence[Write],
        sync: bool = True,
        acknowledge: Acknowledged | None = None,
        upto: int = 0,
        columns: Columns | None = None,
    ) -> int:
        """Submit rows to be written together, and return the number of their commit.

        Once they are durable acknowledge, if given, receives upto, or a later one of the same
        commit. Without rows and acknowledge the number is that of the last submitted commit.
        columns: further rows. Raises StorageFailed after a failure.
        """
        if self.failure is not None:
            raise self.failure
        size = _bytes_of(writes)
        if columns is not None:
            size += _ROW_BYTES * len(columns.keys) + sum(map(len, columns.values))
        with self._arrived:
            pending = self._pending
            if not writes and columns is None and acknowledge is None:
                return pending.number if pending else pending.number - 1
            pending.writes.extend(writes)
            if columns is not None:
                pending.columns.append(columns)
            pending.bytes += size
            pending.sync |= sync
            if acknowledge is not None:
                pending.uptos[acknowledge] = upto
            number = pending.number
            self._begin()
        self._bytes += size
        if self._bytes > self._pending_bytes_max:
            self._room.clear()
        return number

    def submit_lazily(self, writes: Sequence[Write]) -> int:
        """Submit rows that may go with the next commit, which is synced, and return its number.

        The thread is not woken for them, unless no other rows come soon, or somebody waits. Rows
        that are submitted later are never written before them. Raises StorageFailed after a
        failure.
        """
        if self.failure is not None:
            raise self.failure
        size = _bytes_of(writes)
        with self._arrived:
            self._pending.writes.extend(writes)
            self._pending.bytes += size
            self._pending.sync = True
            number = self._pending.number
        self._bytes += size
        if self._lazily is None:
            self._lazily = self._loop.call_later(_LAZY_SECONDS, self._wake)
        return number

    def _wake(self) -> None:
        """Let the thread write all rows that were submitted."""
        if self._lazily is not None:
            self._lazily.cancel()
            self._lazily = None
        with self._arrived:
            if self._pending:
                self._begin()

    def _begin(self) -> None:
        """Let the thread begin a commit, unless it is under way. `_arrived` is held."""
        if self._idle:
            self._idle = False
            self._arrived.notify()

    async def durable(self, number: int) -> None:
        """Return once that commit is durable. Raises StorageFailed if it never will be."""
        if number <= self.committed:
            return
        if self.failure is not None:
            raise self.failure
        if self._lazily is not None:
            self._wake()
        future = self._waiting.get(number)
        if future is None:
            future = self._waiting[number] = self._loop.create_future()
        # Several callers may wait: a cancelled one must not cancel the others.
        await asyncio.shield(future)

    @property
    def full(self) -> bool:
        """Whether more bytes wait to be written than pending_bytes_max."""
        return not self._room.is_set()

    async def room(self) -> None:
        """Return once the writer is not full. Raises StorageFailed after a failure."""
        await self._room.wait()
        if self.failure is not None:
            raise self.failure

    async def stop(self) -> None:
        """Commit all submitted rows, then end the thread."""
        if self._lazily is not None:
            self._lazily.cancel()
        with self._arrived:
            self._stopping = True
            self._arrived.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)
        # The thread's last callback still waits in the event loop.
        await asyncio.sleep(0)

    # In the thread.

    def _run(self) -> None:
        try:
            while (commit := self._take()) is not None:
                self._commit(commit)
                self._loop.call_soon_threadsafe(self._on_committed, commit)
        except QuorateError as error:
            self._loop.call_soon_threadsafe(self._on_failed, error)
        except BaseException as error:
            failure = StorageFailed("the data directory", repr(error))
            failure.__cause__ = error
            self._loop.call_soon_threadsafe(self._on_failed, failure)

    def _take(self) -> _Commit | None:
        with self._arrived:
            while not self._pending:
                if self._stopping:
                    return None
                self._idle = True
                self._arrived.wait()
            commit = self._pending
            self._pending = _Commit(commit.number + 1)
            return commit

    def _commit(self, commit: _Commit) -> None:
        if not commit.writes and not commit.columns:
            return
        self._check_room()
        record = CommitRecord(commit.number, self._position())
        commit.writes.append(Write(Table.META, COMMIT_KEY, pack_commit(record)))
        self._storage.write(commit.writes, commit.columns)
        if commit.sync:
            before = time.monotonic()
            self._storage.sync()
            self.sync_durations.observe(time.monotonic() - before)
            self._acknowledged(commit.number)

    # On the event loop.

    def _on_committed(self, commit: _Commit) -> None:
        self.committed = commit.number
        self._bytes -= commit.bytes
        if self._bytes <= self._pending_bytes_max:
            self._room.set()
        if (future := self._waiting.pop(commit.number, None)) and not future.done():
            future.set_result(None)
        for acknowledge, upto in commit.uptos.items():
            acknowledge.acknowledge(upto)
        self.on_committed(commit.number)

    def _on_failed(self, error: QuorateError) -> None:
        self.failure = error
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # every waiter gets it; there need not be one
        self._waiting.clear()
        self._room.set()
        self._failed(error)


def _nobody(_: int) -> None:
    """Tell nobody of a commit."""


def _bytes_of(writes: Sequence[Write]) -> int:
    return sum(_ROW_BYTES + len(write.value or b"") for write in writes)
