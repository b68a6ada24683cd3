"""The writer of an archive's Parquet files: a file is written whole or not at all.

A file is written under a temporary name, and gets its own name once all of it is on the disk. The
name tells its content. How a file is read is in quorate.archive.files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from quorate.archive.layout import WRITING, day_of, directory_of, file_of
from quorate.archive.manifest import ArchivedFile, BatchMark
from quorate.disk.files import put_in_place
from quorate.pipeline.archive.rows import REPEATED, RISING, SCHEMA, rows_of, whole
from quorate.protocol.answers import Piece
from quorate.protocol.errors import QuorateError
from quorate.protocol.framing import BatchHeader, greatest_time
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term

ROW_GROUP_ROWS = 131_072
_ROW_GROUP_BYTES = 32 * 1024 * 1024


class _Checked:
    """A file that is written once from its beginning, with the checksum of its bytes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.checksum = 0
        self.bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write(view)
        self.checksum = google_crc32c.extend(self.checksum, bytes(view))
        self.bytes += len(view)
        return len(view)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Do nothing, because pyarrow closes the file before it is synced; see `finish`."""

    def finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        self._file.close()


class FileWriter:
    """A file during its writing, with consecutive batches of one source and one day."""

    def __init__(self, archive: Path, source: SourceName, first_of: BatchHeader) -> None:
        """first_of: the header of the first batch."""
        self.day = day_of(first_of.timestamp_ns)
        self._archive = archive
        self._source = source
        self._first = self._next = first_of.first
        self._first_time_ns = self._last_time_ns = first_of.timestamp_ns
        self._terms: list[Term] = []
        self._batches = 0
        self._mark = BatchMark(first_of.first, first_of.checksum)
        directory = archive / directory_of(source.topic, self.day)
        directory.mkdir(parents=True, exist_ok=True)
        self._temporary = directory / f"{WRITING}{uuid.uuid4().hex}"
        self._sink = _Checked(self._temporary)
        self._writer = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression="zstd",
            write_page_checksum=True,
            compression_level=1,
            use_dictionary=list(REPEATED),
            column_encoding=dict.fromkeys(RISING, "DELTA_BINARY_PACKED"),
            write_statistics=["sequence", "timestamp", "epoch"],
            store_schema=False,
        )
        self._waiting: list[Piece] = []
        self._waiting_rows = self._waiting_bytes = 0
        self.bytes = 0
        """Bytes of all batches so far, as the source sent them."""

    @property
    def next(self) -> int:
        """One past the last number in the file."""
        return self._next

    def add(self, piece: Piece) -> None:
        """Add the next batch, which must be whole. Raises CorruptBatch."""
        header = piece.header
        assert header.first == self._next, (header.first, self._next)
        self._next = header.last + 1
        self._batches += 1
        self._mark = BatchMark(header.first, header.checksum)
        self._first_time_ns = min(self._first_time_ns, header.timestamp_ns)
        self._last_time_ns = max(self._last_time_ns, greatest_time(piece.frame, header))
        if not self._terms or self._terms[-1].epoch != header.epoch:
            self._terms.append(Term(header.epoch, header.first))
        self._waiting.append(piece)
        self._waiting_rows += header.last - header.first + 1
        self._waiting_bytes += len(piece.frame)
        self.bytes += len(piece.frame)
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(list(rows_of(self._waiting))))
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def finish(self) -> ArchivedFile:
        """Close the file, sync it and give it its name."""
        self._write_group()
        self._writer.close()
        self._sink.finish()
        last = self._next - 1
        path = file_of(self._source, self.day, self._first, last, self._sink.checksum)
        put_in_place(self._temporary, self._archive / path)
        return ArchivedFile(
            path,
            self._source,
            self._first,
            last,
            Lineage(tuple(self._terms)),
            self._batches,
            self._sink.bytes,
            self._first_time_ns,
            self._last_time_ns,
            self._sink.checksum,
            self._mark,
        )

    def abandon(self) -> None:
        """Close and delete the file."""
        self._writer.close()
        self._sink.abandon()
        self._temporary.unlink(missing_ok=True)


def write_pieces(
    archive: Path, source: SourceName, pieces: Iterable[Piece], bytes_max: int
) -> Iterator[ArchivedFile]:
    """Write consecutive pieces of a source into files. Yield each file once it is in place.

    bytes_max: a file with so many bytes is closed.
    If the pieces end with an error, the pieces before it are written, and then the error is raised.
    Raises also CorruptBatch and OSError.
    """
    now: FileWriter | None = None
    broken_off: list[QuorateError] = []
    try:
        for piece in _as_far_as_it_goes(map(whole, pieces), broken_off):
            header = piece.header
            if now is not None and (
                now.bytes >= bytes_max or now.day != day_of(header.timestamp_ns)
            ):
                yield now.finish()
                now = None
            if now is None:
                now = FileWriter(archive, source, header)
            now.add(piece)
        if now is not None:
            yield now.finish()
            now = None
    finally:
        if now is not None:
            now.abandon()
    for error in broken_off:
        raise error


def _as_far_as_it_goes(pieces: Iterable[Piece], broken_off: list[QuorateError]) -> Iterator[Piece]:
    try:
        yield from pieces
    except QuorateError as error:
        broken_off.append(error)
