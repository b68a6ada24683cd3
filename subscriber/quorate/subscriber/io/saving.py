"""The saving of a subscription's position in a bookmark store, by a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import BookmarkStoreFailed, QuorateError
from quorate.subscriber.bookmarks import BookmarkStore, new_owner

_log = logging.getLogger("quorate.subscriber")


class Saving:
    """Saves the position of one subscription, now and then and at its end."""

    def __init__(
        self,
        bookmarks: BookmarkStore,
        name: str,
        interval: float,
        every: int | None,
        position: Callable[[], Position | None],
        not_saved: Callable[[BookmarkStoreFailed], None],
        on_failure: Callable[[], None],
    ) -> None:
        """Begin without a position.

        - interval: seconds between two savings.
        - every: how many messages are consumed before it saves sooner; None: it never does.
        - position: returns the position before everything that is not consumed; None: there is
          none yet.
        - not_saved: is called when the position begins to be refused.
        - on_failure: is called if another subscriber has claimed the name.
        """
        self._bookmarks = bookmarks
        self._name = name
        self._interval = interval
        self._every = every
        self._unsaved = 0
        """How many messages were consumed since the last saving began."""
        self._is_due = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._position = position
        self._not_saved = not_saved
        self._on_failure = on_failure
        self._writing: asyncio.Future[None] | None = None
        """The call of the bookmark store that is under way."""
        self._owner = new_owner()
        self._saved: Position | None = None
        self._task: asyncio.Task[None] | None = None
        self.failure: QuorateError | None = None
        """Why the position can never be saved again; None: it can, or it may be later."""

    async def claim(self) -> Position | None:
        """Claim the name, and return the position that was saved last."""
        self._saved = await asyncio.to_thread(self._bookmarks.claim, self._name, self._owner)
        self._task = asyncio.create_task(self._run())
        return self._saved

    def consumed(self) -> None:
        """Count a message that is consumed, from any thread. Save once there are enough."""
        self._unsaved += 1
        if self._unsaved == self._every and self._task is not None and not self._task.done():
            self._loop.call_soon_threadsafe(self._is_due.set)

    async def close(self, timeout: float) -> None:
        """Save once more, within so many seconds. Raises what the bookmark store raises."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(timeout):
                if self._writing is not None:
                    await asyncio.wait({self._writing})
                await self._save()
        except TimeoutError:
            raise BookmarkStoreFailed(self._name, f"it did not save in {timeout:g} s") from None

    async def _run(self) -> None:
        is_failing = False
        while self.failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._is_due.wait()
            self._is_due.clear()
            self._unsaved = 0
            try:
                await self._save()
                is_failing = False
            except BookmarkStoreFailed as error:
                # A file that is locked or a quorum that is lost comes back: the next one may do.
                if not is_failing:
                    _log.warning("the position of %s is not saved for now: %s", self._name, error)
                    self._not_saved(error)
                is_failing = True
            except QuorateError as error:
                _log.error("the position of %s can no longer be saved: %s", self._name, error)
                self.failure = error
                self._on_failure()

    async def _save(self) -> None:
        position = self._position()
        if position is None or position == self._saved:
            return
        self._writing = asyncio.ensure_future(
            asyncio.to_thread(self._bookmarks.save, self._name, self._owner, position)
        )
        try:
            # A thread cannot be cancelled.
            await asyncio.shield(self._writing)
        except QuorateError:
            raise
        except Exception as error:
            raise BookmarkStoreFailed(self._name, repr(error)) from error
        self._saved, self._writing = position, None
