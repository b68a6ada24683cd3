"""The inbox between the streams and the application: batches ready for delivery, bounded in bytes.

Acknowledgements are not known here.
"""

from __future__ import annotations

import asyncio
from collections import deque

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.receiver.message import DeliveredBatch


class Inbox:
    """A queue of batches. A task that fills it first waits for space."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._batches: deque[DeliveredBatch] = deque()
        self._taken: dict[SourceName, int] = {}
        self._filled = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()
        self._error: BaseException | None = None
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether as many bytes wait as may."""
        return self._bytes >= self._bytes_max

    @property
    def error(self) -> BaseException | None:
        """The error because of which nothing more will come; None: there is none."""
        return self._error

    def put(self, batch: DeliveredBatch) -> None:
        """Add a batch, also past the bound. A closed inbox drops it."""
        if self._closed:
            return
        self._batches.append(batch)
        self._bytes += batch.size
        self._filled.set()
        if self._bytes >= self._bytes_max:
            self._space.clear()

    async def space(self) -> None:
        """Wait until the inbox is not full."""
        await self._space.wait()

    async def filled(self) -> bool:
        """Wait for a batch. Return False once closed; raise what `fail` was given."""
        while True:
            if self._error is not None:
                raise self._error
            if self._closed:
                return False
            if self._batches:
                return True
            self._filled.clear()
            await self._filled.wait()

    def take(self) -> DeliveredBatch | None:
        """Deliver the next batch; None: there is none."""
        if not self._batches or self._closed or self._error is not None:
            return None
        batch = self._batches.popleft()
        self._bytes -= batch.size
        self._taken[batch.source] = batch.last
        if self._bytes < self._bytes_max:
            self._space.set()
        return batch

    def take_back(self, source: SourceName, first: int) -> int:
        """Drop what was not delivered of this source from this sequence number on.

        Return the last number of the source that was delivered.
        """
        kept: deque[DeliveredBatch] = deque()
        for batch in self._batches:
            if batch.source != source or batch.last < first:
                kept.append(batch)
            elif batch.first < first:
                kept.append(batch.part(batch.first, first - 1))
        self._batches = kept
        self._bytes = sum(batch.size for batch in kept)
        if self._bytes < self._bytes_max:
            self._space.set()
        taken = self._taken.get(source, NOTHING)
        # Other messages come next under these numbers, and none of them was delivered.
        self._taken[source] = min(taken, first - 1)
        return taken

    def fail(self, error: BaseException) -> None:
        """End the inbox with this error."""
        self._error = self._error or error
        self._filled.set()

    def close(self) -> None:
        """End the inbox."""
        self._closed = True
        self._filled.set()
        self._space.set()
