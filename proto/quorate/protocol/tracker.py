"""How far a stream is stable, from what each store has acknowledged.

Acknowledgements are cumulative from a common start, so one number a store is all there is to keep.
Only stores that have begun the current epoch may be entered here (DESIGN 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Policy


class StabilityTracker:
    """Turns per-store acknowledgements into stable_upto, which never moves back."""

    def __init__(self, policies: Iterable[Policy], stable_upto: int) -> None:
        """Everything up to stable_upto is stable already; all policies must agree on the rest."""
        self._policies = tuple(policies)
        self._upto: dict[str, int] = {}
        self._active: set[str] = set()
        self.stable_upto = stable_upto
        """The highest sequence number with all before it stable."""

    def join(self, store: str) -> None:
        """The store is active: it has begun the epoch and takes the stream."""
        self._active.add(store)
        self._upto.setdefault(store, self.stable_upto)

    def rejoin(self, store: str, upto: int) -> bool:
        """The store is active and says itself what it holds, which may be less than before.

        A store that came back without its disk must not count for what it acknowledged once.
        Returns whether stable_upto moved.
        """
        self._active.add(store)
        self._upto[store] = upto
        return self._advance()

    def leave(self, store: str) -> bool:
        """The store is no longer active; what it acknowledged still counts.

        Returns whether stable_upto moved (all-active rules need one store less now).
        """
        self._active.discard(store)
        return self._advance()

    def void(self, store: str) -> bool:
        """What the store acknowledged counts no more: it came back without its data.

        What was stable stays stable. Returns whether stable_upto moved.
        """
        self._active.discard(store)
        self._upto.pop(store, None)
        return self._advance()

    def acknowledge(self, store: str, upto: int) -> bool:
        """The store holds everything up to here. Returns whether stable_upto moved."""
        before = self._upto[store]
        if upto <= before:
            return False
        self._upto[store] = upto
        return upto > self.stable_upto and self._advance()

    def acknowledged_upto(self, store: str) -> int | None:
        """What the store acknowledged last; None if it never joined."""
        return self._upto.get(store)

    def slowest_upto(self, stores: Iterable[str]) -> int:
        """What all of these have acknowledged; of one that never joined that is nothing."""
        return min((self._upto.get(store, NOTHING) for store in stores), default=NOTHING)

    @property
    def active(self) -> frozenset[str]:
        """The stores that take the stream now."""
        return frozenset(self._active)

    def registered(self) -> bool:
        """Whether the active stores could make a message stable."""
        return all(policy.stable(self._active, self._active) for policy in self._policies)

    def holders(self, sequence: int) -> tuple[str, ...]:
        """The stores that acknowledged this number."""
        return tuple(store for store, upto in self._upto.items() if upto >= sequence)

    def _advance(self) -> bool:
        for candidate in sorted(set(self._upto.values()), reverse=True):
            if candidate <= self.stable_upto:
                return False
            holders = {store for store, upto in self._upto.items() if upto >= candidate}
            if all(policy.stable(holders, self._active) for policy in self._policies):
                self.stable_upto = candidate
                return True
        return False
