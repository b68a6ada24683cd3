"""The upkeep of an archive: small files are joined, and files that nobody can need are removed.

Both are the work of the table's library. Readers go on meanwhile: they read the version that they
began with, and find a removed file's messages in the newest one. Nothing here asks a store.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorate.archive.location import Location
from quorate.archive.table import LARGE_BYTES, Table
from quorate.protocol.errors import ArchiveUnusable

KEEP_SECONDS = 7 * 24 * 3600.0
"""Seconds for which a vacuum leaves a file that a version had, or that no version has yet."""


def _quiet(_: str) -> None:
    """Drop a line about the progress of the job."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """The result of a compaction."""

    archive: str
    version: int
    """The version of the table that the archive has now."""
    before: int
    """Number of files that were replaced."""
    after: int
    """Number of files that replaced them."""
    seconds: float
    left_out: tuple[str, ...] = ()
    """Topics whose files stay as they are, because their names are too long for a directory."""

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "archive": self.archive,
            "version": self.version,
            "files_before": self.before,
            "files_after": self.after,
            "left_out": list(self.left_out),
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """The result of a vacuum."""

    archive: str
    removed: tuple[str, ...]
    """The files that were removed, relative to the archive."""
    seconds: float

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "archive": self.archive,
            "removed": list(self.removed),
            "seconds": round(self.seconds, 3),
        }


def compact(
    path: str, *, large_bytes: int = LARGE_BYTES, told: Callable[[str], None] = _quiet
) -> CompactReport:
    """Replace small files of a topic and a day by larger ones with the same messages.

    - large_bytes: the bytes of a larger one.
    - told: a function that gets lines about the progress.

    Raises ArchiveInvalid, ArchiveChanged, ArchiveUnusable.
    """
    began = time.monotonic()
    table = _opened(path)
    told(f"joining small ones of {len(table.files):,} files")
    made, compacted = table.compact(large_bytes)
    return CompactReport(
        path,
        made.version,
        compacted.before,
        compacted.after,
        time.monotonic() - began,
        compacted.left_out,
    )


def vacuum(
    path: str, *, keep_seconds: float = KEEP_SECONDS, told: Callable[[str], None] = _quiet
) -> VacuumReport:
    """Remove the files that no version of the last seconds has.

    - keep_seconds: these seconds. A reader or a job may take so long.
    - told: a function that gets lines about the progress.

    Raises InvalidArgument for less than an hour, ArchiveInvalid, ArchiveUnusable.
    """
    began = time.monotonic()
    table = _opened(path)
    told("looking for files that no version needs")
    removed = table.vacuum(keep_seconds)
    return VacuumReport(path, tuple(sorted(removed)), time.monotonic() - began)


def _opened(path: str) -> Table:
    location = Location(path)
    table = Table.open(location)
    if table is None:
        raise ArchiveUnusable(str(location), "no archive is there")
    return table
