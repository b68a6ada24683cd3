"""The jobs and answers for one consumer, gathered into responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from quorate.protocol.errors import QuorateError
from quorate.protocol.limits import RESPONSE_BYTES_TARGET
from quorate.queue.io.lot import jobs_of
from quorate.queue.protocol.consumers import Consumer
from quorate.queue.protocol.track import Entry
from quorate.v1 import queue_pb2 as v1


class Outbox:
    """The jobs and answers that one consumer is to be sent."""

    def __init__(self, consumer: Consumer, peer: str) -> None:
        """Begin empty. peer: the address of the consumer, for people."""
        self.consumer = consumer
        self.peer = peer
        self._entries: list[Entry] = []
        self._settled_upto = 0
        self._is_answered = False
        self._filled = asyncio.Event()
        self._error: QuorateError | None = None
        self._is_finished = False

    def hand(self, entries: Sequence[Entry]) -> None:
        """Send jobs."""
        self._entries += entries
        self._filled.set()

    def answer(self, settled_upto: int) -> None:
        """Say that all settlements up to this number are stable."""
        self._settled_upto = settled_upto
        self._is_answered = True
        self._filled.set()

    def end(self, error: QuorateError) -> None:
        """End the call with this error."""
        self._error = error
        self._filled.set()

    def finish(self) -> None:
        """End the call: the consumer has said all that it has to say."""
        self._is_finished = True
        self._filled.set()

    async def responses(self) -> AsyncIterator[v1.ConsumeResponse]:
        """Yield responses as there is something to send. Raises the error that ends the call."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            if self._error is not None:
                raise self._error
            if self._is_finished:
                return
            response, size = v1.ConsumeResponse(), 0
            if self._is_answered:
                response.settled_upto, self._is_answered = self._settled_upto, False
            entries, self._entries = self._entries, []
            # A lease may have ended while the consumer was slow to take what it was sent before.
            for jobs in jobs_of(filter(self._has_lease, entries)):
                response.jobs.append(jobs)
                size += len(jobs.batch)
                if size > RESPONSE_BYTES_TARGET:
                    yield response
                    response, size = v1.ConsumeResponse(), 0
            if response.jobs or response.settled_upto:
                yield response

    def _has_lease(self, entry: Entry) -> bool:
        return entry.lease is not None and entry.lease.consumer is self.consumer
