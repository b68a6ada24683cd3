"""Reading as a table: from the stores' answers to partitions, and from a partition to rows.

partitions() is called once, when Spark plans; read() in the workers, perhaps several times for one
partition, and gives the same each time.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.options import Position, PositionKind, Positions, ReadOptions
from quorate.pipeline.read.filters import (
    Restriction,
    restrict,
)
from quorate.pipeline.stores.client import (
    Catalogue,
    KnownSource,
    Stores,
)
from quorate.pipeline.stores.decoding import record_batches
from quorate.pipeline.stores.planning import (
    Part,
    SourceRange,
    plan,
)
from quorate.protocol.errors import InvalidArgument, UnknownTopic
from quorate.protocol.identity import SourceName

_log = logging.getLogger("quorate.pipeline")

_NAMED = 5
"""So many sources are named as examples."""


@dataclass
class StoresPartition(InputPartition):
    """A part that is read from the stores."""

    part: Part
    others: Mapping[SourceName, tuple[str, ...]]
    """Where its messages are besides in the stores that the options name."""

    def __init__(self, part: Part, others: Mapping[SourceName, tuple[str, ...]]) -> None:
        super().__init__(None)
        self.part = part
        self.others = others


class PartReader:
    """What reading a table and reading a stream have in common."""

    def __init__(self, options: ReadOptions, columns: pa.Schema) -> None:
        self._options = options
        self._columns = columns
        self._stores = stores_of(options)

    def planned(self, ranges: Iterable[SourceRange]) -> list[StoresPartition]:
        """The partitions in which these ranges are read."""
        options, others = self._options, self._stores.others
        parts = plan(
            ranges,
            parts=options.parts_min or os.cpu_count() or 1,
            part_messages_max=options.part_messages_max,
        )
        return [
            StoresPartition(
                part,
                {each.source: others[each.source] for each in part.ranges if each.source in others},
            )
            for part in parts
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one; on a copy of this object, which may know nothing but its options."""
        assert isinstance(partition, StoresPartition), partition
        return read_part(
            self._stores.knowing(partition.others),
            partition.part,
            self._columns,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )


