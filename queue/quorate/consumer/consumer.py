"""The consumer: iterate over it for the jobs of a queue. Applications open it by `Client.queue`.

The link to the dispatcher is in quorate.consumer.io.link.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self

from quorate.consumer.io.link import Link
from quorate.consumer.job import Job
from quorate.consumer.settling import Ledger
from quorate.protocol.delays import RECONNECT, Delays
from quorate.protocol.errors import (
    Closed,
    InvalidArgument,
    NotYetSettled,
    QuorateError,
    Unreachable,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.queues import MAX_BACKLOG_MOST, check_consumer, check_queue
from quorate.protocol.timeouts import check_timeout
from quorate.transport import forks
from quorate.transport.connections import Connections
from quorate.v1 import queue_pb2 as v1

OPEN_SECONDS = 30.0
CLOSE_SECONDS = 10.0


class Consumer:
    """A consumer of a queue: each message of the queue goes to one of its consumers."""

    def __init__(
        self, queue: str, link: Link, ledger: Ledger, on_closed: Callable[[], object] | None
    ) -> None:
        """Wrap a link. Applications use `Client.queue`."""
        self._queue = queue
        self._link = link
        self._ledger = ledger
        self._tracing = link.tracing
        self._on_closed = on_closed
        self._running = asyncio.create_task(link.run())
        self._is_closing = False
        self._closed = asyncio.Event()

    @classmethod
    async def open(
        cls,
        queue: str,
        *,
        stores: Sequence[StoreAddress],
        max_backlog: int = 1,
        name: str | None = None,
        timeout: float | None = OPEN_SECONDS,
        delays: Delays = RECONNECT,
        connections: Connections,
        on_closed: Callable[[], object] | None = None,
    ) -> Consumer:
        """Return a consumer that a dispatcher has taken. Applications use `Client.queue`."""
        forks.check()
        check_timeout(timeout)
        is_whole = isinstance(max_backlog, int) and not isinstance(max_backlog, bool)
        if not (is_whole and 1 <= max_backlog <= MAX_BACKLOG_MOST):
            raise InvalidArgument(
                "max_backlog", f"{max_backlog!r} is not between 1 and {MAX_BACKLOG_MOST:,}"
            )
        opening = v1.ConsumeOpen(
            queue=check_queue(queue),
            name=check_consumer(socket.gethostname() if name is None else name),
            max_backlog=max_backlog,
            protocol_version=PROTOCOL_VERSION,
        )
        ledger = Ledger()
        link = Link(opening, stores, ledger, delays, connections)
        consumer = cls(queue, link, ledger, on_closed)
        try:
            async with asyncio.timeout(timeout):
                await link.begun.wait()
        except TimeoutError:
            error = link.error or Unreachable(stores[0].address, "it did not answer in time")
            await consumer._end(Closed(f"The consumer of {queue}"))
            raise error from None
        except BaseException:
            await consumer._end(Closed(f"The consumer of {queue}"))
            raise
        if consumer._running.done() and link.error is not None:
            raise link.error
        return consumer

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._queue

    def __aiter__(self) -> AsyncIterator[Job]:
        return self

    async def __anext__(self) -> Job:
        """Return the next job, when there is one.

        Raises Closed, or what opening raises if no store can mend it.
        """
        job = await self._link.next()
        if self._tracing is not None:
            job._trace(self._tracing)
        return job

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was said of jobs is stable. Raises NotYetSettled."""
        check_timeout(timeout)
        try:
            async with asyncio.timeout(timeout):
                await self._ledger.all_answered()
        except TimeoutError:
            raise self._not_settled("it took too long") from None

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Give back the jobs that were not taken, and wait until all that was said is stable.

        A job that was taken and not settled is handed to another consumer, and that counts as a
        try. Raises NotYetSettled if timeout seconds were not enough. It is closed in each case.
        """
        forks.check()
        if self._is_closing:
            await self._closed.wait()
            return
        self._is_closing = True
        try:
            if self._link.is_linked:
                self._link.leave()
                await self.flush(timeout)
            elif self._ledger.unsettled_jobs:
                await self.flush(timeout)
        finally:
            await self._end(Closed(f"The consumer of {self._queue}"))

    async def _end(self, error: QuorateError) -> None:
        if self._ledger.unsettled_jobs:
            self._ledger.end(self._not_settled("the consumer was closed"))
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        self._link.end(error)
        self._closed.set()
        if self._on_closed is not None:
            self._on_closed()

    def _not_settled(self, detail: str) -> NotYetSettled:
        return NotYetSettled(self._queue, self._ledger.unsettled_jobs, detail)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except QuorateError:
            # The error from inside is what matters; an error of the close must not hide it.
            if error is None:
                raise
