"""Sets of sequence numbers as inclusive ranges, plain and with the epoch of each.

Only numbers are here: quorate.protocol.lineage decides whether a range is part of a stream.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quorate.protocol.limits import NOTHING


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The numbers from first to last, both included; never empty."""

    first: int
    last: int

    def __post_init__(self) -> None:
        assert 0 <= self.first <= self.last, (self.first, self.last)

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"[{self.first}, {self.last}]"


_NONE: list[int] = []


class RangeSet:
    """A set of numbers, kept as the fewest ascending ranges that do not touch."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        # Most sets stay empty, and a process has very many. These share one list, which never
        # changes.
        self._firsts: list[int] = _NONE
        self._lasts: list[int] = _NONE
        if isinstance(ranges, RangeSet):
            if ranges._lasts:
                self._firsts, self._lasts = ranges._firsts[:], ranges._lasts[:]
            return
        for item in ranges:
            self.add(item.first, item.last)

    def add(self, first: int, last: int) -> None:
        """Add the numbers from first to last."""
        if not self._lasts:
            self._firsts, self._lasts = [first], [last]
            return
        if first == self._lasts[-1] + 1:
            self._lasts[-1] = last
            return
        # Every range that overlaps or touches [first, last] becomes part of it.
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def remove(self, first: int, last: int) -> None:
        """Remove the numbers from first to last."""
        if not self._lasts or first > self._lasts[-1]:
            return
        kept = [
            part
            for item in self
            for part in (
                (item.first, min(item.last, first - 1)),
                (max(item.first, last + 1), item.last),
            )
            if part[0] <= part[1]
        ]
        self._firsts = [part[0] for part in kept]
        self._lasts = [part[1] for part in kept]

    def remove_upto(self, last: int) -> None:
        """Remove the numbers up to this one. It is quick if that is one of few ranges."""
        at = bisect_right(self._lasts, last)
        if at:
            del self._firsts[:at], self._lasts[:at]
        if self._firsts and self._firsts[0] <= last:
            self._firsts[0] = last + 1

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self._lasts, number)
        return at < len(self._firsts) and self._firsts[at] <= number

    def __iter__(self) -> Iterator[Range]:
        return map(Range, self._firsts, self._lasts)

    def __len__(self) -> int:
        """Return the number of ranges, not of their numbers."""
        return len(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and (self._firsts, self._lasts) == (
            other._firsts,
            other._lasts,
        )

    def __repr__(self) -> str:
        return f"RangeSet({', '.join(map(str, self))})"

    @property
    def low(self) -> int:
        """The lowest number, or NOTHING."""
        return self._firsts[0] if self._firsts else NOTHING

    @property
    def high(self) -> int:
        """The highest number, or NOTHING."""
        return self._lasts[-1] if self._lasts else NOTHING

    def contiguous_upto(self, start: int) -> int:
        """Return the highest n with all of [start, n] in the set; start - 1 if there is none."""
        at = bisect_left(self._lasts, start)
        if at < len(self._firsts) and self._firsts[at] <= start:
            return self._lasts[at]
        return start - 1

    def missing_upto(self, start: int, last: int) -> int:
        """Return the highest n, at most last, with nothing of [start, n] in the set.

        It is start - 1 if start is in the set.
        """
        at = bisect_left(self._lasts, start)
        return min(last, self._firsts[at] - 1) if at < len(self._firsts) else last

    def union(self, other: Iterable[Range]) -> RangeSet:
        """Return a set with the numbers of both."""
        joined = RangeSet(self)
        for item in other:
            joined.add(item.first, item.last)
        return joined

    def minus(self, other: Iterable[Range]) -> RangeSet:
        """Return a set with the numbers of this set that the other lacks."""
        rest = RangeSet(self)
        for item in other:
            rest.remove(item.first, item.last)
        return rest

    def both(self, other: RangeSet) -> RangeSet:
        """Return a set with the numbers that are in both."""
        if not self._lasts:
            return RangeSet()
        return self.minus(other.holes(0, self._lasts[-1]))

    def count(self) -> int:
        """Return how many numbers are in the set."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def holes(self, first: int, last: int) -> list[Range]:
        """Return the ranges of [first, last] that are not in the set."""
        at, until = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        if at < until and self._firsts[at] <= first and self._lasts[at] >= last:
            return []  # as of most streams
        missing: list[Range] = []
        for held_first, held_last in zip(
            self._firsts[at:until], self._lasts[at:until], strict=True
        ):
            if held_first > first:
                missing.append(Range(first, held_first - 1))
            first = held_last + 1
        if first <= last:
            missing.append(Range(first, last))
        return missing


@dataclass(frozen=True, slots=True, order=True)
class HeldRange:
    """Numbers that a store holds, from batches of one epoch."""

    first: int
    last: int
    epoch: int
