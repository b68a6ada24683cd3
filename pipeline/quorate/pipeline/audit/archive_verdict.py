"""The findings of an audit about an archive, from what the stores and the archive report.

What stores let go of must be in the archive, and nothing in it may be above what is stable. Nothing
here compares contents, and nothing asks a store or reads a file.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.pipeline.audit.facts import ARCHIVE, ArchivedCopy, Finding, Kind, SourceFacts
from quorate.protocol.lineage import diverges_at
from quorate.protocol.ranges import Range, RangeSet


def archive_findings(facts: SourceFacts) -> Iterator[Finding]:
    """Yield the findings about the archive; none if the audit is of the stores alone."""
    archived = facts.archived
    if archived is None:
        return
    held = RangeSet()
    for copy in facts.copies.values():
        held = held.union(copy.held)
    yield from _released(facts, archived, held)
    yield from _holes(facts, archived, held)
    yield from _waiting(facts, archived, held)
    yield from _beyond(facts, archived)
    yield from _other_history(facts, archived)


def comparable(facts: SourceFacts, archived: ArchivedCopy) -> RangeSet:
    """Return the stable messages of the archive that follow the history of the stores."""
    if not facts.copies:
        return archived.has
    upto = min(facts.stable_upto, diverges_at(archived.lineage, facts.lineage) - 1)
    return archived.has.both(_numbers(facts.begin, upto))


def unknown_to_stores(facts: SourceFacts, archived: ArchivedCopy) -> Finding:
    """Return the finding about a source that no store knows."""
    unseen = tuple(sorted(facts.unseen))
    detail = "its stream ended, or the stores were wiped; neither can be told now"
    if unseen:
        detail = f"{', '.join(unseen)} did not answer, and may know it"
    return Finding(Kind.FORGOTTEN, unseen or (ARCHIVE,), archived.first, archived.last, detail)


def _numbers(first: int, last: int) -> RangeSet:
    return RangeSet([Range(first, last)] if first <= last else [])


def _doubtful(facts: SourceFacts) -> tuple[str, ...]:
    """Return the stores that may have more than the audit has seen."""
    limbo = (store for store, copy in facts.copies.items() if copy.limbo)
    return tuple(sorted({*limbo, *facts.unseen}))


def _released(facts: SourceFacts, archived: ArchivedCopy, held: RangeSet) -> Iterator[Finding]:
    """Yield the messages that retention let go of, and that the archive lacks."""
    let_go = _numbers(facts.begin, facts.retained_from - 1)
    doubtful = _doubtful(facts)
    for each in let_go.minus(held).minus(archived.has):
        if doubtful:
            detail = f"the archive lacks it; {', '.join(doubtful)} may have it"
            yield Finding(Kind.UNSEEN, doubtful, each.first, each.last, detail)
        else:
            detail = "retention released it at every store, and the archive lacks it"
            yield Finding(Kind.NOT_ARCHIVED, (ARCHIVE,), each.first, each.last, detail)


def _holes(facts: SourceFacts, archived: ArchivedCopy, held: RangeSet) -> Iterator[Finding]:
    """Yield the messages that stores hold, and that the archive lacks before its end."""
    due = _numbers(archived.first, min(archived.last, facts.stable_upto))
    for each in due.minus(archived.has).both(held):
        holders = ", ".join(
            sorted(
                store for store, copy in facts.copies.items() if copy.held.both(RangeSet([each]))
            )
        )
        yield Finding(Kind.HOLE, (ARCHIVE,), each.first, each.last, f"held by {holders}")


def _waiting(facts: SourceFacts, archived: ArchivedCopy, held: RangeSet) -> Iterator[Finding]:
    """Yield the messages that the next run of the archive job takes, or that it left out before."""
    everything = _numbers(facts.begin, facts.stable_upto).both(held)
    covered = _numbers(archived.first, archived.last)
    for each in everything.minus(covered):
        if each.first < archived.first <= archived.last:
            detail = "it is older than the archive, and stores still hold it"
        else:
            detail = "the archive job has not taken it yet"
        yield Finding(Kind.WAITING, (ARCHIVE,), each.first, each.last, detail)


def _beyond(facts: SourceFacts, archived: ArchivedCopy) -> Iterator[Finding]:
    """Yield the messages of the archive that were not stable when the stores were asked."""
    first, last = facts.stable_upto + 1, archived.told_upto
    if first > last:
        return
    doubtful = _doubtful(facts)
    if doubtful:
        detail = f"the archive has it; {', '.join(doubtful)} may know that it is stable"
        yield Finding(Kind.UNSEEN, doubtful, first, last, detail)
    else:
        detail = f"the stores know the stream as stable only up to {facts.stable_upto}"
        yield Finding(Kind.BEYOND, (ARCHIVE,), first, last, detail)


def _other_history(facts: SourceFacts, archived: ArchivedCopy) -> Iterator[Finding]:
    at = diverges_at(archived.lineage, facts.lineage)
    if at <= archived.last:
        ours, theirs = archived.lineage.epoch_at(at), facts.lineage.epoch_at(at)
        detail = f"from {at} on it has epoch {ours}, the stores have {theirs}"
        yield Finding(Kind.LINEAGE, (ARCHIVE,), at, archived.last, detail)
