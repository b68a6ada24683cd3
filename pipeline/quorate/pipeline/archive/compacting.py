"""Compaction: the job that replaces many small files by few large ones with the same content.

A new manifest names the new files instead of the old ones. The old ones are deleted later, because
readers may still use them. Every batch is made again from its rows, and its checksum is compared,
so that no loss and no change goes unnoticed. Files are written and read in
quorate.pipeline.archive.files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quorate.archive.directory import ArchiveDirectory
from quorate.archive.files import pieces_of
from quorate.archive.manifest import (
    WRITTEN_BY,
    ArchivedFile,
    file_from_json,
    file_to_json,
)
from quorate.pipeline.archive.file_writer import write_pieces
from quorate.pipeline.archive.tasks import Entry, Run
from quorate.protocol.errors import ArchiveInvalid

SMALL_BYTES = 32 * 1024 * 1024
"""A file with fewer compressed bytes becomes a part of a larger one."""
LARGE_BYTES = 128 * 1024 * 1024
"""No file joins a group that already has so many bytes."""


def _quiet(_: str) -> None:
    """Drop a line about the progress of the job."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """The result of a compaction."""

    archive: str
    version: int
    """The version of the manifest that the archive has now."""
    before: int
    """Number of files that were replaced."""
    after: int
    """Number of files that replaced them."""
    seconds: float

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "archive": self.archive,
            "version": self.version,
            "files_before": self.before,
            "files_after": self.after,
            "seconds": round(self.seconds, 3),
        }


def compact(
    run: Run,
    path: str,
    *,
    small_bytes: int = SMALL_BYTES,
    large_bytes: int = LARGE_BYTES,
    told: Callable[[str], None] = _quiet,
) -> CompactReport:
    """Replace small files with consecutive messages of one source and one day by larger ones.

    - run: runs the tasks, as quorate.pipeline.archive.tasks.on_spark does.
    - told: a function that gets lines about the progress.

    Raises ArchiveInvalid, ArchiveNewer, ArchiveChanged, ArchiveUnusable.
    """
    began = time.monotonic()
    directory = ArchiveDirectory(path)
    manifest = directory.newest()
    groups = together(manifest.files, small_bytes, large_bytes)
    if not groups:
        return CompactReport(str(directory), manifest.version, 0, 0, time.monotonic() - began)
    directory.check_writable()
    old = [each for group in groups for each in group]
    told(f"replacing {len(old)} files by {len(groups)}")
    new = [
        file_from_json(entry["file"])
        for entry in run(groups, partial(compact_group, path=str(directory)))
    ]
    _check_same(groups, new)
    now = time.time_ns()
    made = manifest.replaced(old, new, now).stamped(now, WRITTEN_BY)
    directory.commit(made)
    seconds = time.monotonic() - began
    return CompactReport(str(directory), made.version, len(old), len(new), seconds)


def together(
    files: Iterable[ArchivedFile], small_bytes: int, large_bytes: int
) -> list[list[ArchivedFile]]:
    """Return the groups of small files with consecutive messages of one source and day."""
    groups: list[list[ArchivedFile]] = []
    for each in files:
        last = groups[-1] if groups else []
        if (
            last
            and _goes_on(last[-1], each)
            and max(last[-1].bytes, each.bytes) < small_bytes
            and sum(one.bytes for one in last) < large_bytes
        ):
            last.append(each)
        else:
            groups.append([each])
    return [group for group in groups if len(group) > 1]


def _goes_on(before: ArchivedFile, after: ArchivedFile) -> bool:
    return (before.source, before.day, before.last + 1) == (after.source, after.day, after.first)


def _check_same(groups: Sequence[Sequence[ArchivedFile]], new: Sequence[ArchivedFile]) -> None:
    wanted = {(group[0].source, group[0].first, group[-1].last) for group in groups}
    made = {(each.source, each.first, each.last) for each in new}
    if wanted != made or len(new) != len(groups):
        odd = ", ".join(f"{source} [{first}, {last}]" for source, first, last in wanted ^ made)
        raise ArchiveInvalid(
            "the new files", f"they do not have the messages of the old ones: {odd}"
        )


# Tasks, which run in a worker.


def compact_group(group: Sequence[ArchivedFile], *, path: str) -> Iterator[Entry]:
    """Write the messages of a group's files into one file. Raises ArchiveInvalid, CorruptBatch."""
    archive, source = Path(path), group[0].source
    pieces = (piece for each in group for piece in pieces_of(archive, each, each.first, each.last))
    for made in write_pieces(archive, source, pieces, sys.maxsize):
        yield {"file": file_to_json(made)}
