"""Catch-up during a change of the stores: what the old ones made stable and the new ones lack.

Pure. A begin record may name the new policy alone once nothing is lacking. Before, messages that
were stable are safe under the old policies only. Acknowledgements do not prove it, because they say
nothing of messages that the source no longer has. So the source asks the stores repeatedly what
they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from quorate.protocol.policy import Policy
from quorate.protocol.ranges import Range, RangeSet

LOOK_SECONDS = 0.5
"""The interval, in seconds, at which a store is asked what it holds."""


@dataclass(slots=True)
class _Look:
    due_at: float
    under_way: bool = False
    held: RangeSet | None = None
    retained_from: int = 0
    takes_data: bool = True
    vouches: bool = False
    """Whether the store lacks what it did not name. If not, its answer proves nothing of the
    rest."""

    def known(self, held: RangeSet) -> RangeSet:
        """Return what the store holds, together with what it knows was released."""
        below = self.retained_from
        return held.union((Range(0, below - 1),)) if below else held


class BringingUp:
    """The ranges that the stores of all policies hold, and what the new policy still lacks."""

    def __init__(self, policies: Sequence[Policy], new: Policy) -> None:
        """Begin with no answers. policies: all that make the stream stable meanwhile, also the new
        one."""
        self._policies = tuple(policies)
        self._new = new
        self._looks: dict[str, _Look] = {}

    def joined(self, store: str, now: float, takes_data: bool = True) -> None:
        """Add a store that takes the stream. A state-only store takes no messages of it."""
        self._looks[store] = _Look(now, takes_data=takes_data)

    def left(self, store: str) -> None:
        """Drop a store that no longer takes the stream, with its answers."""
        self._looks.pop(store, None)

    def due(self, now: float) -> list[str]:
        """Return the stores to ask now what they hold. Each counts as asked from here on."""
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
        """Note what the store holds of the stream; None: it did not answer.

        - retained_from: the store knows that everything below was stable and was released.
        - vouches: whether the store lacks what it did not name. A store that cannot read its data
          does not know.
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
        """Return whether the new policy holds all up to stable_upto, or knows it was released.

        A message that only old stores know of would be lost when they are switched off.
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
    """Return the ranges up to `upto` that some store holds and no stable set of the policy does.

    active: the stores that the rules count as active; None: all of them.
    """
    # The set of holders of a number changes only at the ends of ranges.
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
