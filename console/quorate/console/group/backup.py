"""Backups of a group: a directory with a part for each store, and a manifest that is written last.

Each part is a data directory. Whether the parts together are enough is decided in
quorate.console.group.rules.backup_verdict.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import grpc.aio

from quorate.console.group.asking import answers_of
from quorate.console.group.channels import open_channel
from quorate.console.group.rules.backup_verdict import problems
from quorate.disk.files import replace_file, sync_directory
from quorate.protocol.errors import (
    InvalidArgument,
    NotAStore,
    QuorateError,
    StorageFailed,
    Unreachable,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.transport.failures import errors_of
from quorate.v1.store_pb2 import (
    BackupDone,
    BackupFile,
    BackupOpened,
    BackupRequest,
    BackupResponse,
)
from quorate.v1.store_pb2_grpc import StoreStub

MANIFEST = "backup.json"
_FORMAT = 1
_NAME = re.compile(r"\w[\w.-]*")
"""A name of a store, or a part of a path in its directory, that leads out of no directory."""


_PIECE_BYTES = 1 << 20

Told = Callable[[str, int, int], None]
"""Is called with a store, the bytes that were copied of its part, and the bytes of the part."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one store."""

    store: str
    commit: int
    """The number of a commit of the store that the part has for certain; 0: it is not known."""
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Backup:
    """The content of a manifest."""

    made: str
    """When the backup was complete, as UTC."""
    parts: tuple[Part, ...]
    problems: tuple[str, ...]
    """Its gaps in what is stable; none: a group can be founded anew from it."""

    def row(self) -> dict[str, Any]:
        """Return the backup for programs."""
        return asdict(self)


