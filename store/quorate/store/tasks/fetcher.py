"""Fetching batches from one peer into this store, at the pace that it may have.

What is fetched, and how far it is stable, is told by the caller; what may be taken is decided in
quorate.store.rules.acceptor. A fetch that is cut off leaves what it brought: the next one goes on
from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NamedTuple

import grpc.aio

from quorate.protocol.answers import AnswerReading
from quorate.protocol.errors import BrokenAnswer, CorruptBatch, QuorateError, Unreachable
from quorate.protocol.framing import BatchHeader, check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.throttle import Pace
from quorate.transport.channels import open_channel
from quorate.transport.failures import error_from_call
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2_grpc import StoreStub

_log = logging.getLogger("quorate.store.tasks.fetcher")

ANSWER_SECONDS_MAX = 10.0
"""A peer that says nothing for so long is taken for away."""
_STEP_BYTES = 4 * 1024 * 1024
_STEP_BYTES_BUSY = 2 * 1024 * 1024


class PeerFailed(Exception):
    """A peer does not go on: what it did not give is to be had from others."""

    def __init__(self, error: QuorateError) -> None:
        super().__init__(str(error))
        self.error = error


class Fetching:
    """A fetch from one peer that is under way: iterates over the batches among its answers.

    It ends where the peer says that it has no more; raises PeerFailed if the peer breaks off.
    """

    def __init__(
        self,
        peer: str,
        wanted: Range,
        read: Callable[[], Awaitable[v1.FetchResponse | None]],
        close: Callable[[], object],
    ) -> None:
        """peer: its address. read: the next response, None if there is no more; raises PeerFailed.

        close: ends the call.
        """
        self._reading = AnswerReading(peer, wanted)
        self._read = read
        self._answers: Iterator[tuple[str, v1.FetchAnswer]] = iter(())
        self.close = close

    def __aiter__(self) -> Fetching:
        return self

    async def __anext__(self) -> v1.Fetched:
        try:
            while True:
                for kind, answer in self._answers:
                    if kind == "fetched":
                        return answer.fetched
                if self._reading.is_over:
                    raise StopAsyncIteration
                if (response := await self._read()) is None:
                    raise self._reading.cut_short()
                self._answers = self._reading.answers(response)
        except BrokenAnswer as error:
            raise PeerFailed(error) from None


Fetch = Callable[[SourceState, Range], Fetching]
"""Asks one peer for a range."""


class Filled(NamedTuple):
    """What came of a fetch."""

    messages: int
    failed: QuorateError | None
    """Why the peer did not give the rest; None: it has said all that it had to say."""


class Filler:
    """All that this store takes from its peers passes here, at the pace that it may have."""

    def __init__(
        self,
        engine: Engine,
        pace: Pace,
        reach: Callable[[str], AbstractAsyncContextManager[Fetch]],
        answering: Callable[[], Mapping[str, Heard]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """reach: makes a connection to the peer at an address, which lasts as long as the context.

        answering: what the peers say that are there. sleep: returns after so many seconds by the
        clock of the pace.
        """
        self._engine = engine
        self._reach = reach
        self._answering = answering
        self._sleep = sleep
        self.pace = pace
        self.taken: Counter[SourceName] = Counter()
        """Messages from peers since the start."""
        self.bytes = 0
        self._batches = 0

    async def rest(self) -> None:
        """After a step: return when the next may begin."""
        self._look()
        while seconds := self.pace.rest():
            await self._sleep(seconds)
            self._look()

    def wrote(self, batches: int) -> None:
        """So many went into the journal that are no news: they come from a peer or an archive."""
        self._batches += batches

    def _look(self) -> None:
        # Whatever else went into the journal came from a source. None streams to a store in limbo.
        elsewhere = any(heard.busy for heard in self._answering().values())
        self.pace.taken(self._engine.core.streams.position - self._batches, elsewhere=elsewhere)

    async def fill(
        self,
        state: SourceState,
        peer: str,
        wanted: Iterable[Range],
        lacking: Callable[[], RangeSet],
        stable_upto: int,
    ) -> Filled:
        """Take what the peer at an address has of these ranges, as far as it is lacking.

        lacking: what it is at that time. stable_upto: as far as the stream is known to be stable.
        A peer that breaks off is asked for no more. Raises QuorateError: what is wrong here.
        """
        filled = 0
        async with self._reach(peer) as fetch:
            for item in wanted:
                for part in lacking().both(RangeSet([item])):
                    done = await self._fill(state, peer, fetch(state, part), part, stable_upto)
                    filled += done.messages
                    if done.failed is not None:
                        return Filled(filled, done.failed)
        return Filled(filled, None)

    async def _fill(
        self,
        state: SourceState,
        peer: str,
        fetching: Fetching,
        wanted: Range,
        stable_upto: int,
    ) -> Filled:
        engine = self._engine
        filled = size = commit = before = 0
        failed: QuorateError | None = None
        self.pace.work()
        try:
            async for each in fetching:
                frame, header = checked(each, state.name)
                taken = await self._take(state, frame, header, wanted, stable_upto)
                if taken is None:
                    _log.warning("%s follows another lineage of %s", peer, state.name)
                    break
                part, commit = taken
                filled += len(part)
                size += len(frame)
                self.taken[state.name] += len(part)
                self.bytes += len(frame)
                busy = self.pace.is_busy()
                if size >= (_STEP_BYTES_BUSY if busy else _STEP_BYTES):
                    # One step is written while the next comes in; none while busy, so that what is
                    # new never waits behind it.
                    await engine.writer.durable(commit if busy else before)
                    before = commit
                    self.pace.worked(size)
                    size = 0
                    await self.rest()
                    self.pace.work()
        except PeerFailed as error:
            failed = error.error
        finally:
            fetching.close()
            self.pace.worked(size)
        await engine.writer.durable(commit)
        await self.rest()
        return Filled(filled, failed)

    async def _take(
        self,
        state: SourceState,
        frame: bytes,
        header: BatchHeader,
        wanted: Range,
        stable_upto: int,
    ) -> tuple[Range, int] | None:
        """What was taken of a batch, and the commit it is in; None if it does not belong."""
        engine = self._engine
        if not state.lacks_all(header.first, header.last):
            await engine.settled_range(state, header.first, header.last)
        position = engine.core.streams.position
        change = engine.core.streams.fill(state, frame, wanted)
        self.wrote(engine.core.streams.position - position)
        part = change.answer
        if part is None:
            return None
        stable = engine.core.streams.learn_stable(state, min(part.last, stable_upto))
        return part, engine.submit(state, change.writes + stable)


@asynccontextmanager
async def reached(peer: str) -> AsyncIterator[Fetch]:
    """A connection to the peer at this address."""
    async with open_channel(peer) as channel:
        yield partial(fetch_from, StoreStub(channel), peer)


def fetch_from(stub: StoreStub, peer: str, state: SourceState, wanted: Range) -> Fetching:
    """Ask a peer, at this address, for a range; one that says nothing for too long has failed."""
    call = stub.Fetch(
        v1.FetchRequest(
            source=source_to_wire(state.name),
            first=wanted.first,
            last=wanted.last,
            protocol_version=PROTOCOL_VERSION,
        )
    )

    async def read() -> v1.FetchResponse | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                response = await call.read()
        except TimeoutError:
            raise PeerFailed(Unreachable(peer, "no answer to a fetch")) from None
        except grpc.aio.AioRpcError as error:
            raise PeerFailed(error_from_call(peer, error)) from None
        return response if isinstance(response, v1.FetchResponse) else None

    return Fetching(peer, wanted, read, call.cancel)


def checked(fetched: v1.Fetched, source: SourceName) -> tuple[bytes, BatchHeader]:
    """A batch that a peer gave, and its header; raises PeerFailed if it is not as it should be."""
    frame, where = fetched.batch, "from a peer"
    try:
        header = check_batch(frame, where)
    except CorruptBatch as error:
        raise PeerFailed(error) from None
    if header.source != source or not (
        header.first <= fetched.first <= fetched.last <= header.last
    ):
        raise PeerFailed(CorruptBatch(where, f"it is not the one asked for: {header}"))
    return frame, header
