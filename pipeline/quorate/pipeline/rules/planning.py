"""Planning of partitions: long ranges of sequence numbers are split, short ones are packed.

A partition has all that its task needs, so that a task that runs again reads the same messages.
Nothing here asks a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import NO_LINEAGE, Lineage

PART_WEIGHT = 100_000
"""Small messages of a task while there are few. Starting one costs a third of reading them."""
FEW_PARTS = 8
LARGE_PART_WEIGHT = 500_000
"""Small messages of a task once there are more tasks, so that starting tasks costs little."""
SMALL_MESSAGE_BYTES = 200
"""Bytes up to which the work of a message does not depend on its size."""


_ROUNDING = 1e-6


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
    message_bytes: float = 0.0
    """The mean bytes of a message; 0: not known."""

    def __len__(self) -> int:
        return self.until - self.first

    @property
    def message_weight(self) -> float:
        """How much work a message is, as a multiple of a small one."""
        return max(1.0, self.message_bytes / SMALL_MESSAGE_BYTES)

    @property
    def weight(self) -> float:
        return len(self) * self.message_weight


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
    weight: float = 0.0


def plan(
    ranges: Iterable[SourceRange],
    *,
    parts: int,
    part_messages_max: int,
    part_messages_min: int = 1,
) -> list[Part]:
    """Return partitions of about the same weight.

    parts: the number to make. It is less if a part would have fewer than part_messages_min small
    messages, and more if one would have more than part_messages_max messages.
    """
    wanted = sorted(ranges, key=lambda each: (each.source, each.first))
    total = sum(each.weight for each in wanted)
    if not total:
        return []
    parts = max(1, min(parts, int(total // part_messages_min), sum(map(len, wanted))))
    filled = _filled(wanted, total / parts, part_messages_max)
    return [Part(tuple(each), number) for number, each in enumerate(filled)]


def parts_for(ranges: Iterable[SourceRange], least: int) -> int:
    """Return how many partitions of a fitting weight the ranges make, and at least so many."""
    weight = sum(each.weight for each in ranges)
    few = min(FEW_PARTS, ceil(weight / PART_WEIGHT))
    return max(least, few, ceil(weight / LARGE_PART_WEIGHT))


def _filled(
    ranges: Sequence[SourceRange], weight: float, messages_max: int
) -> Iterable[list[SourceRange]]:
    """Yield the ranges of each part.

    One part is filled after the other, in order of the messages.
    """
    now = _Open()
    for each in ranges:
        first = each.first
        while first < each.until:
            fitting = max(1, ceil((weight - now.weight) / each.message_weight - _ROUNDING))
            until = min(each.until, first + fitting, first + messages_max - now.messages)
            now.ranges.append(replace(each, first=first, until=until))
            now.messages += until - first
            now.weight += (until - first) * each.message_weight
            first = until
            if now.messages == messages_max or now.weight >= weight - _ROUNDING:
                yield now.ranges
                now = _Open()
    if now.ranges:
        yield now.ranges
