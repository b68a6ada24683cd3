"""Stores with an archive behind them: a reader sees one stream, whichever of the two has a message.

Messages that the stores hold are read from them, and released ones from the archive. Both are asked
for adjacent ranges and check them, so at a seam no number is left out and none comes twice. How an
archive is read is in quorate.archive.reading.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from quorate.archive.reading import Archive
from quorate.archive.rules.source import ArchivedSource
from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.planning import SourceRange
from quorate.pipeline.stores.client import Catalogue, Stores
from quorate.pipeline.timeouts import TIMEOUTS, Timeouts
from quorate.protocol.answers import Piece
from quorate.protocol.errors import ArchiveDiffers, MissingMessages, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.patterns import topic_pattern
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import membership_to_wire


class StoresAndArchive(Stores):
    """The stores of a group, with the archive of their messages behind them."""

    def __init__(
        self,
        addresses: Sequence[str],
        path: str,
        topic_pattern: str = "",
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        """Raise InvalidArgument if there is no store, or if the path is not one."""
        super().__init__(addresses, topic_pattern, timeouts)
        self._path = path
        self.archive = Archive(path)

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        del state["archive"]
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.archive = Archive(self._path)

    def sources_within(self, grace: float) -> Catalogue:
        """Return the sources of the stores and of the archive.

        Raises as Stores.sources_within, and ArchiveDiffers, ArchiveInvalid, ArchiveNewer,
        ArchiveUnusable.
        """
        self.archive.refresh()
        archived = self.archive.sources
        catalogue = super().sources_within(grace)
        sources = dict(catalogue.sources)
        for name, source in archived.items():
            if self.topic_pattern and not topic_pattern(self.topic_pattern).matches(name.topic):
                continue
            known = joined(sources.get(name), source, self._path)
            there = known.held.union(self.archive.has(name))
            gone = there.holes(0, known.retained_from - 1)
            # A message that the archive has does not count as released.
            sources[name] = replace(known, retained_from=gone[-1].last + 1 if gone else 0)
        return replace(catalogue, sources={name: sources[name] for name in sorted(sources)})

    def parted(self, known: KnownSource, wanted: SourceRange) -> Iterator[SourceRange]:
        """Split a range into parts that are read from the stores, and parts from the archive."""
        numbers = RangeSet([Range(wanted.first, wanted.until - 1)])
        archived = numbers.minus(known.held).both(self.archive.has(wanted.source))
        for part in numbers.minus(archived):
            yield replace(wanted, first=part.first, until=part.last + 1)
        for part in archived:
            yield replace(wanted, first=part.first, until=part.last + 1, archived=True)

    def archived_rows(self, wanted: SourceRange, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range that the archive has. Raises as Archive.record_batches."""
        return self.archive.record_batches(wanted.source, wanted.first, wanted.until - 1, columns)

    def first_since(self, source: SourceName, time_ns: int) -> int:
        archived = self.archive.first_since(source, time_ns)
        try:
            found = super().first_since(source, time_ns)
        except QuorateError:
            if source not in self.archive.sources:
                raise
            found = self.archive.sources[source].last + 1
        return found if archived is None else min(archived, found)

    def message_bytes(self, source: SourceName, lineage: Lineage, first: int) -> float:
        try:
            return super().message_bytes(source, lineage, first)
        except (MessagesGone, MissingMessages):
            for piece in self.fetch(source, lineage, first, first):
                header = piece.header
                return (len(piece.frame) - header.body_at) / (header.last - header.first + 1)
            raise

    def fetch(
        self, source: SourceName, lineage: Lineage, first: int, last: int, turn: int = 0
    ) -> Generator[Piece, None, None]:
        """Yield the messages [first, last], those that no store has any longer from the archive.

        Raises as Stores.fetch if neither has a message, and as Archive.pieces.
        """
        while first <= last:
            try:
                for piece in super().fetch(source, lineage, first, last, turn):
                    yield piece
                    first = piece.last + 1
                return
            except (MessagesGone, MissingMessages):
                # The messages may have been archived since this read was planned.
                self.archive.refresh()
                upto = min(self.archive.has(source).contiguous_upto(first), last)
                if upto < first:
                    raise
                for piece in self.archive.pieces(source, first, upto):
                    yield piece
                    first = piece.last + 1


def joined(known: KnownSource | None, archived: ArchivedSource, path: str) -> KnownSource:
    """Return what stores and archive together know of a source. Raises ArchiveDiffers."""
    if known is None:
        return _archived_only(archived)
    parts_at = diverges_at(known.lineage, archived.lineage)
    if parts_at <= min(known.stable_upto, archived.last):
        theirs, ours = known.lineage.epoch_at(parts_at), archived.lineage.epoch_at(parts_at)
        detail = f"the stores have epoch {theirs}, the archive {ours}"
        raise ArchiveDiffers(str(archived.name), parts_at, path, detail)
    if known.stable_upto >= archived.last:
        return known
    # The stores were wiped, or the only ones that answer were away before.
    held = known.held.minus([Range(known.stable_upto + 1, archived.last)])
    return replace(
        known,
        lineage=archived.lineage,
        stable_upto=archived.last,
        held=held,
        high=max(known.high, archived.last),
    )


def _archived_only(archived: ArchivedSource) -> KnownSource:
    return KnownSource(
        name=archived.name,
        lineage=archived.lineage,
        stable_upto=archived.last,
        held=RangeSet(),
        high=archived.last,
        retained_from=archived.first,
        information=archived.information,
        live=False,
        stores=(),
        membership=membership_to_wire(archived.membership),
        promised_epoch=archived.promised_epoch,
        reg_id=archived.reg_id,
        losses=archived.losses,
    )
