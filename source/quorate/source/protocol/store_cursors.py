"""The cursors of the streams to the stores: how far each has come, and its next frame.

Pure. Each stream has its own place in the retention, so that a slow store holds up no other.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.fragments import LargeBatch
from quorate.protocol.limits import (
    FRAGMENT_BYTES,
    FRAGMENTS_AHEAD,
    MESSAGE_BYTES_USUAL,
    NOTHING,
)
from quorate.source.protocol.frames import (
    fragment_frame,
    keepalive_frame,
    skip_frame,
)
from quorate.source.protocol.outgoing import Limit
from quorate.source.protocol.retention import Retention
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY


@dataclass(slots=True)
class StoreCursor:
    """The place of one store's stream."""

    ordinal: int = 0
    next_sequence: int = 0
    open: bool = False
    idle: bool = False
    """Whether every frame there was has been written."""
    durability: int = 0
    waiting_since: float | None = None
    """The time since which the store has acknowledged no write; None: no write waits for it."""
    catching_up: bool = False
    keepalive_due: bool = False
    information_version: int = 0
    """The version of the registration information that was sent last."""
    takes_data: bool = True
    """Whether the store keeps messages of the topic. If not, it is sent none."""
    told_stable_upto: int = NOTHING
    """The stable number of the last keepalive."""
    stable_awaited: bool = False
    """Whether somebody at the store waits for what becomes stable."""
    message_bytes_max: int = MESSAGE_BYTES_USUAL
    """The bytes of the largest message that the store takes."""
    fragment_at: int = 0
    """The offset of the next fragment of the large batch that is being sent."""
    taken_upto: int = 0
    """The bytes of that batch that the store said it has written."""

    @property
    def waits_for_store(self) -> bool:
        """Whether the store must write fragments before it is sent more."""
        return self.fragment_at - self.taken_upto >= FRAGMENTS_AHEAD * FRAGMENT_BYTES

    def go_on_at(self, sequence: int) -> None:
        """Leave the large batch that was being sent, if one was, and go on at this number."""
        self.next_sequence = sequence
        self.fragment_at = self.taken_upto = 0

    def close(self) -> None:
        self.open = self.idle = False
        self.waiting_since = None

    def rests(self, stable_upto: int) -> bool:
        """Return whether the store has acknowledged everything, and knows how far it is stable."""
        return (
            self.open
            and not self.catching_up
            and self.waiting_since is None
            and self.told_stable_upto >= stable_upto
        )


