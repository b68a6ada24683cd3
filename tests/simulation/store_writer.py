"""The writer of a simulated store: group commit in virtual time, as in
quorate.store.storage.group_commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.simulation.disk import Disk
from tests.simulation.world import Event, Pending, Process

from quorate.protocol.errors import QuorateError, StorageFailed
from quorate.store.storage.group_commit import Acknowledged
from quorate.store.storage.interface import Columns, Table, Write, with_columns
from quorate.store.storage.records import (
    COMMIT_KEY,
    CommitRecord,
    pack_commit,
)


@dataclass
class _Commit:
    number: int
    writes: list[Write] = field(default_factory=list)
    uptos: dict[Acknowledged, int] = field(default_factory=dict)
    sync: bool = False

    def __bool__(self) -> bool:
        return bool(self.writes or self.uptos)


class SimulatedWriter:
    """Commits in the order of submission."""

    def __init__(
        self,
        process: Process,
        disk: Disk,
        committed: int,
        position: Callable[[], int],
        submitted: Callable[[Sequence[Write]], None],
    ) -> None:
        """submitted: is told of every change."""
        self._submitted = submitted
        self._process = process
        self._disk = disk
        self._position = position
        self._pending = _Commit(committed + 1)
        self._arrived = Event(process)
        self._waiting: dict[int, list[Pending[None]]] = {}
        self.committed = committed
        self.failure: QuorateError | None = None
        self.full = False

    def submit(
        self,
        writes: Sequence[Write],
        sync: bool = True,
        acknowledge: Acknowledged | None = None,
        upto: int = 0,
        columns: Columns | None = None,
    ) -> int:
        """Submit rows to be written, as quorate.store.storage.group_commit does."""
        pending = self._pending
        writes = with_columns(writes, [columns] if columns else [])
        if not writes and acknowledge is None:
            return pending.number if pending else pending.number - 1
        self._submitted(writes)
        pending.writes.extend(writes)
        pending.sync |= sync
        if acknowledge is not None:
            pending.uptos[acknowledge] = upto
        self._arrived.set()
        return pending.number

    def submit_lazily(self, writes: Sequence[Write]) -> int:
        """Submit rows that may go with the next commit. It is no later here."""
        return self.submit(writes)

    async def durable(self, number: int) -> None:
        if number > self.committed:
            pending: Pending[None] = Pending()
            self._waiting.setdefault(number, []).append(pending)
            await pending

    async def run(self, failed: Callable[[], None]) -> None:
        """Write what arrives; failed is called once, and ends it."""
        while True:
            while not self._pending:
                self._arrived.clear()
                await self._arrived.wait()
            commit = self._pending
            self._pending = _Commit(commit.number + 1)
            try:
                await self._commit(commit)
            except StorageFailed:
                failed()
                return
            self._on_committed(commit)

    async def _commit(self, commit: _Commit) -> None:
        """Return once it is on the disk; raises StorageFailed."""
        if not commit.writes:
            return
        record = CommitRecord(commit.number, self._position())
        commit.writes.append(Write(Table.META, COMMIT_KEY, pack_commit(record)))
        await self._process.sleep(0.0001)
        self._disk.write(commit.writes)
        if commit.sync:
            await self._process.sleep(self._disk.sync_seconds())
            self._disk.sync()
            self._disk.acknowledged = commit.number

    def _on_committed(self, commit: _Commit) -> None:
        self.committed = commit.number
        for pending in self._waiting.pop(commit.number, ()):
            pending.set(None)
        for acknowledge, upto in commit.uptos.items():
            acknowledge.acknowledge(upto)
