"""The job that makes few files of many small ones, with the same content.

A new manifest names the new files instead of the old ones; those are deleted later, because readers
may still be at them. Every batch is made again from its rows on the way and proves itself by its
checksum, so that nothing can be lost or changed here without being noticed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quorate.pipeline.archive.directory import ArchiveDirectory
from quorate.pipeline.archive.files import pieces_of, write_pieces
from quorate.pipeline.archive.manifest import (
    WRITTEN_BY,
    ArchivedFile,
    file_from_json,
    file_to_json,
)
from quorate.pipeline.archive.tasks import Entry, Run
from quorate.pipeline.errors import ArchiveInvalid

SMALL_BYTES = 32 * 1024 * 1024
"""A file that has less, compressed, is made a part of a larger one."""
LARGE_BYTES = 128 * 1024 * 1024
"""No more are put together once they have so much."""


def _quiet(_: str) -> None:
    """For whoever does not want to be told."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What the job did."""

    archive: str
    version: int
    """Of the manifest that the archive has now."""
    before: int
    """So many files were put together."""
    after: int
    """To so many."""
    seconds: float

    def as_object(self) -> dict[str, Any]:
        """For programs."""
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
    """Put small files together that have consecutive messages of one source and one day.

    run: quorate.pipeline.archive.tasks.on_spark. told: is told how it goes.
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
    told(f"putting {len(old)} files together to {len(groups)}")
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
    """Which files are put together: of one source and day, consecutive, and small."""
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
        raise ArchiveInvalid("the new files", f"they have not what the old ones had: {odd}")


# In a worker.


def compact_group(group: Sequence[ArchivedFile], *, path: str) -> Iterator[Entry]:
    """Write the files of a group as one. Raises ArchiveInvalid, CorruptBatch."""
    archive, source = Path(path), group[0].source
    pieces = (piece for each in group for piece in pieces_of(archive, each))
    for made in write_pieces(archive, source, pieces, sys.maxsize):
        yield {"file": file_to_json(made)}
