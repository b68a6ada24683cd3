"""A checkpoint: a copy of a store's data directory as it is at one moment, while the store runs.

Files of the database that never change are linked, not copied, so a checkpoint takes little time
and space. It is a data directory of its own, as after a clean stop. Nothing here sends it anywhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from quorate.disk.files import write_synced
from quorate.protocol.errors import StorageFailed
from quorate.store.storage.data_directory import FORMAT_FILE, LOCK_FILE, MARK_FILE, pack_mark


class Copied(Protocol):
    """A database that copies itself."""

    def checkpoint(self, path: Path) -> None:
        """Make a copy of all that was written so far in a new directory. Raises StorageFailed."""


class File(NamedTuple):
    """A file of a data directory."""

    path: str
    """The path in the directory, with slashes."""
    size: int


def make(directory: Path, acknowledged: int, database: Copied) -> Path:
    """Make a checkpoint of a data directory, and return its path. One of before is removed.

    acknowledged: the number of a commit that is in the database. Raises StorageFailed.
    """
    remove(directory)
    path = _path(directory)
    try:
        path.mkdir()
        database.checkpoint(path / "rocksdb")
        (path / LOCK_FILE).touch()
        write_synced(path / MARK_FILE, pack_mark(acknowledged))
        shutil.copyfile(directory / FORMAT_FILE, path / FORMAT_FILE)
    except OSError as error:
        raise StorageFailed(str(path), str(error)) from error
    return path


def remove(directory: Path) -> None:
    """Remove the checkpoint of a data directory, if there is one."""
    shutil.rmtree(_path(directory), ignore_errors=True)


def files(directory: Path) -> Iterator[File]:
    """Yield the files of a data directory that no store runs on, FORMAT last.

    A copy that was cut off has no FORMAT, so no store starts with it.
    """
    left_over = _path(directory)
    found = [
        path
        for path in sorted(directory.rglob("*"))
        if path.is_file() and left_over not in path.parents
    ]
    found.sort(key=lambda path: path == directory / FORMAT_FILE)
    for path in found:
        yield File(path.relative_to(directory).as_posix(), os.stat(path).st_size)


def _path(directory: Path) -> Path:
    return directory / "checkpoint"
