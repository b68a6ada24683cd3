"""The plan of an archive job: what to archive of each source, and what the archive has after it.

Only stable messages are archived, and in whole batches, so an archived number never gets other
content. Nothing here asks a store or touches a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from quorate.archive.rules.data_file import session_text
from quorate.archive.rules.source import ArchivedSource, BatchMark
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.planning import (
    Part,
    SourceRange,
)
from quorate.protocol.errors import ArchiveDiffers
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import membership_from_wire


@dataclass(frozen=True, slots=True)
class Wanted:
    """The messages of a source that a job is to archive."""

    known: KnownSource
    first: int
    """The first number of the source's whole archive."""
    ranges: tuple[SourceRange, ...]
    """The new ranges, without lost and released ones."""
    last: int
    """The last number of the source's whole archive after the job."""
    released: RangeSet
    """New ranges that the archive will lack, because retention released them at the stores."""
    after: BatchMark | None = None
    """The batch that was archived last, if the new messages follow on it and stores hold it."""

    def __len__(self) -> int:
        return sum(map(len, self.ranges))


@dataclass(frozen=True, slots=True)
class WorkRange:
    """A range of a source that a task archives."""

    range: SourceRange
    goes_on: bool
    """An earlier part has messages of the source. So this range gets files of its own."""
    after: BatchMark | None
    """The archived batch that the range follows on, to be compared with that of the stores."""
    ends: bool
    """The range ends with the last stable message. A batch that goes on behind it waits."""


@dataclass(frozen=True, slots=True)
class Work:
    """The ranges that one task archives, in this order."""

    ranges: tuple[WorkRange, ...]
    number: int
    """The number of the part in its plan. It decides which store the task asks first."""


@dataclass(frozen=True, slots=True)
class RangeArchived:
    """The part of a range that a task has archived: all of it, or its beginning."""

    source: SourceName
    first: int
    last: int
    bytes: int
    """Bytes of the batches, as the source sent them."""
    last_batch: BatchMark


def check_same_history(known: KnownSource, archived: ArchivedSource, path: str) -> None:
    """Raise ArchiveDiffers if the stores' lineage differs from that of the archive."""
    parts_at = diverges_at(archived.lineage, known.lineage)
    if parts_at <= archived.last:
        theirs, ours = known.lineage.epoch_at(parts_at), archived.lineage.epoch_at(parts_at)
        raise ArchiveDiffers(
            str(known.name), parts_at, path, f"the stores have epoch {theirs}, the archive {ours}"
        )


def wanted(known: KnownSource, archived: ArchivedSource | None, upto: int) -> Wanted | None:
    """Return what is new of a source up to a stable number; None if nothing is."""
    lost = RangeSet(Range(each.first, each.last) for each in known.losses)
    let_go = RangeSet([Range(0, known.retained_from - 1)] if known.retained_from else [])
    released = let_go.minus(known.held).minus(lost)
    if archived is not None:
        first, begin = archived.first, archived.last + 1
    else:
        # An archive begins where the stream goes on without a hole. So it has nothing below the
        # last released number, and nothing of the losses at the beginning of the stream.
        begin = known.lineage.terms[0].first
        first = begin = max(begin, lost.contiguous_upto(begin) + 1, released.high + 1)
    if upto < begin:
        return None
    released = released.both(RangeSet([Range(begin, upto)]))
    parts = RangeSet([Range(begin, upto)]).minus(lost).minus(released)
    ranges = tuple(
        SourceRange(
            known.name,
            part.first,
            part.last + 1,
            known.lineage,
            message_bytes=known.message_bytes,
        )
        for part in parts
    )
    if not ranges:
        return None
    after = None
    if archived is not None and ranges[0].first == archived.last + 1:
        after = last_batch_at_stores(known, archived)
    return Wanted(known, first, ranges, upto, released, after)


def last_batch_at_stores(known: KnownSource, archived: ArchivedSource) -> BatchMark | None:
    """Return the batch that was archived last if stores hold it, else None."""
    mark = archived.last_batch
    if mark is None:
        return None
    return None if RangeSet([Range(mark.first, archived.last)]).minus(known.held) else mark


