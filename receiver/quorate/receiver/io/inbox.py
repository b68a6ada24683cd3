"""The inbox between the streams and the application: batches ready for delivery, bounded in bytes.

Acknowledgements are not known here.
"""

from __future__ import annotations

import asyncio
from collections import deque

from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.payloads import PayloadFormat
from quorate.receiver.message import DeliveredBatch


class Inbox:
    """A queue of batches. A task that fills it first waits for space."""

    def __init__(
        self,
        bytes_max: int,
        where: Filter | None = None,
        form: PayloadFormat = PayloadFormat.JSON,
    ) -> None:
        """Begin empty.

        - where: leaves out the messages for which it is not true; None: takes all.
        - form: the format of the payloads.
        """
        self._form = form
        self._where = where
        self._bytes_max = bytes_max
        self._bytes = 0
        self._batches: deque[DeliveredBatch] = deque()
        self._again: deque[DeliveredBatch] = deque()
        """The batches that were delivered before. They come first."""
        self._delayed_bytes = 0
        """The bytes of the batches that are to come again later. They are a part of _bytes."""
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
    def undecoded(self) -> int:
        """How many payloads are not of their format, of those that the filter looked into."""
        return 0 if self._where is None else self._where.undecoded

    @property
    def error(self) -> BaseException | None:
        """The error because of which nothing more will come; None: there is none."""
        return self._error

    def put(self, batch: DeliveredBatch) -> None:
        """Add a batch, also past the bound. A closed inbox drops it."""
        if self._closed:
            return
        if self._where is None:
            self._add(batch)
            return
        for part in batch._passing(self._where, self._form):
            self._add(part)

    def delay(self, batch: DeliveredBatch) -> None:
        """Count a batch that is to come again later: it waits in memory, too."""
        self._delayed_bytes += batch.size
        self._count(batch.size)

    def due(self, batch: DeliveredBatch, *, wanted: bool) -> None:
        """Add a batch that was delayed. wanted: whether it is to come again."""
        self._delayed_bytes -= batch.size
        if wanted:
            self._again.append(batch)
            self._filled.set()
        else:
            self._count(-batch.size)

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
            if self._again or self._batches:
                return True
            self._filled.clear()
            await self._filled.wait()

    def take(self) -> DeliveredBatch | None:
        """Deliver the next batch; None: there is none."""
        if self._closed or self._error is not None:
            return None
        if self._again:
            batch = self._again.popleft()
        elif self._batches:
            batch = self._batches.popleft()
            self._taken[batch.source] = batch.last
        else:
            return None
        self._count(-batch.size)
        return batch

    def take_back(self, source: SourceName, first: int) -> int:
        """Drop what was not delivered of this source from this sequence number on.

        Return the last number of the source that was delivered.
        """
        self._batches = _without(self._batches, source, first)
        self._again = _without(self._again, source, first)
        kept = sum(batch.size for batch in (*self._batches, *self._again))
        self._count(kept + self._delayed_bytes - self._bytes)
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

    def _add(self, batch: DeliveredBatch) -> None:
        self._batches.append(batch)
        self._count(batch.size)
        self._filled.set()

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes >= self._bytes_max:
            self._space.clear()
        else:
            self._space.set()


def _without(
    batches: deque[DeliveredBatch], source: SourceName, first: int
) -> deque[DeliveredBatch]:
    """Return the batches without what is of this source, and has this number or a higher one."""
    kept: deque[DeliveredBatch] = deque()
    for batch in batches:
        if batch.source != source or batch.last < first:
            kept.append(batch)
        elif batch.first < first:
            kept.append(batch._part(batch.first, first - 1))
    return kept
