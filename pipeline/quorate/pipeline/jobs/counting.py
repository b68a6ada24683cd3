"""Counts of messages by moment and by size: how a task makes them, reports them, and joins them.

All statistics of a source follow from two tables. One has the messages and bytes of each moment.
The other one has the number of messages of each size. Nothing here knows Spark.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from quorate.pipeline.archive.tasks import Entry
from quorate.pipeline.options import parse_source
from quorate.pipeline.read.ranges import read_part
from quorate.pipeline.rules.planning import Part
from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.client import Stores
from quorate.protocol.identity import SourceName

MOMENTS = pa.schema([("time_us", pa.int64()), ("messages", pa.int64()), ("bytes", pa.int64())])
"""The columns of a table of moments, which are in µs since 1970."""
SIZES = pa.schema([("size", pa.int64()), ("messages", pa.int64())])

_READ = pa.schema([ARROW.field(name) for name in ("timestamp", "payload", "key")])
_ROWS_MAX = 1_000_000
"""Rows that wait until equal moments are joined."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of some messages. Both tables ascend, and have no moment and no size twice."""

    moments: pa.Table
    sizes: pa.Table
    """By bytes of payload and key."""

    @property
    def messages(self) -> int:
        return pc.sum(self.sizes["messages"]).as_py() or 0


NOTHING_COUNTED = Counts(MOMENTS.empty_table(), SIZES.empty_table())


def counted(batches: Iterable[pa.RecordBatch]) -> Counts:
    """Return the counts of rows with the columns timestamp, payload and key."""
    made = NOTHING_COUNTED
    waiting: list[Counts] = []
    rows = 0
    for batch in batches:
        waiting.append(_counted(batch))
        rows += waiting[-1].moments.num_rows + waiting[-1].sizes.num_rows
        if rows > _ROWS_MAX:
            made, waiting, rows = joined([made, *waiting]), [], 0
    return joined([made, *waiting])


def _counted(batch: pa.RecordBatch) -> Counts:
    keys = pc.fill_null(pc.binary_length(batch.column("key")), 0)
    sizes = pc.add(pc.binary_length(batch.column("payload")), keys).cast(pa.int64())
    one = pa.repeat(pa.scalar(1, pa.int64()), len(sizes))
    times = batch.column("timestamp").cast(pa.int64())
    return Counts(
        _summed(pa.Table.from_arrays([times, one, sizes], schema=MOMENTS)),
        _summed(pa.Table.from_arrays([sizes, one], schema=SIZES)),
    )


def joined(counts: Sequence[Counts]) -> Counts:
    """Return the counts of all these messages together."""
    if len(counts) == 1:
        return counts[0]
    return Counts(
        _summed(pa.concat_tables([each.moments for each in counts])),
        _summed(pa.concat_tables([each.sizes for each in counts])),
    )


def _summed(table: pa.Table) -> pa.Table:
    """Return a row for each value of the first column, in ascending order, with the sums."""
    first, *others = table.column_names
    sums = table.group_by(first, use_threads=False).aggregate([(name, "sum") for name in others])
    return (
        sums.select([first, *(f"{name}_sum" for name in others)])
        .rename_columns(table.column_names)
        .sort_by(first)
    )


# Tasks, which run in a worker.


def count_part(part: Part, *, stores: Stores, fail_on_data_loss: bool) -> Iterator[Entry]:
    """Count the messages of a part, and yield an entry for each of its sources."""
    for source, ranges in groupby(part.ranges, attrgetter("source")):
        rows = read_part(
            stores, Part(tuple(ranges), part.number), _READ, fail_on_data_loss=fail_on_data_loss
        )
        yield _to_json(source, counted(rows))


def by_source(entries: Iterable[Entry]) -> dict[SourceName, Counts]:
    """Return the counts that tasks reported, by source."""
    found: dict[SourceName, list[Counts]] = {}
    for entry in entries:
        counts = Counts(_unpacked(entry["moments"], MOMENTS), _unpacked(entry["sizes"], SIZES))
        if counts.messages:
            found.setdefault(parse_source(entry["source"]), []).append(counts)
    return {source: joined(counts) for source, counts in found.items()}


def _to_json(source: SourceName, counts: Counts) -> Entry:
    return {
        "source": str(source),
        "moments": _packed(counts.moments),
        "sizes": _packed(counts.sizes),
    }


def _packed(table: pa.Table) -> str:
    """Return a table as text. Its first column ascends, so its steps take less room."""
    first = table.column_names[0]
    steps = pc.pairwise_diff(table[first].combine_chunks())
    if table.num_rows:
        steps = pc.fill_null(steps, table[first][0])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.set_column(0, table.schema.field(0), steps))
    return base64.b64encode(sink.getvalue()).decode()


def _unpacked(text: str, schema: pa.Schema) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        table = reader.read_all()
    return table.set_column(0, schema.field(0), pc.cumulative_sum(table.column(0)))
