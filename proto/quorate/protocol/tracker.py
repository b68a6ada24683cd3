"""How far a stream is stable, from the acknowledgements of each store.

Acknowledgements are cumulative from a common start, so one number a store is enough.
Only stores that have begun the current epoch may be entered here (protocol.md 3.3).
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Policy


class StabilityTracker:
    """The acknowledgements of each store, and stable_upto, which never moves back."""

    def __init__(self, policies: Iterable[Policy], stable_upto: int) -> None:
        """policies: a number must be stable under all. stable_upto: the last stable number."""
        self._policies = tuple(policies)
        self._named = frozenset(store for policy in self._policies for store in policy.stores)
        self._upto: dict[str, int] = {}
        self._active: set[str] = set()
        self.stable_upto = stable_upto
        """The highest sequence number that is stable with all before it."""

    def join(self, store: str) -> None:
        """Note that the store is active: it has begun the epoch and takes the stream."""
        self._active.add(store)
        self._upto.setdefault(store, self.stable_upto)

    def rejoin(self, store: str, upto: int) -> bool:
        """Note that the store is active and holds everything up to `upto`, by its own word.

        That may be less than it acknowledged before: a store that came back without its disk no
        longer counts for its earlier acknowledgements. Return whether stable_upto moved.
        """
        self._active.add(store)
        self._upto[store] = upto
        return self._advance()

    def leave(self, store: str) -> bool:
        """Note that the store is no longer active. Its acknowledgements still count.

        Return whether stable_upto moved: the all-active rules need one store less now.
        """
        self._active.discard(store)
        return self._advance()

    def void(self, store: str) -> bool:
        """Drop the acknowledgements of a store that came back without its data.

        Stable messages stay stable. Return whether stable_upto moved: the all-active rules need one
        store less now.
        """
        self._active.discard(store)
        self._upto.pop(store, None)
        return self._advance()

    def acknowledge(self, store: str, upto: int) -> bool:
        """Note that the store holds everything up to `upto`. Return whether stable_upto moved."""
        before = self._upto[store]
        if upto <= before:
            return False
        self._upto[store] = upto
        return upto > self.stable_upto and self._advance()

    def acknowledged_upto(self, store: str) -> int | None:
        """Return the store's last acknowledged number; None if it never joined."""
        return self._upto.get(store)

    def slowest_upto(self, stores: Iterable[str]) -> int:
        """Return the lowest number that one of these stores acknowledged last.

        A store that never joined counts with NOTHING.
        """
        return min((self._upto.get(store, NOTHING) for store in stores), default=NOTHING)

    @property
    def active(self) -> frozenset[str]:
        """The names of the stores that take the stream now."""
        return frozenset(self._active)

    def registered(self) -> bool:
        """Return whether the active stores could make a message stable."""
        return all(policy.stable(self._active, self._active) for policy in self._policies)

    def holders(self, sequence: int) -> tuple[str, ...]:
        """Return the stores of the policies that acknowledged this number.

        A store beside the policies proves nothing.
        """
        return tuple(
            store for store, upto in self._upto.items() if upto >= sequence and store in self._named
        )

    def _advance(self) -> bool:
        for candidate in sorted(set(self._upto.values()), reverse=True):
            if candidate <= self.stable_upto:
                return False
            holders = {store for store, upto in self._upto.items() if upto >= candidate}
            if all(policy.stable(holders, self._active) for policy in self._policies):
                self.stable_upto = candidate
                return True
        return False
