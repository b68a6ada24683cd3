"""A store's data directory: its owner, its format, its lock, and the last synced commit.

Nothing here reads or writes rows. The directory has these files:

- FORMAT: JSON with the format and the store's name; written once for each format
- lock: locked while a store runs; has the store's process ID
- acknowledged: the number of the last synced commit, mapped into memory
- running: present while a store runs, and after an unclean stop; see clean_shutdown
- rocksdb/: the database, and in its state/ that of the state of the world; see rocksdb
- checkpoint/: a copy that a backup reads, while it does; see checkpoint

RocksDB reuses its log files, and then may lose the end of its log silently. The acknowledged mark
detects that. The mark needs no sync: it outlives the process, and after a power failure an older
mark is still a true lower bound.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from quorate.disk.files import replace_file, write_synced
from quorate.protocol.errors import (
    DataDirectoryCorrupt,
    DataDirectoryInUse,
    DataDirectoryNewer,
    DataDirectoryOfAnother,
    DataDirectoryOlder,
    InvalidArgument,
    StorageFailed,
)

FORMAT = 19
"""The number of the format. Raise it whenever an older version could not read the new format."""

FORMAT_FILE = "FORMAT"
LOCK_FILE = "lock"
MARK_FILE = "acknowledged"

_MARK = struct.Struct("<Q")
_OURS = {
    FORMAT_FILE,
    f"{FORMAT_FILE}.new",
    LOCK_FILE,
    MARK_FILE,
    "rocksdb",
    "running",
    "running.new",
    "lost+found",
    "options",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """The content of FORMAT: the store's name."""

    store: str


def read_identity(path: Path) -> Identity | None:
    """Return the content of FORMAT; None in a blank directory.

    Raises DataDirectoryNewer, DataDirectoryOlder, DataDirectoryCorrupt.
    """
    try:
        text = (path / FORMAT_FILE).read_bytes()
    except FileNotFoundError:
        strangers = sorted({entry.name for entry in path.iterdir()} - _OURS)
        if strangers or (path / "rocksdb").exists():
            what = strangers[0] if strangers else "rocksdb"
            raise DataDirectoryCorrupt(
                str(path), f"it has {what!r} but no FORMAT, so it is not a store's directory"
            ) from None
        return None
    try:
        fields = json.loads(text)
        number = int(fields["format"])
        if number > FORMAT:
            raise DataDirectoryNewer(str(path), number, FORMAT)
        if number < FORMAT:
            raise DataDirectoryOlder(str(path), number, FORMAT)
        return Identity(str(fields["store"]))
    except (ValueError, ArithmeticError, RecursionError, KeyError, TypeError) as error:
        raise DataDirectoryCorrupt(str(path), f"FORMAT cannot be read: {error!r}") from None


def pack_mark(commit: int) -> bytes:
    """Return the content of the file with the number of the last synced commit."""
    return _MARK.pack(commit)


class DataDirectory:
    """An open data directory. No other store can open it until it is closed."""

    def __init__(self, path: Path, store: str) -> None:
        """Open the directory, or make a new one for this store.

        Raises DataDirectoryInUse, DataDirectoryOfAnother, DataDirectoryNewer, DataDirectoryOlder,
        DataDirectoryCorrupt, InvalidArgument, StorageFailed.
        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock_for_writing(path)
        except (FileExistsError, NotADirectoryError) as error:
            detail = f"{path} is a file, or would be in one; name a directory, or a new path"
            raise InvalidArgument("data_directory", detail) from error
        except OSError as error:
            raise StorageFailed(str(path), str(error)) from error
        try:
            identity = read_identity(path)
            if identity is None:
                identity = self._make(store)
            if identity.store != store:
                raise DataDirectoryOfAnother(str(path), identity.store, store)
            self.identity = identity
            self._mark = _map_mark(path)
        except OSError as error:
            os.close(self._lock)
            raise StorageFailed(str(path), str(error)) from error
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def database(self) -> Path:
        return self.path / "rocksdb"

    @property
    def is_new(self) -> bool:
        """Whether no commit was acknowledged yet, so that there need not be a database."""
        return self.acknowledged == 0

    @property
    def acknowledged(self) -> int:
        """The number of the last commit known to be synced."""
        return int(_MARK.unpack_from(self._mark)[0])

    @acknowledged.setter
    def acknowledged(self, commit: int) -> None:
        _MARK.pack_into(self._mark, 0, commit)

    def check_recovered(self, commit: int) -> None:
        """Raise DataDirectoryCorrupt if an acknowledged commit is missing.

        commit: the number of the last commit that was recovered.
        """
        if commit < self.acknowledged:
            raise DataDirectoryCorrupt(
                str(self.path),
                f"commit {self.acknowledged} was acknowledged, but the last one there is {commit}",
            )

    def free_bytes(self) -> int:
        """Return how many bytes the store may still write there."""
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize

    def close(self) -> None:
        self._mark.close()
        os.close(self._lock)

    def _make(self, store: str) -> Identity:
        # The file's length must outlive a power failure: a store does not start without its mark.
        write_synced(self.path / MARK_FILE, pack_mark(0))
        return self._write_format(store)

    def _write_format(self, store: str) -> Identity:
        text = json.dumps({"format": FORMAT, "store": store})
        replace_file(self.path / FORMAT_FILE, f"{text}\n".encode())
        return Identity(store)


def lock_for_reading(path: Path) -> int:
    """Keep stores out of a data directory until the returned descriptor is closed.

    Raises DataDirectoryInUse, or InvalidArgument if the directory is no store's.
    """
    try:
        descriptor = os.open(path / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        detail = f"{path} is not a store's data directory: it has no lock ({error.strerror})"
        raise InvalidArgument("directory", detail) from None
    _lock(path, descriptor, fcntl.LOCK_SH)
    return descriptor


def _lock_for_writing(path: Path) -> int:
    descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    _lock(path, descriptor, fcntl.LOCK_EX)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _lock(path: Path, descriptor: int, how: int) -> None:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise DataDirectoryInUse(str(path), f"process {holder or 'unknown'}") from None


def _map_mark(path: Path) -> mmap.mmap:
    try:
        with (path / MARK_FILE).open("r+b") as file:
            return mmap.mmap(file.fileno(), _MARK.size)
    except (FileNotFoundError, ValueError):
        detail = "the file 'acknowledged' is missing or too short"
        raise DataDirectoryCorrupt(str(path), detail) from None
