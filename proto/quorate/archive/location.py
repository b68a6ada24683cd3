"""The place of an archive: a directory, or a prefix of an object store, and the files there.

The library of the table reads the settings of object stores from the environment, such as
AWS_ENDPOINT_URL. No setting is kept or shown here. The content of the files is decided
elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorate.disk.files import sync_directory
from quorate.protocol.errors import ArchiveUnusable, InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
_BUFFER_BYTES = 1024 * 1024
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Location:
    """The place of an archive, where nothing need exist yet. It can be pickled."""

    def __init__(self, path: str) -> None:
        """Raise InvalidArgument if the text is neither a path nor an address of an object store."""
        if not path.strip():
            # An empty path would be the current directory.
            raise InvalidArgument("archive path", "none is given; name a directory")
        scheme, mark, rest = path.partition("://")
        self.directory: Path | None = None
        """The directory; None: the archive is on an object store."""
        if not mark or scheme == "file":
            self.directory = Path(rest if mark else path).absolute()
            self.address = str(self.directory)
            return
        if scheme not in _SCHEMES:
            raise InvalidArgument(
                "archive path",
                f"{path} is neither a directory nor the address of an object store, which begins "
                f"with one of {', '.join(f'{each}://' for each in _SCHEMES)}",
            )
        if not rest.strip("/"):
            raise InvalidArgument("archive path", f"{path} names no bucket")
        self.address = path.rstrip("/")

    def __str__(self) -> str:
        return self.address

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self.address, "directory": self.directory}

    @cached_property
    def files(self) -> fs.FileSystem:
        """The files of the archive, by paths relative to it."""
        from pyarrow import fs

        if self.directory is not None:
            return fs.SubTreeFileSystem(self.address, fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.address))

    def where(self, path: str) -> str:
        """Return a path for people."""
        return f"{self.address}/{path}"

    @contextlib.contextmanager
    def writing(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new file. It and its name are on the disk when the block ends without an error."""
        import pyarrow as pa

        if self.directory is None:
            # The stream of the library takes what is written through this buffer only.
            with (
                self.files.open_output_stream(path) as remote,
                pa.BufferedOutputStream(remote, _BUFFER_BYTES) as opened,
            ):
                yield opened
            return
        target = self.directory / path
        make_directories(target.parent)
        with target.open("wb") as file, pa.PythonFile(file, mode="w") as opened:
            yield opened
            opened.flush()
            os.fsync(file.fileno())
        sync_directory(target.parent)

    def write(self, path: str, content: bytes) -> None:
        """Write a file as `writing` does. Raises OSError."""
        with self.writing(path) as opened:
            for at in range(0, len(content), _BUFFER_BYTES // 2):
                opened.write(content[at : at + _BUFFER_BYTES // 2])

    def sync(self, paths: list[str]) -> None:
        """Put files of a directory, and their names, on the disk. Raises OSError.

        The library does not. An object store keeps what it has acknowledged.
        """
        if self.directory is None:
            return
        targets = [self.directory / path for path in paths]
        for target in targets:
            descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        for parent in {target.parent for target in targets}:
            sync_directory(parent)
            sync_directory(parent.parent)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(path)

    def listed(self, directory: str) -> list[fs.FileInfo]:
        """Return the files in a directory; none if it does not exist. Raises OSError."""
        from pyarrow import fs

        found = self.files.get_file_info(fs.FileSelector(directory, allow_not_found=True))
        return [each for each in found if each.type == fs.FileType.File]


def make_directories(path: Path) -> None:
    """Make a directory with all above it, and put their names on the disk. Raises OSError."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync_directory(each.parent)


@contextlib.contextmanager
def storage(path: str) -> Iterator[None]:
    """Raise ArchiveUnusable if a file system or an object store fails."""
    try:
        yield
    except OSError as error:
        raise ArchiveUnusable(path, error.strerror or plain_text(error)) from error


def plain_text(error: BaseException) -> str:
    """Return the text of an error of the library in one line, without colours."""
    return " ".join(_COLOURS.sub("", str(error)).split()).rstrip(".")
