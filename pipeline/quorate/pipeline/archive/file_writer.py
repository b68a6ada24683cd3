"""The writer of an archive's Parquet files: one file for each topic and day, of many sources.

A file belongs to the archive once a commit names it. One that no commit names is removed by a
vacuum. How a file is read is in quorate.archive.files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from quorate.archive.location import Location
from quorate.archive.rules.data_file import DataFile, session_text
from quorate.archive.rules.layout import day_of, directory_of
from quorate.pipeline.archive.rows import REPEATED, RISING, SCHEMA, rows_of
from quorate.protocol.answers import Piece
from quorate.protocol.framing import greatest_time
from quorate.protocol.ranges import Range

ROW_GROUP_ROWS = 131_072
_ROW_GROUP_BYTES = 32 * 1024 * 1024
WAITING_BYTES = 128 * 1024 * 1024
"""Bytes of batches that wait for their row group, in all open files."""
OPEN_MAX = 64
"""Most files that are open. The one that waits longest is closed."""


class FileWriter:
    """A file during its writing, with whole batches of one topic and one day."""

    def __init__(self, location: Location, topic: str, day: str) -> None:
        self._location = location
        self._topic = topic
        self._day = day
        self._path = f"{directory_of(topic, day)}/{uuid.uuid4().hex}.parquet"
        self._open = ExitStack()
        self._sink = self._open.enter_context(location.writing(self._path))
        self._writer = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression="zstd",
            write_page_checksum=True,
            compression_level=1,
            use_dictionary=list(REPEATED),
            column_encoding=dict.fromkeys(RISING, "DELTA_BINARY_PACKED"),
            write_statistics=["source", "sequence", "timestamp", "timestamp_ns", "epoch"],
            store_schema=False,
        )
        self._sessions: set[str] = set()
        self._first = self._last = self._count = 0
        self._times: tuple[int, int] | None = None
        self._waiting: list[Piece] = []
        self._waiting_rows = 0
        self.waiting_bytes = 0
        """Bytes of batches that wait for their row group."""
        self.bytes = 0
        """Bytes of all batches so far, as the source sent them."""

    def add(self, piece: Piece) -> None:
        """Add a batch, which must be whole. Raises CorruptBatch."""
        header = piece.header
        self._sessions.add(session_text(header.source.session_id))
        self._first = min(self._first, header.first) if self._count else header.first
        self._last = max(self._last, header.last)
        self._count += header.last - header.first + 1
        times = (header.timestamp_ns, greatest_time(piece.frame, header))
        if self._times is not None:
            times = (min(times[0], self._times[0]), max(times[1], self._times[1]))
        self._times = times
        self._waiting.append(piece)
        self._waiting_rows += header.last - header.first + 1
        self.waiting_bytes += len(piece.frame)
        self.bytes += len(piece.frame)
        if self._waiting_rows >= ROW_GROUP_ROWS or self.waiting_bytes >= _ROW_GROUP_BYTES:
            self.write_group()

    def write_group(self) -> None:
        """Write what waits as a row group."""
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(list(rows_of(self._waiting))))
            self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0

    def finish(self) -> DataFile:
        """Write the rest, and return the file once it is on the disk."""
        self.write_group()
        self._writer.close()
        size = self._sink.tell()
        self._open.close()
        return DataFile(
            self._path,
            self._topic,
            self._day,
            size,
            self._count,
            (min(self._sessions), max(self._sessions)),
            Range(self._first, self._last),
            self._times,
        )

    def abandon(self) -> None:
        """Close and delete the file."""
        self._writer.close()
        self._open.close()
        self._location.remove(self._path)


class DayFiles:
    """The files that a task writes at the same time: one for each day of a topic."""

    def __init__(self, location: Location, bytes_max: int) -> None:
        """bytes_max: a file with so many bytes is closed."""
        self._location = location
        self._bytes_max = bytes_max
        self._open: dict[tuple[str, str], FileWriter] = {}

    def add(self, piece: Piece) -> Iterator[DataFile]:
        """Add a whole batch to the file of its day. Yield the files that are closed for it.

        Raises CorruptBatch and OSError.
        """
        key = (piece.header.source.topic, day_of(piece.header.timestamp_ns))
        writer = self._open.get(key)
        if writer is not None and writer.bytes >= self._bytes_max:
            yield self._closed(key)
        if key not in self._open and len(self._open) >= OPEN_MAX:
            yield self._closed(next(iter(self._open)))
        writer = self._open.pop(key, None) or FileWriter(self._location, *key)
        self._open[key] = writer  # at the end: the first one waits longest
        writer.add(piece)
        if sum(each.waiting_bytes for each in self._open.values()) > WAITING_BYTES:
            max(self._open.values(), key=lambda each: each.waiting_bytes).write_group()

    def _closed(self, key: tuple[str, str]) -> DataFile:
        file = self._open[key].finish()
        del self._open[key]
        return file

    def finish(self) -> Iterator[DataFile]:
        """Close all files. Yield them."""
        while self._open:
            yield self._closed(next(iter(self._open)))

    def abandon(self) -> None:
        """Close and delete the files that are open."""
        while self._open:
            self._open.popitem()[1].abandon()
