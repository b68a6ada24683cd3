"""Reading as a table: the stores' answers become partitions, and a partition becomes rows.

Spark calls partitions() once, when it plans. Workers call read(), perhaps several times for one
partition, and get the same rows each time. How a stream moves on is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from quorate.pipeline.options import ReadOptions
from quorate.pipeline.read.ranges import read_part, stores_of, wanted_ranges
from quorate.pipeline.rules.planning import (
    Part,
    SourceRange,
    parts_for,
    plan,
)
from quorate.protocol.identity import SourceName


@dataclass
class StoresPartition(InputPartition):
    """A part that is read from the stores."""

    part: Part
    others: Mapping[SourceName, tuple[str, ...]]
    """By source, the stores that have its messages and that the options do not name."""

    def __init__(self, part: Part, others: Mapping[SourceName, tuple[str, ...]]) -> None:
        super().__init__(None)
        self.part = part
        self.others = others


class PartReader:
    """The part that reading a table and reading a stream share."""

    def __init__(self, options: ReadOptions, columns: pa.Schema) -> None:
        self._options = options
        self._columns = columns
        self._stores = stores_of(options)

    def planned(self, ranges: Iterable[SourceRange]) -> list[StoresPartition]:
        """Return the partitions in which Spark reads these ranges."""
        options, others, wanted = self._options, self._stores.others, list(ranges)
        parts = plan(
            wanted,
            parts=parts_for(wanted, options.parts_min),
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
        """Yield the rows of a partition.

        A worker calls this on a copy that knows only its options.
        """
        assert isinstance(partition, StoresPartition), partition
        return read_part(
            self._stores.knowing(partition.others),
            partition.part,
            self._columns,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )


class BatchReader(PartReader, DataSourceReader):
    """Reads the messages that are stable when Spark plans."""

    def partitions(self) -> list[StoresPartition]:
        # Of an empty list Spark would make a partition without a part, and read it.
        return self.planned(wanted_ranges(self._stores, self._options)) or [
            StoresPartition(Part((), 0), {})
        ]