def aligned(parts: Sequence[Part], begin_of: Callable[[SourceRange], int]) -> list[Part]:
    """Return the parts, with each cut within a source moved back to the beginning of a batch.

    begin_of: returns the first number of the batch that has the first message of a range. So a
    batch stays whole, unless another store has it in other pieces.
    """
    made = [list(part.ranges) for part in parts]
    for before, after in pairwise(made):
        one, two = before[-1], after[0]
        if (one.source, one.until) != (two.source, two.first):
            continue
        begin = begin_of(two)
        if one.first < begin < two.first:
            before[-1] = replace(one, until=begin)
            after[0] = replace(two, first=begin)
    return [replace(part, ranges=tuple(each)) for part, each in zip(parts, made, strict=True)]


def work_of(parts: Sequence[Part], wanted: Iterable[Wanted]) -> list[Work]:
    """Return what the tasks do for these parts.

    A part that goes on with a source of an earlier part has files of its own for it. They are left
    out if the earlier part did not come so far.
    """
    by_name = {each.known.name: each for each in wanted}
    before: set[SourceName] = set()
    work: list[Work] = []
    for part in parts:
        ranges = [_work_range(each, by_name[each.source], before) for each in part.ranges]
        # Files have sources in the order of the text, so that their bounds are narrow.
        ranges.sort(key=lambda each: _place(each.range))
        work.append(Work(tuple(ranges), part.number))
        before.update(each.source for each in part.ranges)
    return work


def _work_range(each: SourceRange, wanted: Wanted, before: set[SourceName]) -> WorkRange:
    return WorkRange(
        each,
        goes_on=each.source in before,
        after=wanted.after if each.first == wanted.ranges[0].first else None,
        ends=each.until - 1 == wanted.last,
    )


def _place(each: SourceRange) -> tuple[str, str, int]:
    return (each.source.topic, session_text(each.source.session_id), each.first)


def done(wanted: Wanted, results: Iterable[RangeArchived]) -> Wanted | None:
    """Return what was archived of a source without a hole; None if nothing."""
    has = RangeSet(Range(each.first, each.last) for each in results)
    missing = RangeSet(Range(each.first, each.until - 1) for each in wanted.ranges).minus(has)
    if not missing:
        return wanted
    last = missing.low - 1
    ranges = tuple(
        replace(each, until=min(each.until, last + 1))
        for each in wanted.ranges
        if each.first <= last
    )
    return replace(wanted, ranges=ranges, last=ranges[-1].until - 1) if ranges else None


def truncated(lineage: Lineage, last: int) -> Lineage:
    """Return the lineage without the terms that begin after `last`."""
    return Lineage(tuple(term for term in lineage.terms if term.first <= last))


def as_archived(
    wanted: Wanted, archived: ArchivedSource | None, last_batch: BatchMark
) -> ArchivedSource:
    """Return the source as the archive has it once all wanted messages are archived."""
    known = wanted.known
    lost = wanted.released.union(Range(each.first, each.last) for each in known.losses)
    within = lost.both(RangeSet([Range(wanted.first, wanted.last)]))
    # Earlier losses stay. A message in the archive is not lost, even if stores lost it since.
    new = within.minus([Range(0, archived.last)] if archived is not None else [])
    before = archived.losses if archived is not None else ()
    losses = known.lineage.parted(new.union(Range(each.first, each.last) for each in before))
    return ArchivedSource(
        known.name,
        truncated(known.lineage, wanted.last),
        wanted.first,
        wanted.last,
        membership_from_wire(known.membership),
        known.information,
        max(known.promised_epoch, archived.promised_epoch if archived else 0),
        known.reg_id,
        losses,
        archived.marker if archived is not None else _marker_below(known, wanted.first),
        last_batch,
    )


def _marker_below(known: KnownSource, first: int) -> Marker | None:
    below = (each for each in known.markers if each.sequence < first)
    return max(below, key=lambda each: each.sequence, default=None)
