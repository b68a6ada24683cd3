"""Receipts of published messages, and the publishes that wait for one.

The proof itself is made elsewhere, from what the stores acknowledged.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quorate.protocol.bookmarks import Bookmark
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.v1 import messages_pb2 as v1


class Durability(enum.Enum):
    """How firmly a store holds a message that it has acknowledged."""

    FSYNC = "fsync"
    """The message is synced to the disk."""
    OS = "os"
    """The message is in the page cache: it outlives the store's process, but not its host."""
    MEMORY = "memory"
    """The message is in the memory of the store's process."""


_DURABILITY = {
    v1.DURABILITY_FSYNC: Durability.FSYNC,
    v1.DURABILITY_OS: Durability.OS,
    v1.DURABILITY_MEMORY: Durability.MEMORY,
}


def durability_from_wire(wire: int) -> Durability:
    """Return the durability that a store reports. A store that reports none counts as MEMORY."""
    return _DURABILITY.get(wire, Durability.MEMORY)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The proof that a message is stable."""

    source: SourceName
    """The source that sent the message."""
    sequence: int
    """The sequence number of the message."""
    epoch: int
    """The source's epoch under which the message belongs to the stream."""
    stores: tuple[str, ...]
    """The stores that had the message when it became stable. More stores may have it since."""
    durability: Mapping[str, Durability]
    """The durability of the message at each of these stores, by name."""
    seconds: float
    """The time, in seconds, from publish to stable."""
    groups: tuple[str, ...] = ()
    """The groups whose rule these stores met."""

    @property
    def bookmark(self) -> Bookmark:
        """The place of the message, for a subscription or a query that must have it."""
        return Bookmark(self.source, self.epoch, self.sequence)


class PendingReceipts:
    """The publishes that wait for a receipt, in order of their sequence numbers."""

    def __init__(self) -> None:
        self._pending: deque[tuple[int, float, asyncio.Future[Receipt]]] = deque()

    def __len__(self) -> int:
        return len(self._pending)

    def expect(self, sequence: int, future: asyncio.Future[Receipt], now: float) -> None:
        """Add a publish that waits for its receipt."""
        self._pending.append((sequence, now, future))

    def settle(self, stable_upto: int, now: float, proof: Callable[[int, float], Receipt]) -> None:
        """Resolve every publish up to stable_upto.

        proof: makes the receipt from a sequence number and the time taken, in seconds.
        """
        pending = self._pending
        while pending and pending[0][0] <= stable_upto:
            sequence, since, future = pending.popleft()
            if not future.done():
                future.set_result(proof(sequence, now - since))

    def fail(self, error: Callable[[int], QuorateError]) -> None:
        """Fail every publish that still waits: no further message will become stable here."""
        while self._pending:
            sequence, _, future = self._pending.popleft()
            if not future.done():
                future.set_exception(error(sequence))
