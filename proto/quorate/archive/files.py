"""The Parquet files of an archive, checked when they are read.

How a file is written is in quorate.pipeline.archive.file_writer. Nothing here reads a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quorate.archive.batches import COLUMNS, PICKED_COLUMNS, frames_of, picked_of
from quorate.archive.manifest import ArchivedFile
from quorate.archive.parts import Picked
from quorate.archive.wanted import RowTest
from quorate.protocol.answers import Piece
from quorate.protocol.errors import ArchiveInvalid
from quorate.protocol.framing import read_header

_READ_ROWS = 16_384
_READ_BYTES = 1024 * 1024

_checked: dict[Path, tuple[int, ...]] = {}
"""By path of a file that this process has checked, its checksum and its state on the disk then."""


def read_rows(
    archive: Path, file: ArchivedFile, columns: Sequence[str], first: int, last: int
) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the messages [first, last] of a file, in order.

    Raises ArchiveInvalid if the file is not the one that was archived.
    """
    for at, rows in _read_groups(archive, file, columns, first, last):
        begin, end = max(first - at, 0), min(last - at + 1, len(rows))
        if begin < end:
            yield rows.slice(begin, end - begin)


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group of an open file."""

    parquet: pq.ParquetFile
    index: int
    at: int
    """The number of its first message."""
    count: int

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return these columns of all its rows."""
        rows = self.parquet.read_row_group(self.index, columns=list(columns))
        self._check(self.at + len(rows))
        return rows

    def parts(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield these columns of its rows in parts, and the number of each part."""
        at = self.at
        for rows in self.parquet.iter_batches(_READ_ROWS, [self.index], columns=list(columns)):
            yield at, rows
            at += len(rows)
        self._check(at)

    def _check(self, end: int) -> None:
        if end != self.at + self.count:
            # The header of a page has no checksum.
            raise pa.ArrowInvalid(f"its rows end at {end}, not at {self.at + self.count}")


def _read_groups(
    archive: Path, file: ArchivedFile, columns: Sequence[str], first: int, last: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield whole row groups, those with messages of [first, last], and the number of each part."""
    with _readable(archive / file.path):
        for group in _groups(archive, file, first, last):
            yield from group.parts(columns)


def _groups(archive: Path, file: ArchivedFile, first: int, last: int) -> Iterator[_Group]:
    """Yield the row groups with messages of [first, last], for use within `_readable`."""
    check_file(archive, file)
    path = archive / file.path
    # The checksums of the pages find damage that came after the file was checked.
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        count = parquet.metadata.num_rows
        if count != file.count:
            raise ArchiveInvalid(str(path), f"it has {count} messages, not {file.count}")
        # The numbers have no gap, so the row of each number is known.
        at = file.first
        for index in range(parquet.num_row_groups):
            rows = parquet.metadata.row_group(index).num_rows
            if at <= last and at + rows > first:
                yield _Group(parquet, index, at, rows)
            at += rows


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise ArchiveInvalid if a file cannot be read."""
    try:
        yield
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise ArchiveInvalid(str(path), f"it cannot be read: {error}") from error


def pieces_of(archive: Path, file: ArchivedFile, first: int, last: int) -> Iterator[Piece]:
    """Yield the batches of a file that have messages of [first, last], as their source made them.

    A row group has whole batches, so reading begins with the row group of the first message.
    first, last: messages that the file has. Raises ArchiveInvalid, CorruptBatch.
    """
    path = str(archive / file.path)
    groups = _read_groups(archive, file, COLUMNS, first, last)
    due, head = next(groups)
    rows = chain([head], (each for _, each in groups))
    for frame in frames_of(rows, file.source, path):
        header = read_header(frame, path)
        if header.first != due:
            raise ArchiveInvalid(path, f"it goes on at {header.first}, not at {due}")
        due = header.last + 1
        if header.last >= first:
            yield Piece(frame, header, header.first, header.last)
        if header.last >= last:
            break
    if not last < due <= file.last + 1:
        raise ArchiveInvalid(path, f"it ends at {due - 1}, not at {file.last}")


def picked_of_file(
    archive: Path, file: ArchivedFile, first: int, last: int, test: RowTest
) -> Iterator[Picked]:
    """Yield the messages of [first, last] that meet a test, those of each batch together.

    Of a row group without any, only the columns are read that decide. Raises ArchiveInvalid.
    """
    with _readable(archive / file.path):
        for group in _groups(archive, file, first, last):
            begin, end = max(first - group.at, 0), min(last - group.at + 1, group.count)
            asked = slice(begin, end)
            holds = test.holds(group.read(sorted(test.columns))[asked])
            if pc.any(holds).as_py():
                rows = group.read(PICKED_COLUMNS)[asked].filter(holds)
                yield from picked_of(rows.to_batches(), file.source)


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
