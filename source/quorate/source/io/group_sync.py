"""Group commit of a publish store: every call that waits shares one sync with the others.

The syncs run in a thread of their own, one after the other. No timer paces them: a sync covers all
that was kept while the one before it ran. The kept messages are not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from quorate.protocol.errors import QuorateError
from quorate.source.protocol.flight_window import Window
from quorate.source.publish_store import PublishStore


class GroupSync:
    """The syncs of one publish store."""

    def __init__(
        self,
        publish_store: PublishStore,
        window: Window,
        failed: Callable[[QuorateError], None],
    ) -> None:
        """failed: gets the error of a sync that failed."""
        self._publish_store = publish_store
        self._window = window
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def done(self) -> None:
        """Wait until all that was kept before this call is on the disk. Raises StorageFailed."""
        if self._next is None:
            self._next = self._loop.create_task(self._sync(self._running))
            self._next.add_done_callback(self._report)
        # A caller that is cancelled must not cancel the sync of the others.
        await asyncio.shield(self._next)

    async def _sync(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        self._running, self._next = self._next, None
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "quorate-sync")
        with self._window.lock:
            sync = self._publish_store.syncing()
        await self._loop.run_in_executor(self._thread, sync)

    def _report(self, sync: asyncio.Task[None]) -> None:
        if not sync.cancelled() and isinstance(error := sync.exception(), QuorateError):
            self._failed(error)

    async def stop(self) -> None:
        """Wait for the syncs that were asked for."""
        syncs = {sync for sync in (self._running, self._next) if sync is not None}
        if syncs:
            await asyncio.wait(syncs)
        if self._thread is not None:
            self._thread.shutdown()
