"""The messages of many sources, merged by their times. Nothing here knows Spark, or a pace.

Each source is read piece by piece, in the order of its numbers. So the first message is there once
one piece of each source is. While a piece is merged, the next one is fetched.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa

from quorate.pipeline.jobs.replay import Position, Replayed, as_time
from quorate.pipeline.options import ReadOptions
from quorate.pipeline.read.ranges import read_part, stores_of, wanted_ranges
from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.planning import Part, SourceRange

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

    def messages(self, after: Position | None) -> Generator[Replayed, None, None]:
        """Yield the messages behind a position in the order of a replay; None: all of them.

        Raises as quorate.pipeline.read.ranges.wanted_ranges and read_part.
        """
        for message in merged(wanted_ranges(self._stores, self._options), self._read):
            if after is None or message.position > after:
                yield message

    def _read(self, piece: SourceRange) -> Iterator[pa.RecordBatch]:
        part = Part((piece,), piece.source.session_id)
        fails = self._options.fail_on_data_loss
        return read_part(self._stores, part, ARROW, fail_on_data_loss=fails)


def merged(ranges: Sequence[SourceRange], read: Read) -> Iterator[Replayed]:
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
        yield from heapq.merge(*map(_messages, sources), key=attrgetter("position"))
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


def _messages(rows: Iterable[pa.RecordBatch]) -> Iterator[Replayed]:
    """Yield the rows of one source as messages. Their positions ascend."""
    latest_us = -(2**63)
    for batch in rows:
        for time_us, topic, source, sequence, *rest in zip(*_columns(batch), strict=True):
            latest_us = max(latest_us, time_us)
            epoch, payload, key, properties, deleted, expires_us = rest
            yield Replayed(
                Position(latest_us, topic, source, sequence),
                epoch,
                payload,
                key,
                dict(properties or ()),
                deleted,
                None if expires_us is None else as_time(expires_us),
                time_us,
            )


_TIMES = ("timestamp", "expires")
_NAMES = (
    *("timestamp", "topic", "source", "sequence", "epoch"),
    *("payload", "key", "properties", "deleted", "expires"),
)


def _columns(batch: pa.RecordBatch) -> list[Sequence[Any]]:
    return [_values(batch.column(name), is_time=name in _TIMES) for name in _NAMES]


def _values(column: pa.Array, *, is_time: bool) -> Sequence[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    values: list[Any] = (column.cast(pa.int64()) if is_time else column).to_pylist()
    return values
