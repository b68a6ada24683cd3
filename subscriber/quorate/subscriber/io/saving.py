"""The saving of a subscription's position in a bookmark store, by a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

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
        position: Callable[[], Position | None],
        on_failure: Callable[[], None],
    ) -> None:
        """Begin without a position.

        - interval: seconds between two savings.
        - position: returns the position before everything that is not consumed; None: there is
          none yet.
        - on_failure: is called once the position can no longer be saved.
        """
        self._bookmarks = bookmarks
        self._name = name
        self._interval = interval
        self._position = position
        self._on_failure = on_failure
        self._writing: asyncio.Future[None] | None = None
        """The call of the bookmark store that is under way."""
        self._owner = new_owner()
        self._saved: Position | None = None
        self._task: asyncio.Task[None] | None = None
        self.failure: QuorateError | None = None
        """Why the position can no longer be saved; None: it can."""

    async def claim(self) -> Position | None:
        """Claim the name, and return the position that was saved last."""
        self._saved = await asyncio.to_thread(self._bookmarks.claim, self._name, self._owner)
        self._task = asyncio.create_task(self._run())
        return self._saved

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
        while self.failure is None:
            await asyncio.sleep(self._interval)
            try:
                await self._save()
            except QuorateError as error:
                _log.error("the position of %s cannot be saved: %s", self._name, error)
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
