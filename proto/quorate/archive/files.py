"""The Parquet files of an archive, checked when they are read.

How a file is written is in quorate.pipeline.archive.file_writer. Nothing here reads a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from quorate.archive.batches import COLUMNS, frames_of
from quorate.archive.manifest import ArchivedFile
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
    rows = read_rows(archive, file, COLUMNS, file.first, file.last)
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