def new_directory(path: Path) -> None:
    """Make the directory of a backup. Raises InvalidArgument if it is there and not empty."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise InvalidArgument("directory", f"{path} is not empty; name a new one")
    except OSError as error:
        raise InvalidArgument("directory", f"{path} cannot be used: {error.strerror}") from None


async def copy_running(
    path: Path, stores: Sequence[StoreAddress], timeout: float, told: Told
) -> dict[StoreAddress, Part | QuorateError]:
    """Copy the directory of each running store as its part. Return errors in the places of parts.

    timeout: seconds that a store may be silent.
    """
    return await answers_of(stores, lambda store: _copy(path, store.address, timeout, told))


async def _copy(path: Path, address: str, timeout: float, told: Told) -> Part:
    writing = PartWriter(path, address, told)
    async with open_channel(address) as channel:
        with errors_of(address):
            call = StoreStub(channel).Backup(BackupRequest(protocol_version=PROTOCOL_VERSION))
            try:
                while writing.part is None:
                    async with asyncio.timeout(timeout):
                        answer = await call.read()
                    if answer is grpc.aio.EOF:
                        raise Unreachable(address, "it ended its backup too early")
                    await asyncio.to_thread(writing.take, answer)
            finally:
                call.cancel()
                writing.close()
    return writing.part


class PartWriter:
    """The writing of one part, as its store sends it."""

    def __init__(self, path: Path, address: str, told: Told) -> None:
        self._path = path
        self._address = address
        self._told = told
        self._file: BinaryIO | None = None
        self._store = ""
        self._left = self._commit = self._files = self._bytes = self._total = 0
        self.part: Part | None = None
        """The part, once it is complete."""

    def take(self, answer: BackupResponse) -> None:
        """Write an answer of the store. Raises StorageFailed, NotAStore."""
        try:
            match answer.WhichOneof("kind"):
                case "opened":
                    self._open(answer.opened)
                case "file":
                    self._begin(answer.file)
                case "data":
                    self._write(answer.data)
                case _:
                    self._end(answer.done.files)
        except OSError as error:
            raise StorageFailed(str(self._path), str(error)) from error

    def close(self) -> None:
        """Sync and close the file that is being written. Raises OSError."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def _open(self, opened: BackupOpened) -> None:
        self._store = self._checked(opened.store_name)
        self._commit, self._total = opened.commit, opened.bytes
        (self._path / self._store).mkdir()

    def _begin(self, file: BackupFile) -> None:
        self._check_whole()
        self.close()
        path = self._path.joinpath(self._store, *map(self._checked, file.path.split("/")))
        path.parent.mkdir(exist_ok=True)
        self._file = path.open("xb")
        self._left = file.size
        self._files += 1

    def _write(self, data: bytes) -> None:
        if self._file is None or len(data) > self._left:
            raise NotAStore(self._address, "its backup has more bytes than it said")
        self._file.write(data)
        self._left -= len(data)
        self._bytes += len(data)
        self._told(self._store, self._bytes, self._total)

    def _end(self, files: int) -> None:
        self._check_whole()
        self.close()
        if not self._store or files != self._files:
            raise NotAStore(self._address, "its backup has another number of files than it said")
        for directory in (self._path / self._store, *(self._path / self._store).rglob("*")):
            if directory.is_dir():
                sync_directory(directory)
        self.part = Part(self._store, self._commit, self._files, self._bytes)

    def _check_whole(self) -> None:
        if self._left:
            raise NotAStore(self._address, "its backup has fewer bytes than it said")

    def _checked(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise NotAStore(self._address, f"its backup has a file with the name {name!r}")
        return name


def copy_stopped(path: Path, directory: Path, told: Told) -> Part:
    """Copy the directory of a stopped store as its part. Raises as OfflineStore does."""
    from quorate.store.storage.checkpoint import files
    from quorate.store.storage.data_directory import lock_for_reading, read_identity

    lock = lock_for_reading(directory)
    try:
        identity = read_identity(directory)
        if identity is None:
            raise InvalidArgument("--directory", f"no store has used {directory} yet")
        writing = PartWriter(path, str(directory), told)
        found = list(files(directory))
        size = sum(file.size for file in found)
        writing.take(BackupResponse(opened=BackupOpened(store_name=identity.store, bytes=size)))
        for file in found:
            writing.take(BackupResponse(file=BackupFile(path=file.path, size=file.size)))
            with (directory / file.path).open("rb") as source:
                while data := source.read(_PIECE_BYTES):
                    writing.take(BackupResponse(data=data))
        writing.take(BackupResponse(done=BackupDone(files=len(found))))
    except OSError as error:
        raise StorageFailed(str(directory), str(error)) from error
    finally:
        os.close(lock)
    assert writing.part is not None
    return writing.part


def complete(path: Path, parts: Sequence[Part]) -> Backup:
    """Look into all parts, and write the manifest. Raises what OfflineStore raises."""
    from quorate.store.offline import OfflineStore

    found = {}
    for part in parts:
        with OfflineStore(path / part.store) as store:
            found[part.store] = store.sources()
    made = datetime.now(UTC).isoformat(timespec="seconds")
    backup = Backup(made, tuple(parts), tuple(problems(found)))
    text = json.dumps({"format": _FORMAT, **backup.row()}, indent=2)
    replace_file(path / MANIFEST, f"{text}\n".encode())
    return backup


def read_manifest(path: Path) -> Backup:
    """Return the manifest of a backup. Raises InvalidArgument if there is none that is readable."""
    try:
        fields = json.loads((path / MANIFEST).read_text())
        if fields["format"] != _FORMAT:
            raise InvalidArgument(
                "directory", f"{path} is a backup of another version, format {fields['format']}"
            )
        parts = tuple(Part(**part) for part in fields["parts"])
        return Backup(str(fields["made"]), parts, tuple(map(str, fields["problems"])))
    except FileNotFoundError:
        detail = f"{path} has no {MANIFEST}: it is no backup, or one that was cut off"
        raise InvalidArgument("directory", detail) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InvalidArgument("directory", f"{path / MANIFEST} cannot be read: {error!r}") from None
