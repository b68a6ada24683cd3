"""What an archive has of a source if its newest manifest is gone: by an older one and by files.

Pure. What is said here of a file was read from it and checked. Nothing is taken for archived that
does not follow on what is known without a hole: a number in a hole may have been lost on purpose,
or may be in a file that is gone, and only the manifest knew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from quorate.pipeline.archive.archive_plan import truncated
from quorate.pipeline.archive.manifest import ArchivedFile, ArchivedSource
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A source as the archive has it, as far as that can be vouched for."""

    source: ArchivedSource
    files: tuple[ArchivedFile, ...]
    notes: tuple[str, ...]
    """What can not be vouched for, for people."""
    whole: bool
    """All that the older manifest has of it is there."""


def rebuilt(
    name: SourceName, known: ArchivedSource | None, files: Iterable[ArchivedFile]
) -> Rebuilt | None:
    """Put a source together; None: nothing of it is there.

    known: as the older manifest has it, None if that does not know it. files: all that are there
    and whole, whether the older manifest names them or not; their ranges may overlap.
    """
    candidates = sorted(files, key=lambda each: (each.first, -each.last))
    if not candidates:
        return None
    first = known.first if known is not None else candidates[0].first
    lost = RangeSet(Range(each.first, each.last) for each in known.losses) if known else RangeSet()
    lineage = known.lineage if known is not None else Lineage()
    upto = known.last if known is not None else first - 1
    chosen: list[ArchivedFile] = []
    at = lost.contiguous_upto(first) + 1 if first in lost else first
    while (found := _next(candidates, at, lineage, upto)) is not None:
        chosen.append(found)
        lineage = _extended(lineage, found)
        at = found.last + 1
        at = lost.contiguous_upto(at) + 1 if at in lost else at
    if not chosen:
        return None
    last = max(chosen[-1].last, min(at - 1, upto))
    notes = [
        *_missing(name, known, last),
        *_left_over(name, candidates, last),
        *_unvouched(name, known, last),
    ]
    source = _source(name, known, first, last, truncated(lineage, last))
    whole = known is None or last >= known.last
    return Rebuilt(source, tuple(chosen), tuple(notes), whole)


def _next(
    candidates: Sequence[ArchivedFile], at: int, lineage: Lineage, upto: int
) -> ArchivedFile | None:
    """The longest file that begins there, and contradicts no epoch that is known."""
    here = (each for each in candidates if each.first == at)
    return next((each for each in here if _agrees(each, lineage, upto)), None)


def _agrees(file: ArchivedFile, lineage: Lineage, upto: int) -> bool:
    """Whether a file has the epochs that were in force up to a number, and none goes back."""
    within = [Range(file.first, min(file.last, upto))] if file.first <= upto else []
    in_force = [Term(each.epoch, each.first) for each in lineage.parted(RangeSet(within))]
    if [term for term in file.lineage.terms if term.first <= upto] != in_force:
        return False
    # Behind what is known the file's own word counts.
    return bool(within) or file.lineage.terms[0].epoch >= lineage.epoch


def _extended(lineage: Lineage, file: ArchivedFile) -> Lineage:
    new = [term for term in file.lineage.terms if term.epoch > lineage.epoch]
    return Lineage((*lineage.terms, *new))


def _source(
    name: SourceName, known: ArchivedSource | None, first: int, last: int, lineage: Lineage
) -> ArchivedSource:
    if known is None:
        information = v1.SourceInformation(source=source_to_wire(name), epoch=lineage.epoch)
        nobody = Membership((), ())
        return ArchivedSource(
            name, lineage, first, last, nobody, information, lineage.epoch, reg_id=0
        )
    losses = tuple(
        replace(each, last=min(each.last, last)) for each in known.losses if each.first <= last
    )
    promised = max(known.promised_epoch, lineage.epoch)
    return replace(known, lineage=lineage, last=last, losses=losses, promised_epoch=promised)


def _missing(name: SourceName, known: ArchivedSource | None, last: int) -> list[str]:
    if known is None or last >= known.last:
        return []
    return [
        f"{name}: [{last + 1}, {known.last}] was archived, and no whole file has {last + 1}; what "
        "stores still have of it is archived again by the next run"
    ]


def _left_over(name: SourceName, files: Sequence[ArchivedFile], last: int) -> list[str]:
    behind = [each for each in files if each.last > last]
    if not behind:
        return []
    return [
        f"{name}: {len(behind)} files have messages from {min(each.first for each in behind)} on, "
        f"and do not follow on {last}; they stay where they are, and are not read"
    ]


def _unvouched(name: SourceName, known: ArchivedSource | None, last: int) -> list[str]:
    if known is None:
        return [
            f"{name}: no older manifest knows it; its messages are proved by their checksums, but "
            "its stores, its RegID and what of it was given up are not known any more"
        ]
    if last > known.last:
        return [
            f"{name}: [{known.last + 1}, {last}] is taken from the files alone; if its stores were "
            "changed since the older manifest, that is not known any more"
        ]
    return []


def terms_of(epochs: Iterable[tuple[int, int]]) -> Lineage:
    """Of epoch and first number of each batch, in order; ValueError if an epoch goes back."""
    terms: list[Term] = []
    for epoch, first in epochs:
        if terms and epoch < terms[-1].epoch:
            raise ValueError(f"epoch {epoch} of {first} comes behind epoch {terms[-1].epoch}")
        if not terms or epoch > terms[-1].epoch:
            terms.append(Term(epoch, first))
    return Lineage(tuple(terms))