def read_part(
    stores: Stores, part: Part, columns: pa.Schema, *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a part."""
    for archived, ranges in groupby(part.ranges, lambda each: each.archived):
        if not archived:
            pieces = _pieces(stores, ranges, part.number, fail_on_data_loss)
            yield from record_batches(pieces, columns)
            continue
        for each in ranges:
            yield from stores.archived_rows(each, columns)


def _pieces(
    stores: Stores, ranges: Iterable[SourceRange], turn: int, fail_on_data_loss: bool
) -> Iterator[Piece]:
    for each in ranges:
        first = each.first
        while first < each.until:
            try:
                for piece in stores.fetch(each.source, each.lineage, first, each.until - 1, turn):
                    yield piece
                    first = piece.last + 1
            except MessagesGone as gone:
                if fail_on_data_loss:
                    raise
                _log.warning("%s", gone)
                first = gone.last + 1


def stores_of(options: ReadOptions) -> Stores:
    """Where to read: the stores, and the archive behind them if there is one."""
    if options.archive:
        # Parquet is not for everybody to wait for.
        from quorate.pipeline.archive.falling_through import StoresAndArchive

        return StoresAndArchive(options.stores, options.archive)
    return Stores(options.stores)


def sources_of(catalogue: Catalogue, options: ReadOptions) -> dict[SourceName, KnownSource]:
    """Those that the options select."""
    return {name: known for name, known in catalogue.sources.items() if options.selects(name.topic)}


class BatchReader(PartReader, DataSourceReader):
    """Reads what is stable when it is planned."""

    def __init__(self, options: ReadOptions, columns: pa.Schema) -> None:
        super().__init__(options, columns)
        self._restriction = Restriction()

    def partitions(self) -> list[StoresPartition]:
        options = self._options
        catalogue = self._stores.sources()
        check_topics(options, catalogue)
        sources = sources_of(catalogue, options)
        check_named("startingOffsets", options.start, sources)
        check_named("endingOffsets", options.end, sources)
        # Spark makes a partition of nothing of an empty list, and has it read.
        return self.planned(self._ranges(sources)) or [StoresPartition(Part((), 0), {})]

    def _ranges(self, sources: Mapping[SourceName, KnownSource]) -> Iterator[SourceRange]:
        restriction = self._restriction
        for name, known in sources.items():
            if not restriction.selects(name):
                continue
            starts = [self._options.start.of(name), *_at_time(restriction.since_ns)]
            ends = [self._options.end.of(name), *_at_time(restriction.before_ns)]
            first = max(begins_at(self._stores, known, each) for each in starts)
            until = min(ends_at(self._stores, known, each) for each in ends)
            first, until = max(first, restriction.first), min(until, restriction.until)
            if first < until:
                wanted = SourceRange(name, first, until, known.lineage)
                yield from self._stores.parted(known, wanted)


class FilteringBatchReader(BatchReader):
    """The same, but it has Spark hand over the filters of the query.

    Spark keeps what they leave with the DataFrame that was loaded, and uses it for whatever else is
    made of that one, too: so only who asks for it gets it.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        self._restriction, rest = restrict(filters)
        return rest


def batch_reader(options: ReadOptions, columns: pa.Schema) -> BatchReader:
    """The reader that the options ask for."""
    kind = FilteringBatchReader if options.push_filters else BatchReader
    return kind(options, columns)


def _at_time(time_ns: int | None) -> list[Position]:
    return [] if time_ns is None else [Position(PositionKind.TIME, time_ns)]


def begins_at(stores: Stores, known: KnownSource, position: Position) -> int:
    """The first sequence number from a position on; one past all that is stable at the most."""
    if position.kind is PositionKind.TIME:
        found = stores.first_since(known.name, position.value)
        return min(max(found, known.earliest), known.until)
    return _number_at(known, position)


def ends_at(stores: Stores, known: KnownSource, position: Position) -> int:
    """One past the last sequence number before a position, as far as it is stable."""
    if position.kind is not PositionKind.TIME:
        return _number_at(known, position)
    found = stores.first_since(known.name, position.value)
    # Where those that answered lack messages, these may be of before that time: reading them
    # shall fail rather than leave them out.
    certain = found in known.held or found <= known.held.low
    return min(found, known.until) if certain else known.until


def _number_at(known: KnownSource, position: Position) -> int:
    match position.kind:
        case PositionKind.EARLIEST:
            return known.earliest
        case PositionKind.SEQUENCE:
            return min(position.value, known.until)
    return known.until


def unmatched(options: ReadOptions, topics: Collection[str]) -> list[str]:
    """What the options ask for and there is none of: names, or the pattern."""
    if options.topics:
        return sorted(options.topics.difference(topics))
    return [] if any(map(options.selects, topics)) else [options.topics_pattern or "any topic"]


def check_topics(options: ReadOptions, catalogue: Catalogue) -> None:
    """Raise UnknownTopic if there is none of a name that the options give."""
    known = sorted({name.topic for name in catalogue.sources})
    for topic in unmatched(options, known) if options.topics else ():
        raise UnknownTopic(topic, ", ".join(known))


def check_named(
    option: str, positions: Positions, sources: Mapping[SourceName, KnownSource]
) -> None:
    """Raise InvalidArgument if an option has a position for a source that is not read."""
    for name in sorted(positions.by_source.keys() - sources.keys()):
        known = list(map(str, sources))
        close = difflib.get_close_matches(str(name), known) or known[:_NAMED]
        raise InvalidArgument(
            f"option {option}",
            f"{name} is not among the sources that are to be read, which are {len(known):,}: "
            f"{', '.join(close)}{', …' if len(close) < len(known) else ''}; correct its name, or "
            "leave it out",
        )
