"""A publish store on a disk that hangs until the test lets it go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from quorate.source import FilePublishStore

_WITHOUT_END = 1 << 20


class HeldDisk(FilePublishStore):
    """A publish store whose syncs wait, one by one, until they are released."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, sync=True)
        self._released = threading.Semaphore(0)

    def release(self, syncs: int = _WITHOUT_END) -> None:
        """Let so many syncs end."""
        self._released.release(syncs)

    def syncing(self) -> Callable[[], None]:
        sync = super().syncing()

        def held() -> None:
            self._released.acquire()
            sync()

        return held
