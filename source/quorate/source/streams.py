"""How far the stream to each store has got, and what it says next.

Pure. Each stream has a place in the retention of its own, so that a slow one holds up no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quorate.source.frames import keepalive_frame, skip_frame
from quorate.source.retention import Retention


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
    reported: str = ""
    """The reason for which the application was told that the store is unresponsive."""

    def close(self) -> None:
        self.open = self.idle = False
        self.waiting_since = None


class Streams:
    """The cursors of all stores."""

    def __init__(self, stores: Iterable[str]) -> None:
        self.cursors = {store: Cursor() for store in stores}

    def add(self, store: str) -> None:
        """There is this store, too."""
        self.cursors.setdefault(store, Cursor())

    def remove(self, store: str) -> None:
        """This store is dealt with no more."""
        del self.cursors[store]

    def open_stores(self) -> set[str]:
        """Stores that take the stream."""
        return {store for store, cursor in self.cursors.items() if cursor.open}

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

    def opened(
        self, store: str, next_sequence: int, durability: int, version: int, retention: Retention
    ) -> None:
        """The stream goes on from next_sequence; the information of that version was said."""
        self.cursors[store] = Cursor(
            ordinal=retention.ordinal_of(next_sequence),
            next_sequence=next_sequence,
            open=True,
            durability=durability,
            catching_up=next_sequence < retention.next_sequence,
            information_version=version,
        )

    def next_frame(
        self, store: str, retention: Retention, stable_upto: int, now: float
    ) -> bytes | None:
        """The next frame of messages, skip or keepalive; None makes the stream idle."""
        cursor = self.cursors[store]
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
