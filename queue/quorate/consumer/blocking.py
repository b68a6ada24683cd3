"""The consumer for code without asyncio: the same methods, the same errors, a plain `for`.

The call runs on the process's background loop; each job crosses to the calling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from quorate.consumer.consumer import CLOSE_SECONDS, OPEN_SECONDS
from quorate.consumer.consumer import Consumer as AsyncConsumer
from quorate.consumer.job import Job as AsyncJob
from quorate.protocol.delays import RECONNECT, Delays
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.subscriber.items import ReplayedMessage
from quorate.transport.blocking import run_blocking
from quorate.transport.connections import Connections


class Job:
    """A message of a queue, which no other consumer has at the time.

    Say what became of it with one of `done`, `retry` and `discard`. Each returns once that is
    stable.
    """

    def __init__(self, job: AsyncJob) -> None:
        """Wrap a job. Applications use a consumer."""
        self._job = job

    @property
    def payload(self) -> bytes:
        """The content of the message."""
        return self._job.payload

    @property
    def sequence(self) -> int:
        """The position of the message in its source's stream."""
        return self._job.sequence

    @property
    def tries(self) -> int:
        """How often the message was handed out, this time included."""
        return self._job.tries

    @property
    def message(self) -> ReplayedMessage:
        """The message, with its time, its bookmark and all else."""
        return self._job.message

    @property
    def key(self) -> bytes | None:
        """The key of the message; None: it has no key."""
        return self._job.key

    @property
    def properties(self) -> Mapping[str, bytes]:
        """The properties of the message, values by name."""
        return self._job.properties

    @property
    def source(self) -> SourceName:
        """The source that sent the message."""
        return self._job.source

    @property
    def topic(self) -> str:
        """The topic of the message."""
        return self._job.topic

    def done(self) -> None:
        """Say that the job is done. As quorate.consumer.Job.done, awaited."""
        run_blocking(_done(self._job))

    def retry(self, delay: float = 0.0, reason: str = "") -> None:
        """Say that the job failed, and is to be handed out again. As quorate.consumer.Job.retry."""
        run_blocking(_retried(self._job, delay, reason))

    def discard(self, reason: str = "") -> None:
        """Say that the job can never be done. As quorate.consumer.Job.discard."""
        run_blocking(_discarded(self._job, reason))

    def extend(self) -> None:
        """Ask for more time. As quorate.consumer.Job.extend, awaited."""
        run_blocking(_extended(self._job))

    def __repr__(self) -> str:
        return repr(self._job)


class Consumer:
    """A consumer of a queue: quorate.consumer.Consumer for code without asyncio."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        """Wrap an open consumer. Applications use `Client.queue`."""
        self._consumer = consumer

    @classmethod
    def open(
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
        """Return a consumer that a dispatcher has taken.

        Arguments and errors are those of quorate.consumer.Consumer.open. The background loop uses
        the connections.
        """
        return cls(
            run_blocking(
                AsyncConsumer.open(
                    queue,
                    stores=stores,
                    max_backlog=max_backlog,
                    name=name,
                    timeout=timeout,
                    delays=delays,
                    connections=connections,
                    on_closed=on_closed,
                )
            )
        )

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._consumer.queue

    def __iter__(self) -> Iterator[Job]:
        """Yield jobs, one by one. Raises what quorate.consumer.Consumer does."""
        while True:
            yield Job(run_blocking(_next(self._consumer)))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was said of jobs is stable. Raises NotYetSettled."""
        run_blocking(self._consumer.flush(timeout))

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Give back the jobs that were not taken. As quorate.consumer.Consumer.close."""
        run_blocking(self._closing(timeout))

    async def _closing(self, timeout: float) -> None:
        await self._consumer.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run_blocking(self._consumer.__aexit__(kind, error, traceback))


async def _next(consumer: AsyncConsumer) -> AsyncJob:
    return await anext(consumer)


# A job is settled on the background loop.


async def _done(job: AsyncJob) -> None:
    await job.done()


async def _retried(job: AsyncJob, delay: float, reason: str) -> None:
    await job.retry(delay, reason)


async def _discarded(job: AsyncJob, reason: str) -> None:
    await job.discard(reason)


async def _extended(job: AsyncJob) -> None:
    await job.extend()
