"""Receipts: what a publish resolves to, and the publishes that wait for theirs."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quorate.protocol.errors import QuorateError
from quorate.v1 import messages_pb2 as v1


class Durability(enum.Enum):
    """How firmly a store holds a message when it says that it has it."""

    FSYNC = "fsync"
    """Synced to the disk."""
    OS = "os"
    """In the page cache: outlives the store's process, not its host."""
    MEMORY = "memory"


_DURABILITY = {
    v1.DURABILITY_FSYNC: Durability.FSYNC,
    v1.DURABILITY_OS: Durability.OS,
    v1.DURABILITY_MEMORY: Durability.MEMORY,
}


def durability_from_wire(wire: int) -> Durability:
    """What a store says of itself; one that does not say it is taken at its least."""
    return _DURABILITY.get(wire, Durability.MEMORY)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a message is stable."""

    sequence: int
    epoch: int
    stores: tuple[str, ...]
    """The stores that had it when it became stable; more may have it since."""
    durability: Mapping[str, Durability]
    """For each of these stores, how firmly it holds the message."""
    seconds: float
    """From publish to stable."""
    groups: tuple[str, ...] = ()
    """The groups whose rule these stores met."""


class PendingReceipts:
    """Publishes in order of their sequence numbers."""

    def __init__(self) -> None:
        self._pending: deque[tuple[int, float, asyncio.Future[Receipt]]] = deque()

    def __len__(self) -> int:
        return len(self._pending)

    def expect(self, sequence: int, future: asyncio.Future[Receipt], now: float) -> None:
        self._pending.append((sequence, now, future))

    def settle(self, stable_upto: int, now: float, proof: Callable[[int, float], Receipt]) -> None:
        """Resolve all up to stable_upto; proof makes a receipt of a number and the time taken."""
        pending = self._pending
        while pending and pending[0][0] <= stable_upto:
            sequence, since, future = pending.popleft()
            if not future.done():
                future.set_result(proof(sequence, now - since))

    def fail(self, error: Callable[[int], QuorateError]) -> None:
        """Nothing more will become stable here."""
        while self._pending:
            sequence, _, future = self._pending.popleft()
            if not future.done():
                future.set_exception(error(sequence))
