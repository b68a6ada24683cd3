"""The choice of the store that gives a subscription next. Pure: no store is called here.

An application may give a chooser of its own. How long to wait before the next store is no matter of
this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.identity import StoreAddress


@dataclass(frozen=True, slots=True)
class Tried:
    """A store that the subscription left, and why."""

    store: StoreAddress
    reason: QuorateError


class StoreChooser(Protocol):
    """A function that chooses the store that gives a subscription next.

    It is called when a subscription begins, and each time that it leaves a store. It must return
    one of the stores at once. `in_order` is an example.
    """

    def __call__(self, stores: Sequence[StoreAddress], tried: Sequence[Tried], /) -> StoreAddress:
        """Return the store to ask next.

        - stores: those of the client, in its order.
        - tried: those that the subscription left since a store gave it anything, the last one last.
          Each is there once, with its last reason. Empty: the subscription begins.
        """


def in_order(stores: Sequence[StoreAddress], tried: Sequence[Tried], /) -> StoreAddress:
    """Choose the first store, and after each one that was left the next in the list."""
    return _behind(stores, tried[-1].store) if tried else stores[0]


class Spread:
    """Choose the next store for each new subscription, so that many spread over all stores."""

    def __init__(self, first: int) -> None:
        """first: the place in the list of the store that the first subscription begins at."""
        self._next = first

    def __call__(self, stores: Sequence[StoreAddress], tried: Sequence[Tried], /) -> StoreAddress:
        if tried:
            return in_order(stores, tried)
        self._next += 1
        return stores[(self._next - 1) % len(stores)]


class Turns:
    """The turns of the stores of one subscription."""

    def __init__(self, stores: Sequence[StoreAddress], choose: StoreChooser) -> None:
        """Begin before the first turn. stores: at least one."""
        self.stores = tuple(stores)
        self._choose = choose
        self._store: StoreAddress | None = None
        self._tried: dict[str, Tried] = {}
        self.failures = 0
        """How often in a row a store was left that gave nothing."""

    @property
    def store(self) -> StoreAddress:
        """The store whose turn it is. Raises InvalidArgument if the chooser names none."""
        if self._store is None:
            chosen = self._choose(self.stores, tuple(self._tried.values()))
            if chosen not in self.stores:
                raise InvalidArgument("chooser", f"it returned {chosen!r}, not one of the stores")
            self._store = chosen
        return self._store

    @property
    def is_last(self) -> bool:
        """Whether as many turns as there are stores gave nothing, counting the current one."""
        return self.failures + 1 >= len(self.stores)

    @property
    def rounds(self) -> int | None:
        """How many rounds of turns gave nothing, if one has just ended; None: it goes on."""
        rounds, rest = divmod(self.failures, len(self.stores))
        return None if rest else rounds

    def left(self, reason: QuorateError) -> None:
        """End the turn of a store: it gave nothing more, and another is chosen."""
        store = self.store
        self._tried.pop(store.name, None)
        self._tried[store.name] = Tried(store, reason)
        self._store = None
        self.failures += 1

    def gave(self) -> None:
        """Note that the store gave something."""
        self._tried.clear()
        self.failures = 0


def _behind(stores: Sequence[StoreAddress], store: StoreAddress) -> StoreAddress:
    return stores[(stores.index(store) + 1) % len(stores)]
