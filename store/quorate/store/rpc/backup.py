"""The call Backup: the store's data directory as it is at one moment, file by file.

Nothing of the store changes. The bytes are those of storage.checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from pathlib import Path

from quorate.protocol.errors import StorageUnreadable
from quorate.store.storage import checkpoint
from quorate.store.storage.data_directory import DataDirectory
from quorate.store.storage.group_commit import Writer
from quorate.store.tasks.executor import Apart
from quorate.v1 import store_pb2 as store_v1

_PIECE_BYTES = 256 * 1024


class Backups:
    """The backups of one store, one at a time."""

    def __init__(
        self, directory: DataDirectory, database: checkpoint.Copied, writer: Writer, apart: Apart
    ) -> None:
        """apart: runs a function in a thread."""
        self._directory = directory
        self._database = database
        self._writer = writer
        self._apart = apart
        self._turn = asyncio.Lock()

    async def serve(self) -> AsyncGenerator[store_v1.BackupResponse, None]:
        """Yield the directory as it is once all that was submitted so far is durable.

        Raises StorageFailed, StorageUnreadable.
        """
        directory, apart = self._directory, self._apart
        async with self._turn:
            await self._writer.durable(self._writer.submit(()))
            commit = directory.acknowledged
            try:
                path = await apart(partial(checkpoint.make, directory.path, commit, self._database))
                files = await apart(lambda: list(checkpoint.files(path)))
                opened = store_v1.BackupOpened(
                    store_name=directory.identity.store,
                    commit=commit,
                    bytes=sum(file.size for file in files),
                )
                yield store_v1.BackupResponse(opened=opened)
                for file in files:
                    named = store_v1.BackupFile(path=file.path, size=file.size)
                    yield store_v1.BackupResponse(file=named)
                    following = partial(next, _pieces(path / file.path), b"")
                    while piece := await apart(following):
                        yield store_v1.BackupResponse(data=piece)
                yield store_v1.BackupResponse(done=store_v1.BackupDone(files=len(files)))
            finally:
                await apart(partial(checkpoint.remove, directory.path))


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file. Raises StorageUnreadable."""
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError as error:
        raise StorageUnreadable(str(path), str(error)) from error
