"""What is to be archived of each source, from what stores say and what the archive has already.

Pure. Only what is stable is archived, and only whole: an archived number never gets other content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from quorate.pipeline.archive.manifest import ArchivedFile, ArchivedSource, Manifest
from quorate.pipeline.errors import ArchiveDiffers
from quorate.pipeline.stores.client import KnownSource
from quorate.pipeline.stores.planning import (
    Part,
    SourceRange,
)
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import membership_from_wire


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be archived of a source now."""

    known: KnownSource
    first: int
    """Of the source's whole archive."""
    ranges: tuple[SourceRange, ...]
    """What is new, without what is lost."""
    last: int
    """Of the source's whole archive, once that is done."""
    released: RangeSet
    """Behind what is archived, and let go by all stores that answered: the archive lacks it."""

    def __len__(self) -> int:
        return sum(map(len, self.ranges))


def check_same_history(known: KnownSource, archived: ArchivedSource, path: str) -> None:
    """Raise ArchiveDiffers if the stores follow another lineage than the archive has."""
    parts_at = diverges_at(archived.lineage, known.lineage)
    if parts_at <= archived.last:
        theirs, ours = known.lineage.epoch_at(parts_at), archived.lineage.epoch_at(parts_at)
        raise ArchiveDiffers(
            str(known.name), parts_at, path, f"the stores have epoch {theirs}, the archive {ours}"
        )


def wanted(known: KnownSource, archived: ArchivedSource | None, upto: int) -> Wanted | None:
    """What is new of a source up to a number that is stable; None: nothing."""
    lost = RangeSet(Range(each.first, each.last) for each in known.losses)
    let_go = RangeSet([Range(0, known.retained_from - 1)] if known.retained_from else [])
    released = let_go.minus(known.held).minus(lost)
    if archived is not None:
        first, begin = archived.first, archived.last + 1
    else:
        # What nobody has below the first that somebody has is no part of the archive, nor is what
        # is broken up because some let it go: an archive begins with what goes on without a hole.
        begin = known.lineage.terms[0].first
        first = begin = max(begin, lost.contiguous_upto(begin) + 1, released.high + 1)
    if upto < begin:
        return None
    released = released.both(RangeSet([Range(begin, upto)]))
    parts = RangeSet([Range(begin, upto)]).minus(lost).minus(released)
    ranges = tuple(
        SourceRange(known.name, part.first, part.last + 1, known.lineage) for part in parts
    )
    return Wanted(known, first, ranges, upto, released) if ranges else None


def aligned(parts: Sequence[Part], begin_of: Callable[[SourceRange], int]) -> list[Part]:
    """The parts, but where one goes on from another cut where a batch begins.

    begin_of: the first number of the batch that the first of a range is in. So batches stay whole,
    unless stores have them in other pieces.
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


def done(wanted: Wanted, files: Iterable[ArchivedFile]) -> tuple[Wanted, list[ArchivedFile]] | None:
    """What of a source is archived without a break, and in which files; None: nothing is."""
    mine = [each for each in files if each.source == wanted.known.name]
    has = RangeSet(Range(each.first, each.last) for each in mine)
    missing = RangeSet(Range(each.first, each.until - 1) for each in wanted.ranges).minus(has)
    if missing:
        last = missing.low - 1
        ranges = tuple(
            replace(each, until=min(each.until, last + 1))
            for each in wanted.ranges
            if each.first <= last
        )
        if not ranges:
            return None
        wanted = replace(wanted, ranges=ranges, last=ranges[-1].until - 1)
    return wanted, [each for each in mine if each.last <= wanted.last]


def truncated(lineage: Lineage, last: int) -> Lineage:
    """As far as it is about numbers up to `last`."""
    return Lineage(tuple(term for term in lineage.terms if term.first <= last))


def as_archived(wanted: Wanted, archived: ArchivedSource | None) -> ArchivedSource:
    """The source as it is in the archive once all that was wanted is."""
    known = wanted.known
    lost = wanted.released.union(Range(each.first, each.last) for each in known.losses)
    within = lost.both(RangeSet([Range(wanted.first, wanted.last)]))
    # What was lost before stays so; what the archive has is not lost, whoever lost it since.
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
    )


def _marker_below(known: KnownSource, first: int) -> Marker | None:
    below = (each for each in known.markers if each.sequence < first)
    return max(below, key=lambda each: each.sequence, default=None)


def next_manifest(
    manifest: Manifest, archived: Iterable[tuple[Wanted, Sequence[ArchivedFile]]]
) -> Manifest:
    """The manifest with what was archived."""
    archived = list(archived)
    sources = [as_archived(each, manifest.sources.get(each.known.name)) for each, _ in archived]
    return manifest.archived(sources, [file for _, files in archived for file in files])
