"""Reading from an archive: its sources, and their messages as rows or as batches.

An Archive is pickled as a path only. Each process reads the manifest anew, because compaction may
meanwhile replace files by others with the same content. Nothing here writes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.archive.directory import ArchiveDirectory
from quorate.archive.files import read_rows, wanted_pieces_of
from quorate.archive.manifest import ArchivedFile, ArchivedSource, Manifest
from quorate.protocol.answers import Piece
from quorate.protocol.errors import ArchiveInvalid, ArchiveUnusable
from quorate.protocol.filters.bounds import NO_BOUNDS, Bounds
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet


class Archive:
    """An archive to read from."""

    def __init__(self, path: str) -> None:
        """Raise InvalidArgument if the text is not a path."""
        self._directory = ArchiveDirectory(path)

    @property
    def path(self) -> str:
        """The directory of the archive."""
        return str(self._directory)

    def __getstate__(self) -> dict[str, Any]:
        return {"_directory": self._directory}

    def refreshed(self) -> Archive:
        """Return this archive, or another that reads the newest manifest, if that is newer.

        Reading the manifest of a large archive takes long, so it is read only once.
        Raises ArchiveUnusable.
        """
        known: Manifest | None = self.__dict__.get("_manifest")
        newest = self._directory.newest_version()
        return self if known is not None and known.version == newest else Archive(self.path)

    @cached_property
    def _manifest(self) -> Manifest:
        manifest = self._directory.newest()
        if not manifest.version:
            raise ArchiveUnusable(str(self._directory), "no archive is there")
        return manifest

    @cached_property
    def _files(self) -> dict[SourceName, list[ArchivedFile]]:
        files: dict[SourceName, list[ArchivedFile]] = {}
        for each in self._manifest.files:
            files.setdefault(each.source, []).append(each)
        return files

    @property
    def sources(self) -> dict[SourceName, ArchivedSource]:
        """The archived sources. Raises ArchiveInvalid, ArchiveNewer, ArchiveUnusable."""
        return dict(self._manifest.sources)

    def has(self, source: SourceName) -> RangeSet:
        """Return the numbers of a source that the archive has. Raises as `sources`."""
        return RangeSet(Range(each.first, each.last) for each in self._files.get(source, ()))

    def record_batches(
        self, source: SourceName, first: int, last: int, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages [first, last] as rows with these columns.

        Raises ArchiveInvalid if the archive lacks one of them, and as `sources`.
        """
        for file in self._files_with(source, first, last):
            # One column has to be read, because it tells the number of rows.
            names = columns.names or ["sequence"]
            for rows in read_rows(self._directory.path, file, names, first, last):
                yield _with_columns(rows, columns)

    def pieces(self, source: SourceName, first: int, last: int) -> Iterator[Piece]:
        """Yield the messages [first, last] as pieces of the batches that their source made.

        Each batch is checked. Raises ArchiveInvalid, CorruptBatch, and as `sources`.
        """
        for file in self._files_with(source, first, last):
            yield from self.pieces_of(file, max(file.first, first), min(file.last, last))

    def pieces_of(
        self, file: ArchivedFile, first: int, last: int, bounds: Bounds = NO_BOUNDS
    ) -> Iterator[Piece]:
        """Yield the messages [first, last] of a file, which has them. Raises as `pieces`.

        bounds: batches without a message inside are left out.
        """
        for piece in wanted_pieces_of(self._directory.path, file, first, last, bounds):
            yield replace(piece, first=max(piece.first, first), last=min(piece.last, last))

    def file_from(self, source: SourceName, first: int) -> ArchivedFile | None:
        """Return the first file with messages from a number on; None: there is none.

        Raises as `sources`.
        """
        files = self._files.get(source, [])
        at = bisect_left(files, first, key=lambda file: file.last)
        return files[at] if at < len(files) else None

    def is_there(self, file: ArchivedFile) -> bool:
        """Return whether a file exists. Compaction may have replaced and removed it."""
        return (self._directory.path / file.path).exists()

    def _files_with(self, source: SourceName, first: int, last: int) -> list[ArchivedFile]:
        hole = next(iter(RangeSet([Range(first, last)]).minus(self.has(source))), None)
        if hole is not None:
            raise ArchiveInvalid(str(self._directory), f"it lacks {hole} of {source}")
        return [each for each in self._files[source] if each.last >= first and each.first <= last]

    def first_since(self, source: SourceName, time_ns: int) -> int | None:
        """Return the first archived number from a time on; None if there is none.

        time_ns: ns since 1970 by the clock of the source. Raises as `record_batches`.
        """
        for file in self._files.get(source, ()):
            if file.last_time_ns < time_ns:
                continue
            names = ["sequence", "timestamp_ns"]
            for rows in read_rows(self._directory.path, file, names, file.first, file.last):
                late = pc.greater_equal(rows.column("timestamp_ns"), time_ns)
                at = pc.index(late, pa.scalar(True)).as_py()
                if at >= 0:
                    found: int = rows.column("sequence")[at].as_py()
                    return found
        return None


def _with_columns(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    if not columns.names:
        return pa.RecordBatch.from_struct_array(pa.nulls(len(rows), pa.struct([])))
    made = [rows.column(field.name).cast(field.type) for field in columns]
    return pa.RecordBatch.from_arrays(made, schema=columns)
