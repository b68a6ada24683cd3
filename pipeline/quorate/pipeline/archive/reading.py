"""Reading from an archive: what it has, and its messages, as rows or as the batches they came in.

An object of this module is a path, so that it can go to workers; what the archive has is looked up
when it is asked for, because files may be replaced by others with the same content meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.pipeline.archive.directory import ArchiveDirectory
from quorate.pipeline.archive.files import pieces_of, read_rows
from quorate.pipeline.archive.manifest import ArchivedFile, ArchivedSource, Manifest
from quorate.pipeline.errors import ArchiveInvalid, ArchiveUnusable
from quorate.protocol.answers import Piece
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet


class Archive:
    """An archive, for readers."""

    def __init__(self, path: str) -> None:
        """Raises InvalidArgument if it is no path."""
        self._directory = ArchiveDirectory(path)

    def __getstate__(self) -> dict[str, Any]:
        return {"_directory": self._directory}

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
        """What it has; raises ArchiveInvalid, ArchiveNewer, ArchiveUnusable."""
        return dict(self._manifest.sources)

    def has(self, source: SourceName) -> RangeSet:
        """The numbers of a source that it has; raises as `sources`."""
        return RangeSet(Range(each.first, each.last) for each in self._files.get(source, ()))

    def record_batches(
        self, source: SourceName, first: int, last: int, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The messages [first, last], all of which it must have, as rows with these columns.

        Raises ArchiveInvalid, and as `sources`.
        """
        for file in self._files_with(source, first, last):
            # Without a column there would be no telling how many rows there are.
            names = columns.names or ["sequence"]
            for rows in read_rows(self._directory.path, file, names, first, last):
                yield _with_columns(rows, columns)

    def pieces(self, source: SourceName, first: int, last: int) -> Iterator[Piece]:
        """The same as the batches that their source made, each checked.

        Raises ArchiveInvalid, CorruptBatch, and as `sources`.
        """
        for file in self._files_with(source, first, last):
            for piece in pieces_of(self._directory.path, file):
                if piece.last >= first and piece.first <= last:
                    yield replace(piece, first=max(piece.first, first), last=min(piece.last, last))

    def _files_with(self, source: SourceName, first: int, last: int) -> list[ArchivedFile]:
        hole = next(iter(RangeSet([Range(first, last)]).minus(self.has(source))), None)
        if hole is not None:
            raise ArchiveInvalid(str(self._directory), f"it lacks {hole} of {source}")
        return [each for each in self._files[source] if each.last >= first and each.first <= last]

    def first_since(self, source: SourceName, time_ns: int) -> int | None:
        """The first message that was packed at this time or later; None: it has none.

        Raises as `record_batches`.
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
