"""The Parquet files of an archive: a file is written whole or not at all, and checked when read.

A file is written under a temporary name, and gets its own name once all of it is on the disk. The
name tells its content. Nothing here reads or writes a manifest.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from quorate.disk.files import put_in_place
from quorate.pipeline.archive.layout import WRITING, day_of, directory_of, file_of
from quorate.pipeline.archive.manifest import ArchivedFile, BatchMark
from quorate.pipeline.archive.rows import REPEATED, SCHEMA, frames_of, rows_of, whole
from quorate.pipeline.errors import ArchiveInvalid
from quorate.protocol.answers import Piece
from quorate.protocol.errors import QuorateError
from quorate.protocol.framing import BatchHeader, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term

ROW_GROUP_ROWS = 131_072
_ROW_GROUP_BYTES = 32 * 1024 * 1024
_READ_ROWS = 16_384
_READ_BYTES = 1024 * 1024

_checked: dict[Path, tuple[int, ...]] = {}
"""By path of a file that this process has checked, its checksum and its state on the disk then."""


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
        self._times = [first_of.timestamp_ns, first_of.timestamp_ns]
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
            column_encoding={"sequence": "DELTA_BINARY_PACKED"},
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
        earliest, latest = self._times
        self._times = [min(earliest, header.timestamp_ns), max(latest, header.timestamp_ns)]
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
            self._times[0],
            self._times[1],
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


def read_rows(
    archive: Path, file: ArchivedFile, columns: Sequence[str], first: int, last: int
) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the messages [first, last] of a file, in order.

    Raises ArchiveInvalid if the file is not the one that was archived.
    """
    check_file(archive, file)
    path = archive / file.path
    try:
        # The checksums of the pages find damage that came after the file was checked.
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            count = parquet.metadata.num_rows
            if count != file.count:
                raise ArchiveInvalid(str(path), f"it has {count} messages, not {file.count}")
            # The numbers have no gap, so the row of each number is known.
            at = file.first
            for group in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                if at <= last and at + rows > first:
                    yield from _cut(parquet, group, columns, at, first, last)
                at += rows
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise ArchiveInvalid(str(path), f"it cannot be read: {error}") from error


def _cut(
    parquet: pq.ParquetFile, group: int, columns: Sequence[str], at: int, first: int, last: int
) -> Iterator[pa.RecordBatch]:
    end_of_group = at + parquet.metadata.row_group(group).num_rows
    for rows in parquet.iter_batches(_READ_ROWS, [group], columns=list(columns)):
        begin, end = max(first - at, 0), min(last - at + 1, len(rows))
        if begin < end:
            yield rows.slice(begin, end - begin)
        at += len(rows)
    if at != end_of_group:
        # The header of a page has no checksum.
        raise pa.ArrowInvalid(f"its rows end at {at}, not at {end_of_group}")


def pieces_of(archive: Path, file: ArchivedFile) -> Iterator[Piece]:
    """Yield the batches of a file as their source made them.

    Raises ArchiveInvalid, CorruptBatch.
    """
    path = str(archive / file.path)
    rows = read_rows(archive, file, SCHEMA.names, file.first, file.last)
    next_sequence = file.first
    for frame in frames_of(rows, file.source, path):
        header = read_header(frame, path)
        if header.first != next_sequence:
            raise ArchiveInvalid(path, f"it goes on at {header.first}, not at {next_sequence}")
        next_sequence = header.last + 1
        yield Piece(frame, header, header.first, header.last)
    if next_sequence != file.last + 1:
        raise ArchiveInvalid(path, f"it ends at {next_sequence - 1}, not at {file.last}")


def check_file(archive: Path, file: ArchivedFile) -> None:
    """Compare a file with its archived size and checksum. Raises ArchiveInvalid.

    The check reads all of the file, so a process does it once, and again only if the file changes.
    """
    path = archive / file.path
    try:
        stat = path.stat()
        seen = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        if _checked.get(path) == (file.checksum, *seen):
            return
        if stat.st_size != file.bytes:
            raise ArchiveInvalid(str(path), f"it has {stat.st_size:,} bytes, not {file.bytes:,}")
        checksum = _checksum(path)
    except OSError as error:
        raise ArchiveInvalid(str(path), error.strerror or str(error)) from error
    if checksum != file.checksum:
        detail = f"its checksum is {checksum:#010x}, not {file.checksum:#010x}"
        raise ArchiveInvalid(str(path), detail)
    _checked[path] = (checksum, *seen)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb", buffering=0) as opened:
        while data := opened.read(_READ_BYTES):
            checksum = google_crc32c.extend(checksum, data)
    return checksum
