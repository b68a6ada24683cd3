"""What a store does that keeps registrations and positions, and no messages (DESIGN 4.5).

It promises, begins, vouches and keeps positions like any other, and says truthfully what it holds:
nothing, or what it took before it was configured so, which it goes on to keep and serve. It takes
no message and acknowledges none, so that nobody counts it as a holder. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules.source_state import SourceState


def expected_of(state: SourceState, next_sequence: int) -> int:
    """What a source's stream expects next; NOTHING, which no batch begins with, if it takes none.

    So that the hot path needs no question of its own.
    """
    return next_sequence if state.takes_data else NOTHING


def check_takes_data(store: str, state: SourceState) -> None:
    """Raises InvalidArgument if this store takes no messages of the source."""
    if not state.takes_data:
        raise InvalidArgument(
            "append",
            f"store {store} keeps no messages of topic {state.name.topic} (durability = "
            "state-only), as it said when the stream was opened",
        )


def answered_upto(state: SourceState) -> int:
    """How far a fetch is answered, behind what is held.

    What is not there yet may be so in a moment, and is not said to be absent; here it will not be.
    """
    return NOTHING if state.takes_data else SEQUENCE_MAX


def absence(state: SourceState) -> str:
    """Why a message is not here; for people."""
    return "lacks it" if state.takes_data else "keeps no messages of this topic"


def not_kept_elsewhere(
    lacking: RangeSet, policies: Iterable[Policy], holders: Mapping[str, RangeSet]
) -> RangeSet:
    """What of it other stores do not hold so that it would be stable without this one.

    A store that lost its disk counts as a holder of what may be stable: it may have been a store
    that takes messages. Before it vouches that it has none, they have to be safe without it.
    holders: what stores hold that vouch, by the names that the policies use.
    """
    policies = tuple(policies)
    needed = RangeSet()
    for wanted in lacking:
        # Who holds a number changes only at the ends of ranges.
        edges = {wanted.first, wanted.last + 1}
        for held in holders.values():
            for item in held.both(RangeSet([wanted])):
                edges |= {item.first, item.last + 1}
        for first, after in pairwise(sorted(edges)):
            having = {store for store, held in holders.items() if first in held}
            if not all(policy.stable(having & policy.stores) for policy in policies):
                needed.add(first, after - 1)
    return needed


def kept_here(state: SourceState, holes: RangeSet) -> RangeSet:
    """What of these holes is to be filled: all, or what was here and can not be read any more."""
    return holes if state.takes_data else holes.both(state.held.ranges)


def wanted_range(state: SourceState, first: int, last: int) -> Range | None:
    """What of a history is taken from an archive; None: nothing."""
    return Range(first, last) if first <= last and state.takes_data else None
