"""State-only stores: they keep registrations and positions, but no messages (protocol.md 3.4).

A state-only store promises, begins, vouches and keeps positions like any other store. It takes and
acknowledges no message, so that no source counts it as a holder. Messages from before it was
configured so stay, and are served. Pure functions.
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
    """Return the sequence number that a stream expects next; NOTHING for a state-only store.

    No batch begins with NOTHING, so the hot path of a batch needs no further question.
    """
    return next_sequence if state.takes_data else NOTHING


def check_takes_data(store: str, state: SourceState) -> None:
    """Raise InvalidArgument if this store takes no messages of the source."""
    if not state.takes_data:
        raise InvalidArgument(
            "append",
            f"store {store} keeps no messages of topic {state.name.topic} (durability = "
            "state-only), as it said when the stream was opened",
        )


def answered_upto(state: SourceState) -> int:
    """Return the number up to which a fetch may report messages as absent.

    A store that takes messages may still receive numbers above the held ones, so it reports none of
    those. A state-only store will never receive them.
    """
    return NOTHING if state.takes_data else SEQUENCE_MAX


def absence(state: SourceState) -> str:
    """Return the reason why a message is not here, as text for people."""
    return "lacks it" if state.takes_data else "keeps no messages of this topic"


def not_kept_elsewhere(
    lacking: RangeSet, policies: Iterable[Policy], holders: Mapping[str, RangeSet]
) -> RangeSet:
    """Return the lacking numbers that would not be stable without this store.

    A store that lost its disk counts as a holder, as it may have taken messages before. Those
    messages must be safe without it before it vouches that it has none.

    holders: the ranges of the stores that vouch, by the names that the policies use.
    """
    policies = tuple(policies)
    needed = RangeSet()
    for wanted in lacking:
        # The set of holders changes only at the ends of ranges.
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
    """Return the holes to fill. A state-only store fills only holes that it cannot read."""
    return holes if state.takes_data else holes.both(state.held.ranges)


def wanted_range(state: SourceState, first: int, last: int) -> Range | None:
    """Return the range to take from an archive; None for an empty range, or if state-only."""
    return Range(first, last) if first <= last and state.takes_data else None
