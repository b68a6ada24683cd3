"""The job that rebuilds the manifest of an archive when the newest one is damaged or lost.

It starts from the newest valid manifest. Files that this does not name are read from end to end,
and the checksum of every batch in them is compared. The job asks neither stores nor Spark. The
damaged manifest stays where it is, and a new version follows it. Which files count as archived is
decided in quorate.pipeline.archive.rebuild_plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quorate.archive.directory import ArchiveDirectory
from quorate.archive.files import pieces_of
from quorate.archive.layout import checksum_of, content_of, directory_of
from quorate.archive.manifest import (
    WRITTEN_BY,
    ArchivedFile,
    BatchMark,
    Manifest,
)
from quorate.pipeline.archive.rebuild_plan import Rebuilt, rebuilt, terms_of
from quorate.pipeline.options import parse_source
from quorate.protocol.errors import ArchiveInvalid, ArchiveUnusable, QuorateError
from quorate.protocol.framing import BatchHeader, greatest_time
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage


def _quiet(_: str) -> None:
    """Drop a line about the progress of the job."""


@dataclass(slots=True)
class RebuildReport:
    """The result of a rebuild."""

    archive: str
    version: int
    """The version of the manifest that the archive has now."""
    damaged: list[str] = field(default_factory=list)
    """The fault of each damaged manifest, the newest first."""
    since: int = 0
    """The version of the newest valid manifest; 0: none was valid."""
    sources: list[Rebuilt] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Lines for people about what is not certain."""

    whole: bool = True
    """The archive still has everything that the newest valid manifest lists."""

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "archive": self.archive,
            "version": self.version,
            "since_version": self.since,
            "whole": self.whole,
            "damaged": self.damaged,
            "sources": [
                {
                    "topic": each.source.name.topic,
                    "source": f"{each.source.name.session_id:#x}",
                    "first": each.source.first,
                    "last": each.source.last,
                    "files": len(each.files),
                }
                for each in self.sources
            ],
            "notes": self.notes,
        }


def rebuild(path: str, *, told: Callable[[str], None] = _quiet) -> RebuildReport:
    """Write a manifest of what the archive provably has, if the newest is damaged or all are gone.

    told: a function that gets lines about the progress.
    Raises ArchiveUnusable, ArchiveNewer, ArchiveChanged, and ArchiveInvalid if no file is whole.
    """
    directory = ArchiveDirectory(path)
    base, damaged, version = directory.newest_whole()
    report = RebuildReport(
        str(directory), version, [f"{each.path}: {each.detail}" for each in damaged], base.version
    )
    if base.version and not damaged:
        return report
    files = list(directory.data_files())
    if not damaged and not files:
        raise ArchiveUnusable(str(directory), "no archive is there")
    by_source: dict[SourceName, list[ArchivedFile]] = {}
    for file in _whole_files(directory, base, files, report, told):
        by_source.setdefault(file.source, []).append(file)
    for name in sorted({*by_source, *base.sources}):
        made = rebuilt(name, base.sources.get(name), by_source.get(name, ()))
        if made is None:
            report.whole = False
            report.notes.append(
                f"{name}: no whole file of it is there; it is no longer part of the archive"
            )
        else:
            report.whole = report.whole and made.whole
            report.sources.append(made)
            report.notes += made.notes
    if not report.sources:
        raise ArchiveInvalid(str(directory), "; ".join([*report.damaged, "no file in it is whole"]))
    _commit(directory, base, version, report)
    return report


def _commit(
    directory: ArchiveDirectory, base: Manifest, version: int, report: RebuildReport
) -> None:
    made = Manifest(
        version + 1,
        sources={each.source.name: each.source for each in report.sources},
        files=tuple(file for each in report.sources for file in each.files),
        dropped=base.dropped,
    )
    directory.commit(made.stamped(time.time_ns(), WRITTEN_BY))
    report.version = made.version


def _whole_files(
    directory: ArchiveDirectory,
    base: Manifest,
    paths: list[str],
    report: RebuildReport,
    told: Callable[[str], None],
) -> Iterator[ArchivedFile]:
    """Yield the valid files, and note the others in the report."""
    there = set(paths)
    for each in base.files:
        if each.path in there and (directory.path / each.path).stat().st_size == each.bytes:
            yield each
        elif each.path in there:
            report.notes.append(
                f"not taken: {each.path} does not have the size that it was archived with"
            )
    known = {each.path for each in base.files} | {each.path for each in base.dropped}
    unknown = [path for path in paths if path not in known and content_of(path) is not None]
    told(f"reading {len(unknown)} files that version {base.version} does not name")
    for path in unknown:
        try:
            yield examined(directory.path, path)
        except QuorateError as error:
            report.notes.append(f"not taken: {error}")


def examined(archive: Path, path: str) -> ArchivedFile:
    """Read and check all of a file, and return its facts. Raises ArchiveInvalid, CorruptBatch.

    path: relative to the archive.
    """
    where = str(archive / path)
    content, checksum = content_of(path), checksum_of(path)
    assert content is not None
    _, numbers = content
    try:
        source = _source_of(archive / path)
        size = (archive / path).stat().st_size
    except (OSError, ValueError, IndexError, pa.ArrowException) as error:
        raise ArchiveInvalid(where, f"it cannot be read: {error}") from None
    # These facts are from the name of the file. Reading the file then proves them.
    said = ArchivedFile(
        path,
        source,
        numbers.first,
        numbers.last,
        Lineage(),
        0,
        size,
        0,
        0,
        checksum,
        BatchMark(numbers.first, 0),
    )
    headers: list[BatchHeader] = []
    last_times: list[int] = []
    for piece in pieces_of(archive, said, said.first, said.last):
        headers.append(piece.header)
        last_times.append(greatest_time(piece.frame, piece.header))
    try:
        lineage = terms_of((each.epoch, each.first) for each in headers)
    except ValueError as error:
        raise ArchiveInvalid(where, str(error)) from None
    made = ArchivedFile(
        path,
        source,
        numbers.first,
        numbers.last,
        lineage,
        len(headers),
        size,
        min(each.timestamp_ns for each in headers),
        max(last_times),
        checksum,
        BatchMark(headers[-1].first, headers[-1].checksum),
    )
    if path.rpartition("/")[0] != directory_of(source.topic, made.day):
        raise ArchiveInvalid(where, f"it has messages of {source} of {made.day}")
    return made


def _source_of(path: Path) -> SourceName:
    """Return the source that the first row of a file names."""
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        rows = next(parquet.iter_batches(1, columns=["topic", "source"]), None)
    if rows is None:
        raise ValueError("it has no messages")
    return parse_source(f"{rows.column(0)[0].as_py()}/{rows.column(1)[0].as_py()}")
