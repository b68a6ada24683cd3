"""Between the streams and the application: batches that can be handed over, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.receiver.message import DeliveredBatch


class Inbox:
    """A queue of batches; who fills it asks `full` first, and waits for space."""

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
        return self._bytes >= self._bytes_max

    @property
    def waiting_bytes(self) -> int:
        return self._bytes

    @property
    def error(self) -> BaseException | None:
        """Why nothing will come any more, if so."""
        return self._error

    def put(self, batch: DeliveredBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.size
        self._filled.set()
        if self._bytes >= self._bytes_max:
            self._space.clear()

    async def space(self) -> None:
        """Wait until it is not full."""
        await self._space.wait()

    async def filled(self) -> bool:
        """Wait for a batch; False once closed. Raises what `fail` was given."""
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
        """Hand over the next batch, if there is one."""
        if not self._batches or self._closed or self._error is not None:
            return None
        batch = self._batches.popleft()
        self._bytes -= batch.size
        self._taken[batch.source] = batch.last
        if self._bytes < self._bytes_max:
            self._space.set()
        return batch

    def take_back(self, source: SourceName, first: int) -> int:
        """Drop what is not handed over of this source from this number on.

        Returns the last number of the source that was handed over.
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
        # What comes next under these numbers is other messages, which nobody has been handed.
        self._taken[source] = min(taken, first - 1)
        return taken

    def fail(self, error: BaseException) -> None:
        """Nothing will come any more, for this reason."""
        self._error = self._error or error
        self._filled.set()

    def close(self) -> None:
        """Nothing will come any more."""
        self._closed = True
        self._filled.set()
        self._space.set()
