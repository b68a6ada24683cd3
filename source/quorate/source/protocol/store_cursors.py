"""How far the stream to each store has got, and what it says next.

Pure. Each stream has a place in the retention of its own, so that a slow one holds up no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quorate.protocol.limits import NOTHING
from quorate.source.protocol.frames import (
    keepalive_frame,
    skip_frame,
)
from quorate.source.protocol.retention import Retention
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY


@dataclass(slots=True)
class Cursor:
    """How far one store's stream has got."""

    ordinal: int = 0
    next_sequence: int = 0
    open: bool = False
    idle: bool = False
    """Everything there was has been written."""
    durability: int = 0
    waiting_since: float | None = None
    """Since when something written was not acknowledged."""
    catching_up: bool = False
    keepalive_due: bool = False
    information_version: int = 0
    """Of the registration information that was sent last."""
    takes_data: bool = True
    """False: the store keeps no messages of the topic, and is sent none."""
    told_stable_upto: int = NOTHING
    """What such a store was told last."""

    def close(self) -> None:
        self.open = self.idle = False
        self.waiting_since = None


class Streams:
    """The cursors of all stores."""

    def __init__(self, stores: Iterable[str]) -> None:
        self.cursors = {store: Cursor() for store in stores}
        self.takers = tuple(self.cursors)
        """Stores that need what the stream has, as far as is known."""

    def add(self, store: str) -> None:
        """There is this store, too."""
        self.cursors.setdefault(store, Cursor())
        self._renew_takers()

    def remove(self, store: str) -> None:
        """This store is dealt with no more."""
        del self.cursors[store]
        self._renew_takers()

    def _renew_takers(self) -> None:
        self.takers = tuple(store for store, each in self.cursors.items() if each.takes_data)

    def open_stores(self) -> set[str]:
        """Stores that take the stream."""
        return {
            store for store, cursor in self.cursors.items() if cursor.open and cursor.takes_data
        }

    def connected(self) -> set[str]:
        """Stores with an open stream, also those that take no messages from it."""
        return {store for store, cursor in self.cursors.items() if cursor.open}

    def state_only(self) -> list[str]:
        """Stores of which is known that they keep no messages."""
        return [store for store, cursor in self.cursors.items() if not cursor.takes_data]

    def idle_stores(self) -> set[str]:
        """Stores that were written, and have acknowledged, everything there was.

        Written would not do: gRPC takes small frames faster than stores can sync them, so that
        frames would stay small and pile up, each at its full price.
        """
        return {
            store
            for store, cursor in self.cursors.items()
            if cursor.idle and cursor.waiting_since is None
        }

    def close_all(self) -> None:
        for cursor in self.cursors.values():
            cursor.close()

    def busy(self) -> None:
        """There is something new for every store."""
        for cursor in self.cursors.values():
            cursor.idle = False

    def keepalives_due(self) -> None:
        """Every stream that is quiet is to say that the source lives."""
        for cursor in self.cursors.values():
            cursor.keepalive_due = True

    def opened(self, store: str, next_sequence: int, durability: int, retention: Retention) -> bool:
        """The stream goes on from next_sequence; returns whether the store takes messages."""
        takes_data = durability != DURABILITY_STATE_ONLY
        self.cursors[store] = Cursor(
            ordinal=retention.ordinal_of(next_sequence),
            next_sequence=next_sequence,
            open=True,
            durability=durability,
            catching_up=takes_data and next_sequence < retention.next_sequence,
            # Of the opening: what has changed since is still to be said.
            information_version=self.cursors[store].information_version,
            takes_data=takes_data,
        )
        self._renew_takers()
        return takes_data

    def next_frame(
        self, store: str, retention: Retention, stable_upto: int, now: float
    ) -> bytes | None:
        """The next frame of messages, skip or keepalive; None makes the stream idle."""
        cursor = self.cursors[store]
        if not cursor.takes_data:
            return self._state_frame(cursor, stable_upto)
        if cursor.next_sequence < retention.first:
            # What it lacks has gone meanwhile, which is so only if it is stable.
            first, last = cursor.next_sequence, retention.first - 1
            cursor.ordinal = retention.base
            cursor.next_sequence = last + 1
            return skip_frame(first, last, stable_upto)
        item = retention.at(cursor.ordinal)
        goes_on_at = item.first if item is not None else retention.next_sequence
        if goes_on_at > cursor.next_sequence:
            # Nobody has what is between: an operator has accepted that it is lost.
            first, cursor.next_sequence = cursor.next_sequence, goes_on_at
            return skip_frame(first, goes_on_at - 1, stable_upto)
        if item is not None:
            cursor.ordinal += 1
            cursor.next_sequence = item.last + 1
            cursor.keepalive_due = False
            if cursor.waiting_since is None:
                cursor.waiting_since = now
            return item.frame
        if cursor.keepalive_due:
            cursor.keepalive_due = False
            return keepalive_frame(stable_upto)
        cursor.idle = True
        return None

    @staticmethod
    def _state_frame(cursor: Cursor, stable_upto: int) -> bytes | None:
        """What a store is told that takes no messages: how far they are stable, so that receivers
        can acknowledge them there. Never idle: it is no measure of how fast stores are."""
        if not cursor.keepalive_due:
            return None
        cursor.keepalive_due, cursor.told_stable_upto = False, stable_upto
        return keepalive_frame(stable_upto)

    def stable_news(self, stable_upto: int) -> bool:
        """Have stores that are sent no messages told what is stable, which those tell the others.

        To be called now and then. Returns whether there is anything to tell.
        """
        behind = [
            cursor
            for cursor in self.cursors.values()
            if cursor.open and not cursor.takes_data and cursor.told_stable_upto < stable_upto
        ]
        for cursor in behind:
            cursor.keepalive_due = True
        return bool(behind)

    def acknowledged(self, store: str, upto: int, packed_upto: int, now: float) -> bool:
        """The store holds everything up to here. Returns whether it has just caught up."""
        cursor = self.cursors[store]
        cursor.waiting_since = None if upto + 1 >= cursor.next_sequence else now
        if cursor.catching_up and upto >= packed_upto:
            cursor.catching_up = False
            return True
        return False

    def silent(self, now: float, silence_max: float) -> list[str]:
        """Stores that were sent something and have acknowledged nothing for so long."""
        return [
            store
            for store, cursor in self.cursors.items()
            if cursor.open
            and cursor.waiting_since is not None
            and now - cursor.waiting_since > silence_max
        ]
