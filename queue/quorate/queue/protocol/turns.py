"""The turns of the stores to dispatch a queue that nobody dispatches.

Each queue has an order of the stores, so that several queues are spread over them. The first one
that is there tries at once, and each later one if those before it have not begun by then. That only
keeps the stores from trying together: the registration decides which of them dispatches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

_EACH_SECONDS = 3.0
"""Seconds for which a store lets each one before it begin."""


def order_of(queue: str, stores: Iterable[str]) -> list[str]:
    """Return the stores in the order in which they take their turn."""
    return sorted(stores, key=lambda store: hashlib.sha256(f"{queue} {store}".encode()).digest())


class Turns:
    """One store's turns to dispatch one queue."""

    def __init__(self, queue: str, store: str, stores: Iterable[str]) -> None:
        """Begin. store: the one whose turns they are."""
        self._stores = len({*stores, store})
        self._before = order_of(queue, {*stores, store})
        del self._before[self._before.index(store) :]
        self._free_since: float | None = None

    def is_due(self, present: Collection[str], is_dispatched: bool, now: float) -> bool:
        """Return whether the store is to try now.

        - present: the stores that answer.
        - is_dispatched: whether one of them dispatches the queue.
        """
        if is_dispatched:
            self._free_since = None
            return False
        if self._free_since is None:
            self._free_since = now
        place = sum(store in present for store in self._before)
        if 2 * (len(present) + 1) <= self._stores:
            # Few groups make anything stable then, and the others may be starting just now.
            place = self._stores
        return now >= self._free_since + place * _EACH_SECONDS
