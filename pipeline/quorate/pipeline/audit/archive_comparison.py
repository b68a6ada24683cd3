"""The tasks of an audit that compare an archive with the stores.

A task compares the archive's own digests with those of the stores. Where no store has the same
digest, it compares batches, and then messages. Of messages that stores have let go of, it looks
whether the archive's files have them. Nothing here judges a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from quorate.archive.batches import MarkedBatch
from quorate.archive.reading import Archive
from quorate.pipeline.archive.tasks import Entry
from quorate.pipeline.audit.archive_verdict import comparable
from quorate.pipeline.audit.contents import (
    Batch,
    content_hash,
    divergent,
    merged,
    other_batches,
)
from quorate.pipeline.audit.facts import ARCHIVE, Finding, Kind, SourceFacts
from quorate.pipeline.audit.holdings import Segment, Stretch, planned, stretches
from quorate.pipeline.audit.tasks import (
    BLOCK,
    CLOSE_BLOCK,
    DIGESTS_AT_ONCE,
    Addresses,
    Reader,
    Silent,
    finding_to_json,
    take_contents,
)
from quorate.pipeline.stores.decoding import plain_piece
from quorate.protocol.answers import Piece
from quorate.protocol.digests import Block, digests
from quorate.protocol.errors import ArchiveInvalid, CorruptBatch
from quorate.protocol.framing import BatchHeader, read_contents
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range, RangeSet


def archive_segments(
    sources: Iterable[SourceFacts], *, parts: int, part_messages_min: int, part_messages_max: int
) -> list[tuple[Segment, ...]]:
    """Return what the archive has, as parts of about the same size.

    All stores of a segment hold all of it. A segment that no store holds has none.
    """
    held: dict[SourceName, tuple[Lineage, list[Stretch]]] = {}
    for facts in sources:
        if facts.archived is None:
            continue
        has = comparable(facts, facts.archived)
        by_store = {store: copy.held for store, copy in facts.copies.items()} | {ARCHIVE: has}
        found = stretches(by_store, has.low, has.high) if has else []
        held[facts.name] = (
            facts.lineage,
            [
                Stretch(each.first, each.last, each.holders - {ARCHIVE})
                for each in found
                if ARCHIVE in each.holders
            ],
        )
    return planned(
        held,
        parts=parts,
        part_messages_min=part_messages_min,
        part_messages_max=part_messages_max,
    )


def compare_archive(
    part: Sequence[Segment], *, path: str, addresses: Addresses, thorough: bool
) -> Iterator[Entry]:
    """Compare the segments of a part. Yield the findings, and the counts of each segment.

    thorough: read and check every batch of the archive, too.
    """
    archive = Archive(path)
    for segment in part:
        comparison = _Comparison(archive, Reader(segment, addresses))
        findings = [*comparison.findings(), *(comparison.unreadable() if thorough else ())]
        for finding in merged(findings):
            yield finding_to_json(segment.source, finding)
        yield {
            "source": str(segment.source),
            "archived": segment.last - segment.first + 1,
            "read": comparison.read,
        }


class _Comparison:
    """The comparison of one segment."""

    def __init__(self, archive: Archive, stores: Reader) -> None:
        self._archive = archive
        self._stores = stores
        self._source = stores.segment.source
        self._from_archive = 0

    @property
    def read(self) -> int:
        """Number of messages that were read, at the stores and in the archive."""
        return self._stores.read + self._from_archive

    def findings(self) -> Iterator[Finding]:
        for chunk in self._stores.chunks(DIGESTS_AT_ONCE):
            yield from self._differing(chunk)

    def unreadable(self) -> Iterator[Finding]:
        """Read every batch of the archive, and yield what is not as its source made it."""
        due, last = self._stores.segment.first, self._stores.segment.last
        while due <= last:
            try:
                for piece in self._archive.pieces(self._source, due, last):
                    self._from_archive += piece.last - piece.first + 1
                    due = piece.last + 1
            except (ArchiveInvalid, CorruptBatch) as error:
                end = self._end_of_batch(due, last)
                yield _unreadable(Range(due, end), error)
                due = end + 1

    def _end_of_batch(self, number: int, last: int) -> int:
        try:
            return next(self._archive.marked(self._source, number, last)).last
        except (ArchiveInvalid, CorruptBatch):
            return last

    # Digests.

    def _differing(self, chunk: Range) -> Iterator[Finding]:
        try:
            ours = list(self._archive.marked(self._source, chunk.first, chunk.last))
        except (ArchiveInvalid, CorruptBatch) as error:
            yield from self._in_halves(chunk, error)
            return
        for block in self._other_digests(ours, chunk, BLOCK):
            if isinstance(block, Finding):
                yield block
                continue
            for close in self._other_digests(ours, block, CLOSE_BLOCK):
                yield from [close] if isinstance(close, Finding) else self._batches(ours, close)

    def _in_halves(self, chunk: Range, error: ArchiveInvalid | CorruptBatch) -> Iterator[Finding]:
        """Compare a chunk that the archive cannot read as a whole in parts."""
        if len(chunk) <= CLOSE_BLOCK:
            yield _unreadable(chunk, error)
            return
        middle = chunk.first + len(chunk) // 2
        yield from self._differing(Range(chunk.first, middle - 1))
        yield from self._differing(Range(middle, chunk.last))

    def _other_digests(
        self, ours: Sequence[MarkedBatch], wanted: Range, size: int
    ) -> Iterator[Range | Finding]:
        """Yield the blocks of which no store has the archive's digest, and findings about stores.

        Whether the stores agree with each other is another comparison's matter.
        """
        theirs: dict[str, list[Block]] = {}
        while self._stores.stores:
            try:
                theirs = self._stores.digests(wanted, size)
            except Silent as silent:
                yield self._stores.gone(silent, wanted.first)
                continue
            break
        if not self._stores.stores:
            return
        for at, block in enumerate(digests(ours, wanted, size)):
            if all(of_store[at] != block for of_store in theirs.values()):
                yield Range(block.first, block.last)

    # Batches, and messages.

    def _batches(self, ours: Sequence[MarkedBatch], wanted: Range) -> Iterator[Finding]:
        """Compare the batches of a range with those of one store, or of more if it lacks some."""
        mine = [
            Batch(
                max(each.first, wanted.first),
                min(each.last, wanted.last),
                each.epoch,
                each.checksum,
            )
            for each in ours
            if each.first <= wanted.last and each.last >= wanted.first
        ]
        due = RangeSet([wanted])
        for store in self._stores.stores:
            for each in due:
                theirs: list[Batch] = []
                yield from self._stores.served(store, each, partial(_take_plain, found=theirs))
                served = RangeSet(Range(one.first, one.last) for one in theirs)
                same = {ARCHIVE: mine, store: theirs}
                for other in other_batches(same, each).both(served):
                    yield from self._contents(store, other)
                due = due.minus(served)
            if not due:
                return

    def _contents(self, store: str, wanted: Range) -> Iterator[Finding]:
        if store not in self._stores.stores:
            return
        found: dict[int, bytes] = {}
        take = partial(take_contents, found=found, twice=[], store=store)
        yield from self._stores.served(store, wanted, take)
        try:
            ours = self._hashes(wanted)
        except (ArchiveInvalid, CorruptBatch) as error:
            yield _unreadable(wanted, error)
            return
        yield from divergent({store: found, ARCHIVE: ours})

    def _hashes(self, wanted: Range) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for piece in self._archive.pieces(self._source, wanted.first, wanted.last):
            contents = read_contents(piece.frame, piece.header, piece.first, piece.last)
            for number, content in enumerate(contents, piece.first):
                found[number] = content_hash(*content)
        self._from_archive += len(found)
        return found


def _unreadable(numbers: Range, error: ArchiveInvalid | CorruptBatch) -> Finding:
    return Finding(Kind.UNREADABLE, (ARCHIVE,), numbers.first, numbers.last, str(error))


def _take_plain(frame: bytes, header: BatchHeader, part: Range, *, found: list[Batch]) -> None:
    plain = plain_piece(Piece(frame, header, part.first, part.last)).header
    found.append(Batch(part.first, part.last, plain.epoch, plain.checksum))
