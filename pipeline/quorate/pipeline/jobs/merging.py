"""The messages of many sources, merged by their times. Nothing here knows Spark, or a pace.

Each source is read piece by piece, in the order of its numbers. So the first message is there once
one piece of each source is. While a piece is merged, the next one is fetched. Rows that no later
row can come before are sorted, and handed over as columns.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.pipeline.jobs.replay import NO_PROPERTIES, SLICE_MESSAGES_MAX, Position, Slice
from quorate.pipeline.options import ReadOptions
from quorate.pipeline.read.ranges import read_part, stores_of, wanted_ranges
from quorate.pipeline.rules.planning import Part, SourceRange
from quorate.pipeline.schema import ARROW

MESSAGES_MAX = 20_000
"""Most messages of a piece."""
BYTES_MAX = 64 * 1024 * 1024
"""About the most bytes of one piece of each source, together."""
_FETCHES = 8
"""Pieces that are fetched at the same time."""

Read = Callable[[SourceRange], Iterable[pa.RecordBatch]]


class StoredTable:
    """The messages of stores, and of the archive behind them, that options select."""

    def __init__(self, options: ReadOptions) -> None:
        self._stores = stores_of(options)
        self._options = options

    def slices(self, after: Position | None) -> Generator[Slice, None, None]:
        """Yield the messages behind a position in the order of a replay; None: all of them.

        Raises as quorate.pipeline.read.ranges.wanted_ranges and read_part.
        """
        for messages in merged(wanted_ranges(self._stores, self._options), self._read):
            first = messages.rows_upto(after) if after is not None else 0
            if first < len(messages):
                yield messages.part(first, len(messages))

    def _read(self, piece: SourceRange) -> Iterator[pa.RecordBatch]:
        part = Part((piece,), piece.source.session_id)
        fails = self._options.fail_on_data_loss
        return read_part(self._stores, part, ARROW, fail_on_data_loss=fails)


def merged(ranges: Sequence[SourceRange], read: Read) -> Iterator[Slice]:
    """Yield the messages of ranges by time, topic, source and sequence number.

    A message whose source had put its clock back has the place of the message before it.

    ranges: those of one source follow on each other, in the order of their numbers.
    """
    by_source = [list(each) for _, each in groupby(ranges, attrgetter("source"))]
    pool = ThreadPoolExecutor(_FETCHES, "quorate-replay")
    try:
        sources = [
            _Source(pieces(each, BYTES_MAX / len(by_source)), read, pool) for each in by_source
        ]
        names = [(each[0].source.topic, f"{each[0].source.session_id:#x}") for each in by_source]
        # Equal times are in the order of the names, so the merge goes by places in that order.
        order = sorted(range(len(names)), key=names.__getitem__)
        yield from _Merge([sources[at] for at in order], [names[at] for at in order]).slices()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def pieces(ranges: Iterable[SourceRange], bytes_max: float) -> Iterator[SourceRange]:
    """Yield ranges cut into pieces, of so many bytes at most if the stores know their size."""
    for each in ranges:
        fitting = bytes_max / each.message_bytes if each.message_bytes else MESSAGES_MAX
        step = max(1, min(MESSAGES_MAX, int(fitting)))
        for first in range(each.first, each.until, step):
            yield replace(each, first=first, until=min(each.until, first + step))


class _Source:
    """The rows of one source. The piece behind the one that is given is fetched meanwhile."""

    def __init__(self, wanted: Iterator[SourceRange], read: Read, pool: ThreadPoolExecutor) -> None:
        self._wanted = wanted
        self._read = read
        self._pool = pool
        self._ahead: deque[Future[list[pa.RecordBatch]]] = deque()
        self._fetch_next()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self._ahead:
            batches = self._ahead.popleft().result()
            self._fetch_next()
            yield from batches

    def _fetch_next(self) -> None:
        if (piece := next(self._wanted, None)) is not None:
            self._ahead.append(self._pool.submit(self._fetched, piece))

    def _fetched(self, piece: SourceRange) -> list[pa.RecordBatch]:
        return list(self._read(piece))


@dataclass(slots=True)
class _Head:
    """The rows of one source that come next, and the times of their positions, which ascend."""

    rows: pa.RecordBatch
    times: memoryview
    at: int = 0
    """The first row that was not given."""


class _Merge:
    """The merge of sources. A source stands for its place in the order of the names."""

    def __init__(self, sources: Sequence[_Source], names: Sequence[tuple[str, str]]) -> None:
        self._topics = [topic for topic, _ in names]
        self._names = [name for _, name in names]
        self._batches = [_with_places(each) for each in sources]
        self._heads: dict[int, _Head] = {}
        self._firsts: list[tuple[int, int]] = []
        """The time of the next row of each source, and the source, as a heap."""
        self._lasts: list[tuple[int, int]] = []
        """The time of the last row of each head, and the source, as a heap."""

    def slices(self) -> Iterator[Slice]:
        for source in range(len(self._batches)):
            self._load(source)
        while self._lasts:
            bound = heapq.heappop(self._lasts)
            yield from self._slices(self._given(bound))
            self._load(bound[1])

    def _load(self, source: int) -> None:
        """Make the next rows of a source its head, if it has any."""
        rows = next(self._batches[source], None)
        if rows is None:
            self._heads.pop(source, None)
            return
        times = memoryview(rows.column("place").buffers()[1]).cast("q")
        self._heads[source] = _Head(rows, times)
        heapq.heappush(self._firsts, (times[0], source))
        heapq.heappush(self._lasts, (times[len(rows) - 1], source))

    def _given(self, bound: tuple[int, int]) -> list[tuple[int, pa.RecordBatch]]:
        """Return the rows of each source up to a bound. No row that comes later is before it."""
        given: list[tuple[int, pa.RecordBatch]] = []
        while self._firsts and self._firsts[0] <= bound:
            _, source = heapq.heappop(self._firsts)
            head = self._heads[source]
            bisect = bisect_right if source <= bound[1] else bisect_left
            end = bisect(head.times, bound[0], head.at, len(head.rows))
            given.append((source, head.rows.slice(head.at, end - head.at)))
            head.at = end
            if end < len(head.rows):
                heapq.heappush(self._firsts, (head.times[end], source))
        return sorted(given, key=lambda each: each[0])

    def _slices(self, given: list[tuple[int, pa.RecordBatch]]) -> Iterator[Slice]:
        if len(given) == 1:
            [(source, rows)] = given
            for at in range(0, len(rows), SLICE_MESSAGES_MAX):
                part = rows.slice(at, SLICE_MESSAGES_MAX)
                yield self._slice(part, [source] * len(part))
            return
        table = pa.Table.from_batches([rows for _, rows in given]).combine_chunks()
        sources = pa.concat_arrays(
            [pa.repeat(pa.scalar(source, pa.int32()), len(rows)) for source, rows in given]
        )
        # The sort is stable: equal times stay in the order of the sources and of their numbers.
        order = pc.array_sort_indices(table["place"].combine_chunks())
        for at in range(0, len(order), SLICE_MESSAGES_MAX):
            part = order.slice(at, SLICE_MESSAGES_MAX)
            [rows] = table.take(part).combine_chunks().to_batches()
            yield self._slice(rows, sources.take(part).to_pylist())

    def _slice(self, rows: pa.RecordBatch, sources: Sequence[int]) -> Slice:
        return Slice(
            rows.column("place").to_pylist(),
            list(map(self._topics.__getitem__, sources)),
            list(map(self._names.__getitem__, sources)),
            rows.column("sequence").to_pylist(),
            rows.column("epoch").to_pylist(),
            rows.column("payload").to_pylist(),
            _values(rows.column("key")),
            _properties(rows.column("properties")),
            rows.column("deleted").to_pylist(),
            _values(rows.column("expires").cast(pa.int64())),
            rows.column("timestamp").cast(pa.int64()).to_pylist(),
        )


_KEPT = ("sequence", "epoch", "payload", "key", "properties", "deleted", "expires", "timestamp")


def _with_places(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one source with the column `place`, the times of their positions."""
    latest_us = pa.scalar(-(2**63), pa.int64())
    for batch in batches:
        if not len(batch):
            continue
        times = batch.column("timestamp").cast(pa.int64())
        places = pc.cumulative_max(times, start=latest_us)
        latest_us = places[-1]
        columns = [places, *(batch.column(name) for name in _KEPT)]
        yield pa.RecordBatch.from_arrays(columns, ["place", *_KEPT])


def _values(column: pa.Array) -> Sequence[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    values: list[Any] = column.to_pylist()
    return values


def _properties(column: pa.Array) -> Sequence[Any]:
    if column.null_count == len(column):
        return list(repeat(NO_PROPERTIES, len(column)))
    return [dict(each) if each else NO_PROPERTIES for each in column.to_pylist()]
