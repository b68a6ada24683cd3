"""The plan of a rebuild: what an archive has of a source, from an older manifest and from files.

The facts of each file were read from the file and checked. A source ends at the first hole behind
what is known. A number in a hole may be an accepted loss, or may have been in a file that is gone.
Only the lost manifest knew which. Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from quorate.archive.manifest import ArchivedFile, ArchivedSource
from quorate.pipeline.archive.archive_plan import truncated
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A source as far as the archive provably has it."""

    source: ArchivedSource
    files: tuple[ArchivedFile, ...]
    notes: tuple[str, ...]
    """Lines for people about what is not certain."""
    whole: bool
    """The archive still has everything of the source that the older manifest lists."""


def rebuilt(
    name: SourceName, known: ArchivedSource | None, files: Iterable[ArchivedFile]
) -> Rebuilt | None:
    """Put a source together from its files. Return None if there is nothing of it.

    - known: the source in the older manifest; None if that does not have it.
    - files: all existing valid files of the source, also those that the older manifest does not
      name. Their ranges may overlap.
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
    """Return the longest file that begins at a number and contradicts no known epoch."""
    here = (each for each in candidates if each.first == at)
    return next((each for each in here if _agrees(each, lineage, upto)), None)


def _agrees(file: ArchivedFile, lineage: Lineage, upto: int) -> bool:
    """Return whether a file has the epochs in force up to a number, and none that goes back."""
    within = [Range(file.first, min(file.last, upto))] if file.first <= upto else []
    in_force = [Term(each.epoch, each.first) for each in lineage.parted(RangeSet(within))]
    if [term for term in file.lineage.terms if term.first <= upto] != in_force:
        return False
    # Behind what is known, the epochs in the file itself count.
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
        f"{name}: [{last + 1}, {known.last}] was archived, and no whole file has {last + 1}. The "
        "next run archives again what the stores still have of it"
    ]


def _left_over(name: SourceName, files: Sequence[ArchivedFile], last: int) -> list[str]:
    behind = [each for each in files if each.last > last]
    if not behind:
        return []
    return [
        f"{name}: {len(behind)} files have messages from {min(each.first for each in behind)} on, "
        f"and do not follow on {last}. They stay where they are, and are not read"
    ]


def _unvouched(name: SourceName, known: ArchivedSource | None, last: int) -> list[str]:
    if known is None:
        return [
            f"{name}: no older manifest has it. Checksums prove its messages, but its stores, its "
            "RegID and its accepted losses are no longer known"
        ]
    if last > known.last:
        return [
            f"{name}: [{known.last + 1}, {last}] is taken from the files alone. If its stores were "
            "changed since the older manifest, that is no longer known"
        ]
    return []


def terms_of(epochs: Iterable[tuple[int, int]]) -> Lineage:
    """Return the lineage of batches in order, from the epoch and first number of each.

    Raises ValueError if an epoch goes back.
    """
    terms: list[Term] = []
    for epoch, first in epochs:
        if terms and epoch < terms[-1].epoch:
            raise ValueError(f"epoch {epoch} of {first} comes behind epoch {terms[-1].epoch}")
        if not terms or epoch > terms[-1].epoch:
            terms.append(Term(epoch, first))
    return Lineage(tuple(terms))
