"""The link of a consumer to the dispatcher of its queue, wherever that is now.

It asks one store after the other until one dispatches, and again when that one fails. Settlements
that nobody has answered go to the next dispatcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import grpc.aio

from quorate.consumer.job import Job
from quorate.consumer.settling import Ledger
from quorate.protocol.delays import Delays
from quorate.protocol.errors import QuorateError, UnknownQueue, Unreachable
from quorate.protocol.framing import body_of, check_batch
from quorate.protocol.identity import StoreAddress
from quorate.subscriber.items import ReplayedBatch
from quorate.transport.connections import Connections
from quorate.transport.delays import delay
from quorate.transport.failures import errors_of_queues
from quorate.v1 import queue_pb2 as v1
from quorate.v1.queue_pb2_grpc import QueueStub

_log = logging.getLogger("quorate.consumer")


class Link:
    """The link of one consumer."""

    def __init__(
        self,
        opening: v1.ConsumeOpen,
        stores: Sequence[StoreAddress],
        ledger: Ledger,
        delays: Delays,
        connections: Connections,
    ) -> None:
        """Begin unconnected. opening: what each dispatcher is told first."""
        self._opening = opening
        self._stores = stores
        self._ledger = ledger
        self._delays = delays
        self._connections = connections
        self.tracing = connections.tracing
        self._loop = asyncio.get_running_loop()
        self._turn = 0
        self._jobs: deque[Job] = deque()
        self._filled = asyncio.Event()
        self._lease_seconds = 0.0
        self._lease_ends: deque[tuple[float, int]] = deque()
        """When the leases of jobs that wait here end, and of how many."""
        self._part = b""
        self._call: Any = None
        self._silence: Unreachable | None = None
        self.begun = asyncio.Event()
        """Is set once a dispatcher has taken the consumer, or the consumer has failed."""
        self.error: QuorateError | None = None
        """The reason why the link ended, or why the last store gave no jobs."""
        self._has_failed = False

    # -- jobs -------------------------------------------------------------------------------

    async def next(self) -> Job:
        """Return the next job. Raises the error that ended the link."""
        while True:
            while self._jobs:
                job = self._jobs.popleft()
                if self._is_in_time():
                    return job
                # It waited here for too long. Another consumer has it by now.
                self._give_back(job)
            if self._has_failed and self.error is not None:
                raise self.error
            self._filled.clear()
            await self._filled.wait()

    def _is_in_time(self) -> bool:
        """Count a job that was taken, and return whether its lease lasts."""
        ends_at, jobs = self._lease_ends[0]
        if jobs > 1:
            self._lease_ends[0] = ends_at, jobs - 1
        else:
            self._lease_ends.popleft()
        return self._loop.time() < ends_at

    def _give_back(self, job: Job) -> None:
        source = job.source
        self._ledger.say(source, job.message.epoch, job.sequence, v1.SETTLEMENT_KIND_RETURN)

    @property
    def is_linked(self) -> bool:
        """Whether a dispatcher has taken the consumer."""
        return self.begun.is_set() and not self._has_failed

    def leave(self) -> None:
        """Take no more jobs, and give back those that the application has not taken."""
        self._ledger.leave()
        for job in self._jobs:
            self._give_back(job)
        self._jobs.clear()
        self._lease_ends.clear()

    # -- one store after the other ----------------------------------------------------------

    async def run(self) -> None:
        """Keep up the link until cancelled, or until no store can mend it."""
        failures, unknown = 0, set[str]()
        while True:
            store = self._stores[self._turn % len(self._stores)]
            self.begun.clear()
            try:
                await self._consume(store)
            except QuorateError as error:
                self.error = error
                if self.begun.is_set():
                    failures, unknown = 0, set()
                    _log.info("the consumer leaves store %s: %s", store.name, error)
                if isinstance(error, UnknownQueue):
                    unknown.add(store.name)
                    if len(unknown) == len(self._stores):
                        return self._fail(error)
                elif not error.retryable and not isinstance(error, Unreachable):
                    return self._fail(error)
            self._turn += 1
            failures += 1
            if failures % len(self._stores) == 0:
                await asyncio.sleep(delay(self._delays, failures // len(self._stores)))

    def end(self, error: QuorateError) -> None:
        """Raise this error to everybody who waits for a job."""
        self.error = error
        self._fail(error)

    def _fail(self, error: QuorateError) -> None:
        self._has_failed = True
        self._ledger.end(error)
        self.begun.set()
        self._filled.set()

    async def _consume(self, store: StoreAddress) -> None:
        """Take jobs from a store until it fails. Raises why."""
        self._silence = None
        with self._connections.connect(store.address, self._told) as connection:
            call = self._call = QueueStub(connection.channel).Consume()
            writing: asyncio.Task[None] | None = None
            try:
                with self._failing(store):
                    await call.write(v1.ConsumeRequest(open=self._opening))
                    response = await self._read(store, call)
                    self._lease_seconds = response.lease_seconds
                    self.begun.set()
                    writing = asyncio.create_task(self._write(call))
                    while True:
                        self._take(await self._read(store, call), store.address)
            finally:
                call.cancel()
                if writing is not None:
                    writing.cancel()
                    await asyncio.gather(writing, return_exceptions=True)
                # The next dispatcher hands them out, to whichever consumer it is.
                self._jobs.clear()
                self._lease_ends.clear()
                self._part = b""

    async def _write(self, call: Any) -> None:
        """Say what was said and not answered, and what is said from now on."""
        # A call that has failed is noticed by its reader.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            for request in list(self._ledger.unanswered):
                await call.write(v1.ConsumeRequest(settlements=request))
            while True:
                await call.write(v1.ConsumeRequest(settlements=await self._ledger.next()))

    async def _read(self, store: StoreAddress, call: Any) -> v1.ConsumeResponse:
        response = await call.read()
        if not isinstance(response, v1.ConsumeResponse):
            raise Unreachable(store.address, "it ended the call")
        return response

    def _take(self, response: v1.ConsumeResponse, where: str) -> None:
        if response.settled_upto:
            self._ledger.answer(response.settled_upto)
        before = len(self._jobs)
        for jobs in response.jobs:
            if jobs.more:
                self._part += jobs.batch
                continue
            self._jobs.extend(self._read_jobs(jobs, self._part + jobs.batch, where))
            self._part = b""
        if came := len(self._jobs) - before:
            self._lease_ends.append((self._loop.time() + self._lease_seconds, came))
            self._filled.set()

    def _read_jobs(self, jobs: v1.Jobs, frame: bytes, where: str) -> Iterator[Job]:
        header = check_batch(frame, where)
        count = header.last - header.first + 1
        numbers = [header.first + offset for offset in jobs.offsets or range(count)]
        tries: Iterable[int] = jobs.tries or [0] * count
        batch = ReplayedBatch(header, body_of(frame, header), slice(0, count), numbers)
        ledger = self._ledger
        rows = zip(range(count), numbers, batch.payloads, tries, strict=True)
        for row, number, payload, tried in rows:
            yield Job(ledger, batch, row, number, payload, tried + 1)

    @contextlib.contextmanager
    def _failing(self, store: StoreAddress) -> Iterator[None]:
        """Raise one of Quorate's errors if the call fails, or the store is silent."""
        try:
            with errors_of_queues(store, self._opening.queue):
                yield
        except asyncio.CancelledError:
            # To its reader, a cancelled call looks like its own cancellation.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            cancelled = Unreachable(store.address, "the call was cancelled")
            raise self._silence or cancelled from None

    def _told(self, silence: Unreachable | None) -> None:
        """Leave a store that has become silent."""
        if silence is not None and self._call is not None:
            self._silence = silence
            self._call.cancel()
