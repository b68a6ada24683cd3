"""Ranges of sequence numbers to partitions: split where they are long, packed where they are short.

Pure. A partition says all that its task needs, so that a task that runs again reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import NO_LINEAGE, Lineage

PART_MESSAGES_MIN = 20_000
"""Fewer are not worth a task of their own: it costs as much as reading so many."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The messages [first, until) of a source; never empty."""

    source: SourceName
    first: int
    until: int
    lineage: Lineage = NO_LINEAGE
    """As it was when this was planned: it tells which batches belong to the stream."""
    archived: bool = False
    """To be read from the archive: no store had any of it when this was planned."""

    def __len__(self) -> int:
        return self.until - self.first


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads, in this order."""

    ranges: tuple[SourceRange, ...]
    number: int
    """Of the parts of a plan: tasks of different numbers begin with different stores."""

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
    """Partitions of about the same size.

    parts: how many there are to be, if each gets at least part_messages_min; more if they would
    have more than part_messages_max.
    """
    wanted = sorted(ranges, key=lambda each: (each.source, each.first))
    total = sum(map(len, wanted))
    if not total:
        return []
    parts = max(1, min(parts, total // part_messages_min))
    size = min(-(-total // parts), part_messages_max)
    return [Part(tuple(each), number) for number, each in enumerate(_filled(wanted, size))]


def _filled(ranges: Sequence[SourceRange], size: int) -> Iterable[list[SourceRange]]:
    """Fill one part after the other, so that consecutive messages stay together."""
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
