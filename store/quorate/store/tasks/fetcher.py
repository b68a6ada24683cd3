"""Fetching batches from one peer into this store, at the pace that it may have.

The caller says which ranges are fetched and how far the stream is stable. Which batches may be
taken is decided in quorate.store.rules.acceptor. A fetch that is cut off leaves the batches that it
brought, and the next one goes on behind them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NamedTuple

from quorate.protocol.answers import (
    Answer,
    Corrupt,
    FragmentedAnswer,
    FragmentedReading,
    LargePiece,
    Piece,
    ServedFragment,
    check_served,
)
from quorate.protocol.errors import CorruptBatch, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.engine import Engine
from quorate.store.rules.arrivals import Arrival
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.large_intake import LargeIntake
from quorate.store.tasks.throttle import Pace
from quorate.transport.channels import OpenChannel
from quorate.transport.fetch import FetchCall, begin_fetch
from quorate.v1.store_pb2_grpc import StoreStub

_log = logging.getLogger("quorate.store.tasks.fetcher")

ANSWER_SECONDS_MAX = 10.0
"""A peer that says nothing for so long counts as away."""
_STEP_BYTES = 4 * 1024 * 1024
_STEP_BYTES_BUSY = 2 * 1024 * 1024


class PeerFailed(Exception):
    """A peer broke off: other peers are asked for the batches that it did not give."""

    def __init__(self, error: QuorateError) -> None:
        super().__init__(str(error))
        self.error = error


Served = Piece | LargePiece | ServedFragment
"""A batch from a peer, or a fragment of a large one."""


class Fetching:
    """A fetch from one peer that is under way; iterates over the batches among its answers.

    The iteration ends where the peer says that it has no more. It raises PeerFailed if the peer
    breaks off, or gives a batch that is corrupt.
    """

    def __init__(self, call: FetchCall[Answer] | FetchCall[FragmentedAnswer]) -> None:
        self._call = call
        self._answers: Iterator[Answer | FragmentedAnswer] = iter(())
        self.close = call.close

    def __aiter__(self) -> Fetching:
        return self

    async def __anext__(self) -> Served:
        try:
            while True:
                for answer in self._answers:
                    if isinstance(answer, Corrupt):
                        raise answer.error
                    if isinstance(answer, Served):
                        return answer
                if self._call.is_over:
                    raise StopAsyncIteration
                self._answers = await self._call.answers()
        except QuorateError as error:
            raise PeerFailed(error) from None


Fetch = Callable[[SourceState, Range], Fetching]
"""Asks one peer for a range of a source's stream."""


class Filled(NamedTuple):
    """The outcome of a fetch."""

    messages: int
    failed: QuorateError | None
    """Why the peer broke off; None if it answered to its end."""


class _Taken(NamedTuple):
    """The part of a batch that was taken, or a fragment."""

    messages: int
    size: int
    """The bytes of what came."""
    commit: int
    """The number of the commit with its rows."""


