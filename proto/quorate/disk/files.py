"""Files and names that are on the disk when a call returns.

A file that was written is durable only once it is synced. Its name is durable only once its
directory is synced.
"""

from __future__ import annotations

import os
from pathlib import Path


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
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file, or make it, by one that is on the disk whole; raises OSError.

    After a failure at any moment the file has the old content or the new content, as a whole.
    """
    new = path.with_name(f"{path.name}.new")
    write_synced(new, content)
    new.rename(path)
    sync_directory(path.parent)
