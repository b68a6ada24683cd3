"""Lineage: which epoch is in force for which sequence numbers (protocol.md 4.7).

A batch belongs to the stream only if its epoch is the one that the lineage names for its numbers.
Everything else that a store holds is void. A lineage travels as a whole, with begin. A list of
begun epochs would not be enough. An epoch that only a minority began must not void messages that a
later recovery kept, because that recovery may not have heard of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import HeldRange, Range, RangeSet


@dataclass(frozen=True, slots=True)
class Term:
    """An epoch, and the first sequence number that it is in force for."""

    epoch: int
    first: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """Terms with ascending epochs and first numbers; each is in force until the next begins."""

    terms: tuple[Term, ...] = ()

    def __post_init__(self) -> None:
        for before, after in zip(self.terms, self.terms[1:], strict=False):
            assert before.epoch < after.epoch, self.terms
            assert before.first < after.first, self.terms

    @property
    def epoch(self) -> int:
        """The newest epoch; 0 before any."""
        return self.terms[-1].epoch if self.terms else 0

    def epoch_at(self, sequence: int) -> int:
        """Return the epoch in force for a sequence number; 0 if none is."""
        at = bisect_right(self.terms, sequence, key=lambda term: term.first)
        return self.terms[at - 1].epoch if at else 0

    def valid(self, held: HeldRange) -> Range | None:
        """Return the part of a held range that belongs to the stream, if any does."""
        for at, term in enumerate(self.terms):
            if term.epoch == held.epoch:
                first = max(held.first, term.first)
                last = held.last
                if at + 1 < len(self.terms):
                    last = min(last, self.terms[at + 1].first - 1)
                return Range(first, last) if first <= last else None
        return None

    def parted(self, ranges: RangeSet) -> tuple[HeldRange, ...]:
        """Return the ranges cut at the terms, each part with its epoch."""
        parts: list[HeldRange] = []
        for item in ranges:
            for at, term in enumerate(self.terms):
                first = max(item.first, term.first)
                last = item.last
                if at + 1 < len(self.terms):
                    last = min(last, self.terms[at + 1].first - 1)
                if first <= last:
                    parts.append(HeldRange(first, last, term.epoch))
        return tuple(parts)

    def belonging(self, held: Iterable[HeldRange]) -> RangeSet:
        """Return the numbers of held ranges that belong to the stream."""
        kept, _ = self.split(held)
        return RangeSet(Range(item.first, item.last) for item in kept)

    def split(self, held: Iterable[HeldRange]) -> tuple[list[HeldRange], list[HeldRange]]:
        """Return two lists: the held ranges that belong to the stream, and the void ones."""
        kept: list[HeldRange] = []
        void: list[HeldRange] = []
        for item in held:
            part = self.valid(item)
            if part is None:
                void.append(item)
                continue
            kept.append(HeldRange(part.first, part.last, item.epoch))
            if item.first < part.first:
                void.append(HeldRange(item.first, part.first - 1, item.epoch))
            if part.last < item.last:
                void.append(HeldRange(part.last + 1, item.last, item.epoch))
        return kept, void

    def reaches_back_to(self, epoch: int) -> bool:
        """Return whether the stream may have messages of this epoch, or of an older one."""
        return bool(self.terms) and self.terms[0].epoch <= epoch

    def shared_upto(self, epoch: int) -> int | None:
        """Return the last number up to which this stream and the stream of that epoch agree.

        Return None if the lineage has no term of that epoch. Numbers that the lineage gives to
        later epochs are others than those of that epoch.
        """
        if all(term.epoch != epoch for term in self.terms):
            return None
        later = (term.first for term in self.terms if term.epoch > epoch)
        return min(later, default=SEQUENCE_MAX + 1) - 1

    def extended(self, kept_upto: int, epoch: int) -> Lineage:
        """Return this lineage as far as kept_upto, then the new epoch."""
        assert epoch > self.epoch
        terms = tuple(term for term in self.terms if term.first <= kept_upto)
        return Lineage((*terms, Term(epoch, kept_upto + 1)))


@dataclass(frozen=True, slots=True)
class ArchivedPlace:
    """The place up to which an archive has a source."""

    upto: int
    epoch: int
    """The epoch in force at this number, in the archive."""


def diverges_at(one: Lineage, other: Lineage) -> int:
    """Return the first sequence number for which two lineages name different epochs.

    Return SEQUENCE_MAX for equal lineages.
    """
    for at in range(max(len(one.terms), len(other.terms))):
        mine, theirs = one.terms[at : at + 1], other.terms[at : at + 1]
        if mine != theirs:
            return min(term.first for term in (*mine, *theirs))
    return SEQUENCE_MAX


NO_LINEAGE = Lineage()
"""The lineage of a source that never began."""