class Filler:
    """Take batches from peers into this store, at the pace that it may have."""

    def __init__(
        self,
        engine: Engine,
        pace: Pace,
        reach: Callable[[str], AbstractAsyncContextManager[Fetch]],
        answering: Callable[[], Mapping[str, Heard]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """reach: makes a connection to the peer at an address, which lasts as long as the context.

        answering: returns what each reachable peer last reported. sleep: returns after so many
        seconds by the clock of the pace.
        """
        self._engine = engine
        self._reach = reach
        self._answering = answering
        self._sleep = sleep
        self.pace = pace
        self.taken: Counter[SourceName] = Counter()
        """The number of messages from peers since the store started, by source."""
        self.bytes = 0
        self._batches = 0

    async def rest(self) -> None:
        """Wait, after a step, until the next step may begin."""
        self._look()
        while seconds := self.pace.rest():
            await self._sleep(seconds)
            self._look()

    def wrote(self, batches: int) -> None:
        """Count batches in the journal that came from a peer or an archive, not from a source."""
        self._batches += batches

    def _look(self) -> None:
        # All other batches in the journal came from a source. None streams to a store in limbo.
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
        """Take what the peer at an address has of these ranges, as far as this store lacks it.

        lacking: returns what this store lacks at that time. stable_upto: the last number known to
        be stable. A peer that breaks off is asked for no more. Raises QuorateError: what went wrong
        at this store.
        """
        filled = 0
        async with self._reach(peer) as ask:
            for item in wanted:
                for part in lacking().both(RangeSet([item])):
                    done = await self._fill(state, peer, ask(state, part), part, stable_upto)
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
        intake = LargeIntake(engine, state, f"from {peer}")
        self.pace.work()
        try:
            async for served in fetching:
                taken = await self._take(state, served, intake, wanted, stable_upto)
                if taken is None:
                    _log.warning("%s follows another lineage of %s", peer, state.name)
                    break
                size += taken.size
                commit = taken.commit
                filled += taken.messages
                self.taken[state.name] += taken.messages
                self.bytes += taken.size
                busy = self.pace.is_busy()
                if size >= (_STEP_BYTES_BUSY if busy else _STEP_BYTES):
                    # One step is written while the next comes in. A busy store waits for its write
                    # at once, so that new messages never wait behind two steps.
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
            intake.drop()
            self.pace.worked(size)
        await engine.writer.durable(commit)
        await self.rest()
        return Filled(filled, failed)

    async def _take(
        self,
        state: SourceState,
        served: Served,
        intake: LargeIntake,
        wanted: Range,
        stable_upto: int,
    ) -> _Taken | None:
        """Take what belongs to the stream of a batch, or a fragment. None: nothing belongs."""
        engine, streams = self._engine, self._engine.core.streams
        position = streams.position
        if isinstance(served, ServedFragment):
            size = len(served.data)
            arrival = _arrived(intake, served, state.name)
            self.wrote(streams.position - position)
            if arrival is None:
                return _Taken(0, size, intake.commit)
            compared = await engine.compared(state, arrival)
            position = streams.position
            try:
                change = streams.fill_large(state, arrival, wanted, compared)
            except QuorateError:
                intake.remove(arrival)
                raise
            if change.answer is None:
                intake.remove(arrival)
        else:
            assert isinstance(served, Piece), "large batches come in fragments here"
            header, size = served.header, len(served.frame)
            if not state.lacks_all(header.first, header.last):
                await engine.settled_range(state, header.first, header.last)
            position = streams.position
            change = streams.fill(state, served.frame, wanted)
        self.wrote(streams.position - position)
        part = change.answer
        if part is None:
            return None
        stable = streams.learn_stable(state, min(part.last, stable_upto))
        return _Taken(len(part), size, engine.submit(state, change.writes + stable))


def _arrived(intake: LargeIntake, served: ServedFragment, source: SourceName) -> Arrival | None:
    """Take a fragment, and return its batch if it is whole. Raises PeerFailed if it is corrupt."""
    try:
        arrival = intake.take(served.at, served.size, served.data)
        if arrival is not None:
            check_served(arrival.header, source, served.sequence, intake.where)
    except CorruptBatch as error:
        raise PeerFailed(error) from None
    return arrival


@asynccontextmanager
async def reached(open_channel: OpenChannel, peer: str) -> AsyncIterator[Fetch]:
    """Connect to the peer at this address."""
    async with open_channel(peer) as channel:
        yield partial(fetch_from, StoreStub(channel), peer)


def fetch_from(stub: StoreStub, peer: str, state: SourceState, wanted: Range) -> Fetching:
    """Ask the peer behind a stub, at this address, for a range.

    Large batches come in fragments, and are never in memory as a whole.
    """
    reading = FragmentedReading(peer, state.name, wanted)
    return Fetching(begin_fetch(stub, peer, state.name, wanted, ANSWER_SECONDS_MAX, reading))
