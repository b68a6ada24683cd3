"""Planning of partitions: long ranges of sequence numbers are split, short ones are packed.

A partition has all that its task needs, so that a task that runs again reads the same messages.
Nothing here asks a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import NO_LINEAGE, Lineage

PART_MESSAGES_MIN = 20_000
"""Fewest messages of a task. Starting a task costs as much time as reading so many."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The messages [first, until) of a source; never empty."""

    source: SourceName
    first: int
    until: int
    lineage: Lineage = NO_LINEAGE
    """The lineage when the range was planned. It tells which batches belong to the stream."""
    archived: bool = False
    """The range is read from the archive, because no store had any of it when it was planned."""

    def __len__(self) -> int:
        return self.until - self.first


@dataclass(frozen=True, slots=True)
class Part:
    """The ranges that one task reads, in this order."""

    ranges: tuple[SourceRange, ...]
    number: int
    """The number of the part in its plan. It decides which store the task asks first."""

    def __len__(self) -> int:
        return sum(map(len, self.ranges))


@dataclass(slots=True)
class _Open:
    ranges: list[SourceRange] = field(default_factory=list)
    messages: int = 0


def plan(
    ranges: Iterable[SourceRange],
    *,
    parts: int,
    part_messages_max: int,
    part_messages_min: int = PART_MESSAGES_MIN,
) -> list[Part]:
    """Return partitions of about the same size.

    parts: the number to make. It is less if a part would have fewer than part_messages_min
    messages, and more if one would have more than part_messages_max.
    """
    wanted = sorted(ranges, key=lambda each: (each.source, each.first))
    total = sum(map(len, wanted))
    if not total:
        return []
    parts = max(1, min(parts, total // part_messages_min))
    size = min(-(-total // parts), part_messages_max)
    return [Part(tuple(each), number) for number, each in enumerate(_filled(wanted, size))]


def _filled(ranges: Sequence[SourceRange], size: int) -> Iterable[list[SourceRange]]:
    """Yield the ranges of each part.

    One part is filled after the other, in order of the messages.
    """
    now = _Open()
    for each in ranges:
        first = each.first
        while first < each.until:
            until = min(each.until, first + size - now.messages)
            now.ranges.append(replace(each, first=first, until=until))
            now.messages += until - first
            first = until
            if now.messages == size:
                yield now.ranges
                now = _Open()
    if now.ranges:
        yield now.ranges
