"""Files and names that are on the disk when a call returns.

A file that was written is durable only once it is synced. Its name is durable only once its
directory is synced.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def sync_directory(path: Path) -> None:
    """Put the names in a directory on the disk; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and put its content, but not its name, on the disk; raises OSError."""
    with path.open("wb") as file:
        _write_synced(file, content)


def _write_synced(file: BinaryIO, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file, or make it, by one that is on the disk whole; raises OSError.

    After a failure at any moment the file has the old content or the new content, as a whole.

    mode: the permissions of the new file, from its first byte on, as far as the umask lets them.
    """
    new = path.with_name(f"{path.name}.new")
    # One that is left of an earlier failure may permit more.
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        _write_synced(file, content)
    put_in_place(new, path)


def put_in_place(new: Path, path: Path) -> None:
    """Give a synced file its name, perhaps another file's, on the disk, too; raises OSError."""
    new.rename(path)
    sync_directory(path.parent)


def allocate(descriptor: int, size: int) -> None:
    """Give a file this size, in bytes, with room for all of it on the disk; raises OSError.

    A file that is mapped into memory needs the room beforehand: a full disk would end the process.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.pwrite(descriptor, bytes(size), 0)
