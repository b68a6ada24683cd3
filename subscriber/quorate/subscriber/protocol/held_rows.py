"""The keys whose rows an application was given, and so may leave. Pure.

A store says of each key that changes whether it has a row that passes. Only this side knows whether
the application had one before, whichever store it came from, and when it expires.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from quorate.protocol.bookmarks import Bookmark
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.keying import KeyValue

ROWS_MAX = 1_000_000
"""The most rows that one watch holds."""

RowKey = bytes | tuple[KeyValue, ...]
"""The key of a row: that of the message, or the values of the fields that make the key."""


class _Held(NamedTuple):
    bookmark: Bookmark
    expires_ns: int | None


class HeldRows:
    """The rows that one application was given."""

    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        """Begin without rows. rows_max: the most that there may be."""
        self._held: dict[RowKey, _Held] = {}
        self._expiries: list[tuple[int, int, RowKey]] = []
        """The time at which rows expire, the number of the entry, and the key."""
        self._entries = 0
        self._unseen: set[RowKey] = set()
        """The rows that a store has not given again since all began anew."""
        self._rows_max = rows_max

    def __len__(self) -> int:
        return len(self._held)

    def begins(self, *, anew: bool) -> None:
        """Begin to take from a store. anew: all its rows come, not only those that have changed."""
        self._unseen = set(self._held) if anew else set()

    def is_new(self, key: RowKey, bookmark: Bookmark, expires_ns: int | None) -> bool:
        """Take a row, and return whether the application has another one, or none.

        Raises InvalidArgument if there are too many rows.
        """
        self._unseen.discard(key)
        held = self._held.get(key)
        if held is not None and held.bookmark == bookmark:
            return False
        if held is None and len(self._held) >= self._rows_max:
            raise InvalidArgument(
                "where", f"selects more than {self._rows_max:,} rows; narrow it to watch them"
            )
        self._held[key] = _Held(bookmark, expires_ns)
        if expires_ns is not None:
            self._entries += 1
            heapq.heappush(self._expiries, (expires_ns, self._entries, key))
        return True

    def leaves(self, key: RowKey) -> Bookmark | None:
        """Remove a row, and return its bookmark; None: the application has no row of the key."""
        self._unseen.discard(key)
        held = self._held.pop(key, None)
        return None if held is None else held.bookmark

    def completed(self) -> Iterator[tuple[RowKey, Bookmark]]:
        """Remove and yield the rows that a store no longer has, now that it gave all."""
        unseen, self._unseen = self._unseen, set()
        for key in unseen:
            if (bookmark := self.leaves(key)) is not None:
                yield key, bookmark

    def expired(self, now_ns: int) -> Iterator[tuple[RowKey, Bookmark]]:
        """Remove and yield the rows that have expired."""
        while self._expiries and self._expiries[0][0] <= now_ns:
            expires_ns, _, key = heapq.heappop(self._expiries)
            held = self._held.get(key)
            if held is not None and held.expires_ns == expires_ns:
                self.leaves(key)
                yield key, held.bookmark

    def next_expiry(self) -> int | None:
        """Return the time at which a row may expire next; None: none does."""
        return self._expiries[0][0] if self._expiries else None
