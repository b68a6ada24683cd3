"""The messages that outlived the last epoch: kept by stores, or still with the source.

Pure. quorate.protocol.recovery decides which of them are kept. This module derives what to fetch,
what to compare and what to send again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.protocol.errors import ContentConflict
from quorate.protocol.fragments import Batch, LargeBatch, header_of, same_messages
from quorate.protocol.framing import cut
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import RangeSet
from quorate.protocol.recovery import Decision
from quorate.source.protocol.frames import framed
from quorate.source.protocol.retention import Retention


@dataclass(frozen=True, slots=True)
class Kept:
    """Messages that survived, in the form in which a store has them."""

    first: int
    last: int
    batch: Batch
    store: str


@dataclass(frozen=True, slots=True)
class Load:
    """Messages to fetch from the stores that hold them before the stream can go on."""

    first: int
    last: int
    holders: Mapping[int, tuple[str, ...]]
    """The stores that hold each run of messages, by the first number of the run."""
    lineage: Lineage
    """The lineage of the stream. A store that has not begun yet may also hold other messages."""
    losses: RangeSet = field(default_factory=RangeSet)
    """The ranges that no store has, and whose loss an operator has accepted."""

    def run(self, first: int) -> tuple[int, tuple[str, ...]]:
        """Return how far the same stores hold everything from this number on, and which stores
        these are."""
        start = max(start for start in self.holders if start <= first)
        upto = min((later - 1 for later in self.holders if later > first), default=self.last)
        return upto, self.holders[start]


def first_of(unstable: Sequence[Batch]) -> int | None:
    """Return the first sequence number that the source still has itself; None: it has no
    message."""
    return header_of(unstable[0]).first if unstable else None


def plan_load(decision: Decision, stable_upto: int, unstable: Sequence[Batch]) -> Load | None:
    """Return what to fetch: kept messages that are not stable or that the source must compare.

    None: there is nothing to fetch.
    """
    first = stable_upto + 1
    own = first_of(unstable)
    if own is not None:
        first = min(first, own)
    # Released messages were stable, and no content is left to compare with.
    first = max(first, decision.retained_from)
    last = decision.kept_upto
    if first > last:
        return None
    held = decision.holders
    starts = {first}
    for ranges in held.values():
        for item in ranges:
            starts |= {item.first, item.last + 1}
    holders = {
        start: tuple(store for store, ranges in held.items() if start in ranges)
        for start in sorted(starts)
        if first <= start <= last
    }
    return Load(first, last, holders, decision.begun.lineage, decision.losses)


def newest_marker(decision: Decision, unstable: Iterable[Batch]) -> bytes:
    """Return the newest marker of the kept messages and of those that are sent again."""
    own = [header.marker for header in map(header_of, unstable) if header.marker]
    if own:
        return own[-1]
    return decision.marker.value if decision.marker else b""


def conflict(
    source: SourceName, kept: Iterable[Kept], unstable: Sequence[Batch]
) -> ContentConflict | None:
    """Return the first conflict: a store with other content than the source under the same
    number."""
    for item in kept:
        for own in unstable:
            if not same_messages(item.batch, own):
                header = header_of(own)
                return ContentConflict(str(source), header.first, header.last, item.store)
    return None


def sent_again(
    epoch: int, kept_upto: int, unstable: Iterable[Batch]
) -> Iterable[tuple[int, int, Batch]]:
    """Yield first number, last number and batch of what no store kept; only the epoch is
    changed."""
    for own in unstable:
        header = header_of(own)
        if header.last <= kept_upto:
            continue
        first = max(header.first, kept_upto + 1)
        if isinstance(own, LargeBatch):
            yield first, header.last, own.in_epoch(epoch)
        else:
            yield first, header.last, cut(own, header, first, header.last, epoch)


def carried_over(
    kept: Sequence[Kept],
    unstable: Iterable[Batch],
    epoch: int,
    kept_upto: int,
    stable_upto: int,
    now: float,
) -> Retention:
    """Return what an epoch begins with: what stores kept and is not stable, then what none kept.

    stable_upto: the highest stable number whose content the source has compared.
    """
    needed = [item for item in kept if item.last > stable_upto]
    retention = Retention(needed[0].first if needed else kept_upto + 1)

    def retain(first: int, last: int, batch: Batch) -> None:
        size = retention.payload_bytes + len(batch)
        retention.append(first, last, framed(batch, stable_upto), size, now)

    for item in needed:
        retain(item.first, item.last, item.batch)
    retention.ends_before(kept_upto + 1)
    for again in sent_again(epoch, kept_upto, unstable):
        retain(*again)
    return retention
