"""Stretches of messages that the same stores hold, and whether these stores make them stable.

Nothing here asks a store.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from quorate.pipeline.audit.facts import SourceFacts
from quorate.pipeline.rules.planning import (
    SourceRange,
    plan,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import RangeSet


@dataclass(frozen=True, slots=True)
class Stretch:
    """The messages [first, last], all held by the same stores."""

    first: int
    last: int
    holders: frozenset[str]


def stretches(held: Mapping[str, RangeSet], first: int, last: int) -> list[Stretch]:
    """Split [first, last] into stretches, in ascending order and without a gap.

    A stretch that no store holds has no holders.
    """
    if first > last:
        return []
    changes: dict[int, list[tuple[str, bool]]] = {first: []}
    for store, ranges in held.items():
        for each in ranges:
            begin, end = max(each.first, first), min(each.last, last)
            if begin <= end:
                changes.setdefault(begin, []).append((store, True))
                changes.setdefault(end + 1, []).append((store, False))
    found: list[Stretch] = []
    holders: frozenset[str] = frozenset()
    places = sorted(place for place in changes if place <= last)
    for place, after in zip(places, [*places[1:], last + 1], strict=True):
        for store, begins in changes[place]:
            holders = holders | {store} if begins else holders - {store}
        if found and found[-1].holders == holders:
            found[-1] = Stretch(found[-1].first, after - 1, holders)
        else:
            found.append(Stretch(place, after - 1, holders))
    return found


class Kept(enum.Enum):
    """Whether the stores that have a message satisfy the policies."""

    STABLE = "yes"
    UNKNOWN = "not known"
    """They would, together with stores that could not be compared."""
    TOO_FEW = "no"


def kept(facts: SourceFacts, holders: Set[str], unsure: Set[str] = frozenset()) -> Kept:
    """Return whether a message that these stores have satisfies the policies.

    unsure: stores that may have it, besides those that could not be compared at all.
    """
    if _stable(facts, holders):
        return Kept.STABLE
    return Kept.UNKNOWN if _stable(facts, {*holders, *unsure, *facts.unseen}) else Kept.TOO_FEW


def _stable(facts: SourceFacts, holders: Set[str]) -> bool:
    return all(
        policy.stable({name for name in policy.stores if facts.called.get(name, name) in holders})
        for policy in facts.policies
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """A range that a task compares in one piece. All of these stores hold all of it."""

    source: SourceName
    lineage: Lineage
    first: int
    last: int
    stores: tuple[str, ...]


def segments(
    sources: Iterable[SourceFacts], *, parts: int, part_messages_min: int, part_messages_max: int
) -> list[tuple[Segment, ...]]:
    """Return all stable messages that stores hold, as parts of about the same size."""
    held: dict[SourceName, tuple[Lineage, list[Stretch]]] = {}
    for facts in sources:
        by_store = {store: copy.held for store, copy in facts.copies.items()}
        found = stretches(by_store, facts.first, facts.stable_upto)
        held[facts.name] = facts.lineage, [each for each in found if each.holders]
    return planned(
        held,
        parts=parts,
        part_messages_min=part_messages_min,
        part_messages_max=part_messages_max,
    )


def planned(
    held: Mapping[SourceName, tuple[Lineage, Sequence[Stretch]]],
    *,
    parts: int,
    part_messages_min: int,
    part_messages_max: int,
) -> list[tuple[Segment, ...]]:
    """Return these stretches as parts of about the same size.

    held: by source, its lineage and its stretches in ascending order.
    """
    ranges = [
        SourceRange(name, each.first, each.last + 1, lineage)
        for name, (lineage, found) in held.items()
        for each in found
    ]
    made = plan(
        ranges,
        parts=parts,
        part_messages_min=part_messages_min,
        part_messages_max=part_messages_max,
    )
    return [tuple(_segment(each, held[each.source][1]) for each in part.ranges) for part in made]


def _segment(each: SourceRange, held: Sequence[Stretch]) -> Segment:
    at = bisect_left(held, each.first, key=lambda stretch: stretch.last)
    return Segment(
        each.source, each.lineage, each.first, each.until - 1, tuple(sorted(held[at].holders))
    )
