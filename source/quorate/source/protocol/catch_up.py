"""While a stream moves to other stores: whether the new policy has what the old ones made stable.

Pure. Only then may a begin record name the new policy alone: until then what was stable before is
safe under the old policies only. Acknowledgements do not tell, because they say nothing of what the
source no longer has; so the stores are asked again and again what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from quorate.protocol.policy import Policy
from quorate.protocol.ranges import Range, RangeSet

LOOK_SECONDS = 0.5
"""A store is asked so often what it holds."""


@dataclass(slots=True)
class _Look:
    due_at: float
    under_way: bool = False
    held: RangeSet | None = None
    retained_from: int = 0
    takes_data: bool = True
    vouches: bool = False
    """What it did not name it lacks; else what it lacks says nothing."""

    def known(self, held: RangeSet) -> RangeSet:
        """What the store holds, and what it knows was let go."""
        below = self.retained_from
        return held.union((Range(0, below - 1),)) if below else held


class BringingUp:
    """What the stores of all policies hold, and what the new one lacks."""

    def __init__(self, policies: Sequence[Policy], new: Policy) -> None:
        """policies: all that make the stream stable meanwhile, the new one among them."""
        self._policies = tuple(policies)
        self._new = new
        self._looks: dict[str, _Look] = {}

    def joined(self, store: str, now: float, takes_data: bool = True) -> None:
        """The store takes the stream, or, if it is state-only, what there is to know of it."""
        self._looks[store] = _Look(now, takes_data=takes_data)

    def left(self, store: str) -> None:
        """The store does not take the stream any more: what it said counts no longer."""
        self._looks.pop(store, None)

    def due(self, now: float) -> list[str]:
        """Stores to be asked now what they hold; each counts as asked from here."""
        stores = [s for s, look in self._looks.items() if not look.under_way and look.due_at <= now]
        for store in stores:
            self._looks[store].under_way = True
        return stores

    def answered(
        self,
        store: str,
        held: Iterable[Range] | None,
        now: float,
        retained_from: int = 0,
        *,
        vouches: bool = True,
    ) -> None:
        """What the store holds of the stream; None if it did not say.

        retained_from: what is below was stable and was let go, as this store knows. vouches: see
        _Look; not of a store that can not read what it had.
        """
        look = self._looks.get(store)
        if look is None:
            return
        look.under_way = False
        look.due_at = now + LOOK_SECONDS
        if held is not None:
            look.held = RangeSet(held)
            look.retained_from = retained_from
            look.vouches = vouches

    def ready(self, stable_upto: int) -> bool:
        """Whether the new policy holds everything up to there, or knows that it was let go.

        What the old stores alone know of that would be missed when they are switched off.
        """
        held = {store: look.held for store, look in self._looks.items() if look.held is not None}
        vouching = {store for store in held if self._looks[store].vouches}
        if not all(policy.blocks(vouching & policy.stores) for policy in self._policies):
            return False
        active = {store for store in held if self._looks[store].takes_data}
        known = {store: self._looks[store].known(ranges) for store, ranges in held.items()}
        return not lacking(self._new, known, stable_upto, active)


def lacking(
    policy: Policy,
    held: Mapping[str, RangeSet],
    upto: int,
    active: Set[str] | None = None,
) -> list[Range]:
    """What some store holds of the numbers up to there, and no stable set of the policy does.

    active: the stores that are to hold it, for rules that ask; None: all of them.
    """
    # Who holds a number changes only at the ends of ranges.
    edges = {0, upto + 1}
    for ranges in held.values():
        for item in ranges:
            edges |= {min(item.first, upto + 1), min(item.last, upto) + 1}
    found: list[Range] = []
    ordered = sorted(edge for edge in edges if edge <= upto + 1)
    for first, after in pairwise(ordered):
        holders = {store for store, ranges in held.items() if first in ranges}
        if holders and not policy.stable(holders, held.keys() if active is None else active):
            found.append(Range(first, after - 1))
    return found
