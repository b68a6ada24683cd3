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

    async def done(self, until: float | None = None) -> None:
        """Wait until all that was kept before this call is on the disk.

        until: the loop's time at which the wait ends; None: no limit. Raises StorageFailed.
        Raises TimeoutError, also once the syncs were stopped.
        """
        if self._next is None:
            self._next = self._loop.create_task(self._sync(self._running))
            self._next.add_done_callback(self._report)
        sync = self._next
        left = None if until is None else max(0.0, until - self._loop.time())
        # A caller that is cancelled, or waits no longer, must not cancel the sync of the others.
        await asyncio.wait({sync}, timeout=left)
        if not sync.done() or sync.cancelled():
            raise TimeoutError
        sync.result()

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

    async def stop(self, timeout: float) -> bool:
        """Wait for the syncs that were asked for, at most so many seconds.

        Return whether all of them have ended. A disk that hangs keeps the thread, and nothing else.
        """
        syncs = {sync for sync in (self._running, self._next) if sync is not None}
        hanging = (await asyncio.wait(syncs, timeout=timeout))[1] if syncs else set()
        for sync in hanging:
            sync.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=not hanging)
        return not hanging
