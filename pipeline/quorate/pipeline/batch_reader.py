"""Reading as a table: from the stores' answers to partitions, and from a partition to rows.

partitions() is called once, when Spark plans; read() in the workers, perhaps several times for one
partition, and gives the same each time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from quorate.pipeline.decoding import record_batches
from quorate.pipeline.fetching import Piece
from quorate.pipeline.options import Position, PositionKind, ReadOptions
from quorate.pipeline.planning import Part, SourceRange, plan
from quorate.pipeline.stores import Catalogue, KnownSource, Stores
from quorate.protocol.errors import MessagesGone, UnknownTopic
from quorate.protocol.identity import SourceName

_log = logging.getLogger("quorate.pipeline")


@dataclass
class StoresPartition(InputPartition):
    """A part that is read from the stores."""

    part: Part

    def __init__(self, part: Part) -> None:
        super().__init__(None)
        self.part = part


def read_part(
    stores: Stores, part: Part, columns: pa.Schema, *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a part."""
    return record_batches(_pieces(stores, part, fail_on_data_loss), columns)


def _pieces(stores: Stores, part: Part, fail_on_data_loss: bool) -> Iterator[Piece]:
    for each in part.ranges:
        first = each.first
        while first < each.until:
            try:
                for piece in stores.fetch(
                    each.source, each.lineage, first, each.until - 1, part.number
                ):
                    yield piece
                    first = piece.last + 1
            except MessagesGone as gone:
                if fail_on_data_loss:
                    raise
                _log.warning("%s", gone)
                first = gone.last + 1


def sources_of(catalogue: Catalogue, options: ReadOptions) -> dict[SourceName, KnownSource]:
    """Those that the options select."""
    return {name: known for name, known in catalogue.sources.items() if options.selects(name.topic)}


def default_parts(options: ReadOptions) -> int:
    """How many partitions to make if there is enough to read."""
    return options.parts_min or os.cpu_count() or 1


class BatchReader(DataSourceReader):
    """Reads what is stable when it is planned."""

    def __init__(self, options: ReadOptions, columns: pa.Schema) -> None:
        self._options = options
        self._columns = columns
        self._stores = Stores(options.stores)

    def partitions(self) -> list[InputPartition]:
        options = self._options
        catalogue = self._stores.sources()
        sources = sources_of(catalogue, options)
        _check_topics(options, catalogue)
        ranges = list(self._ranges(sources))
        parts = plan(
            ranges,
            parts=default_parts(options),
            part_messages_max=options.part_messages_max,
        )
        return [StoresPartition(part) for part in parts] or [StoresPartition(Part((), 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StoresPartition), partition
        return read_part(
            self._stores,
            partition.part,
            self._columns,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )

    def _ranges(self, sources: Mapping[SourceName, KnownSource]) -> Iterator[SourceRange]:
        for name, known in sources.items():
            first = self._resolved(known, self._options.start.of(name))
            until = self._resolved(known, self._options.end.of(name))
            if first < until:
                yield SourceRange(name, first, until, known.lineage)

    def _resolved(self, known: KnownSource, position: Position) -> int:
        """The sequence number at a position; one past all that is stable at the most."""
        until = known.stable_upto + 1
        match position.kind:
            case PositionKind.EARLIEST:
                return 0
            case PositionKind.LATEST:
                return until
            case PositionKind.SEQUENCE:
                return min(position.value, until)
            case PositionKind.TIME:
                raise NotImplementedError


def _check_topics(options: ReadOptions, catalogue: Catalogue) -> None:
    known = {name.topic for name in catalogue.sources}
    for topic in sorted(options.topics - known):
        raise UnknownTopic(topic, ", ".join(sorted(known)))