class Streams:
    """The cursors of all stores."""

    def __init__(self) -> None:
        self.cursors: dict[str, StoreCursor] = {}
        self.takers: tuple[str, ...] = ()
        """The stores that need the stream's messages, as far as is known."""
        self._released_stable_upto = NOTHING
        """The stable number that the newest batch tells."""

    def add(self, store: str) -> None:
        """Add a store."""
        self.cursors.setdefault(store, StoreCursor())
        self._renew_takers()

    def remove(self, store: str) -> None:
        """Remove a store that the source no longer deals with."""
        del self.cursors[store]
        self._renew_takers()

    def _renew_takers(self) -> None:
        self.takers = tuple(store for store, each in self.cursors.items() if each.takes_data)

    def open_stores(self) -> set[str]:
        """Return the stores that take the stream."""
        return {
            store for store, cursor in self.cursors.items() if cursor.open and cursor.takes_data
        }

    def connected(self) -> set[str]:
        """Return the stores with an open stream, also those that take no messages from it."""
        return {store for store, cursor in self.cursors.items() if cursor.open}

    def state_only(self) -> list[str]:
        """Return the stores that are known to keep no messages."""
        return [store for store, cursor in self.cursors.items() if not cursor.takes_data]

    def idle_stores(self) -> set[str]:
        """Return the stores that have acknowledged every frame there was.

        Having written all frames is not enough: gRPC takes small frames faster than stores can sync
        them. Small frames would pile up, each at its full price.
        """
        return {
            store
            for store, cursor in self.cursors.items()
            if cursor.idle and cursor.waiting_since is None
        }

    def rest(self, stable_upto: int) -> bool:
        """Return whether no store's stream is closed, or has anything under way."""
        return all(cursor.rests(stable_upto) for cursor in self.cursors.values())

    def close_all(self) -> None:
        for cursor in self.cursors.values():
            cursor.close()

    def released(self, stable_upto: int) -> None:
        """Note that every store is to be sent a new batch, which tells this stable number."""
        self._released_stable_upto = stable_upto
        for cursor in self.cursors.values():
            cursor.idle = False

    def keepalives_due(self, stable_upto: int) -> None:
        """Let every quiet stream say how far the source's stream is stable, if that is news."""
        for cursor in self.cursors.values():
            if cursor.told_stable_upto < stable_upto:
                cursor.keepalive_due = True

    def stable_awaited(self, store: str, awaited: bool) -> bool:
        """Note whether somebody at a store waits for what becomes stable. Return whether that is
        news to act on."""
        cursor = self.cursors[store]
        before, cursor.stable_awaited = cursor.stable_awaited, awaited
        return awaited and not before

    def awaiting(self, stable_upto: int) -> dict[str, StoreCursor]:
        """Return the streams to stores where somebody waits to hear how far the source's stream is
        stable, and that no frame tells."""
        if self._released_stable_upto >= stable_upto:
            return {}
        return {
            store: cursor
            for store, cursor in self.cursors.items()
            if cursor.stable_awaited and cursor.open and cursor.told_stable_upto < stable_upto
        }

    def opened(self, store: str, next_sequence: int, durability: int, retention: Retention) -> bool:
        """Open a store's stream at next_sequence. Return whether the store takes messages."""
        takes_data = durability != DURABILITY_STATE_ONLY
        self.cursors[store] = StoreCursor(
            ordinal=retention.ordinal_of(next_sequence),
            next_sequence=next_sequence,
            open=True,
            durability=durability,
            catching_up=takes_data and next_sequence < retention.next_sequence,
            # The opening had this version; a later one is still to be sent.
            information_version=self.cursors[store].information_version,
            takes_data=takes_data,
        )
        self._renew_takers()
        return takes_data

    def limit(self, store: str, message_bytes_max: int, own: Limit) -> Limit:
        """Return the limit of the source, or that of a store which takes less.

        message_bytes_max: that of the store whose stream was opened; 0: it takes those of the usual
        size. own: the limit of the source's options.
        """
        self.cursors[store].message_bytes_max = message_bytes_max or MESSAGE_BYTES_USUAL
        for name, cursor in self.cursors.items():
            if cursor.open and cursor.takes_data and cursor.message_bytes_max < own.size:
                own = Limit(cursor.message_bytes_max, f"message_bytes_max of store {name}")
        return own

    def next_frame(
        self, store: str, retention: Retention, stable_upto: int, now: float
    ) -> bytes | None:
        """Return the next frame: messages, skip or keepalive. None: there is none for now.

        The stream is idle then, unless the store must first write fragments.
        """
        cursor = self.cursors[store]
        if not cursor.takes_data:
            return self._keepalive(cursor, stable_upto)
        if cursor.next_sequence < retention.first:
            # The store lacks messages that have left the retention; only stable messages leave it.
            first, last = cursor.next_sequence, retention.first - 1
            cursor.ordinal = retention.base
            cursor.go_on_at(last + 1)
            return skip_frame(first, last, stable_upto)
        item = retention.at(cursor.ordinal)
        goes_on_at = item.first if item is not None else retention.next_sequence
        if goes_on_at > cursor.next_sequence:
            # No store has what is between: an operator has accepted that it is lost.
            first, cursor.next_sequence = cursor.next_sequence, goes_on_at
            return skip_frame(first, goes_on_at - 1, stable_upto)
        if item is not None and not cursor.waits_for_store:
            if self._released_stable_upto >= stable_upto:
                cursor.keepalive_due = False
            if cursor.waiting_since is None:
                cursor.waiting_since = now
            if isinstance(item.frame, LargeBatch):
                return self._next_fragment(cursor, item.frame, stable_upto)
            cursor.ordinal += 1
            cursor.next_sequence = item.last + 1
            return item.frame
        keepalive = self._keepalive(cursor, stable_upto)
        cursor.idle = keepalive is None and item is None
        return keepalive

    @staticmethod
    def _next_fragment(cursor: StoreCursor, batch: LargeBatch, stable_upto: int) -> bytes:
        frame = fragment_frame(batch, cursor.fragment_at, stable_upto)
        cursor.fragment_at += FRAGMENT_BYTES
        if cursor.fragment_at >= batch.size:
            cursor.ordinal += 1
            cursor.go_on_at(batch.header.last + 1)
        return frame

    def holds_back(self, store: str) -> bool:
        """Return whether the store is sent nothing although there is more: it writes fragments."""
        return self.cursors[store].waits_for_store

    def fragment_taken(self, store: str, sequence: int, upto: int, now: float) -> None:
        """Note that the store has written so many bytes of the large batch of this number."""
        cursor = self.cursors[store]
        if cursor.waiting_since is not None:
            cursor.waiting_since = now
        if sequence == cursor.next_sequence:
            cursor.taken_upto = min(upto, cursor.fragment_at)

    @staticmethod
    def _keepalive(cursor: StoreCursor, stable_upto: int) -> bytes | None:
        """Return the keepalive that is due, with the stable number; None: none is.

        It is the only frame for a store without messages. Receivers can acknowledge at that store
        up to the stable number. Such a store is never idle, because it does not show how fast
        stores are.
        """
        if not cursor.keepalive_due:
            return None
        cursor.keepalive_due, cursor.told_stable_upto = False, stable_upto
        return keepalive_frame(stable_upto)

    def stable_news(self, stable_upto: int) -> bool:
        """Let stores without messages learn what is stable. Return whether there is news for them.

        They report it to the others. Call this now and then.
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
        """Note an acknowledgement of all up to here. Return whether the store has just caught
        up."""
        cursor = self.cursors[store]
        cursor.waiting_since = None if upto + 1 >= cursor.next_sequence else now
        if cursor.catching_up and upto >= packed_upto:
            cursor.catching_up = False
            return True
        return False

    def silent(self, now: float, silence_max: float) -> list[str]:
        """Return the stores that have been sent frames and acknowledged none for silence_max
        seconds."""
        return [
            store
            for store, cursor in self.cursors.items()
            if cursor.open
            and cursor.waiting_since is not None
            and now - cursor.waiting_since > silence_max
        ]
