"""Fetching batches from one peer into this store, at the pace that it may have.

What is fetched, and how far it is stable, is told by the caller; what may be taken is decided in
quorate.store.core. A fetch that is cut off leaves what it brought: the next one goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc.aio

from quorate.protocol.framing import check_batch
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.pace import Pace
from quorate.store.state import SourceState
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2_grpc import StoreStub

_log = logging.getLogger("quorate.store.filling")

ANSWER_SECONDS_MAX = 10.0
"""A peer that says nothing for so long is taken for away."""
_STEP_BYTES = 4 * 1024 * 1024
_STEP_BYTES_BUSY = 2 * 1024 * 1024


class Filler:
    """All that this store takes from its peers passes here, at the pace that it may have."""

    def __init__(self, engine: Engine, pace: Pace) -> None:
        self._engine = engine
        self.pace = pace
        self.messages = 0
        """Taken from peers since the start."""
        self.bytes = 0
        self._batches = 0

    async def rest(self) -> None:
        """After a step: return when the next may begin."""
        self._look()
        while seconds := self.pace.rest():
            await asyncio.sleep(seconds)
            self._look()

    def wrote(self, batches: int) -> None:
        """So many went into the journal that are no news: they come from a peer or an archive."""
        self._batches += batches

    def _look(self) -> None:
        # Whatever else went into the journal came from a source.
        self.pace.taken(self._engine.core.position - self._batches)

    async def fill(
        self, state: SourceState, peer: str, stub: StoreStub, wanted: Range, stable_upto: int
    ) -> int:
        """Take what a peer has of a range, as far as it is lacking. Returns how many messages.

        stable_upto: as far as the stream is known to be stable. Raises QuorateError, AioRpcError.
        """
        engine = self._engine
        filled = size = commit = before = 0
        self.pace.work()
        try:
            async with aclosing(fetch_from(stub, state, wanted)) as answers:
                async for answer in answers:
                    if not answer.HasField("fetched"):
                        continue
                    frame = answer.fetched.batch
                    taken = await self._take(state, frame, wanted, stable_upto)
                    if taken is None:
                        _log.warning("%s follows another lineage of %s", peer, state.name)
                        break
                    part, commit = taken
                    filled += len(part)
                    size += len(frame)
                    self.messages += len(part)
                    self.bytes += len(frame)
                    busy = self.pace.is_busy()
                    if size >= (_STEP_BYTES_BUSY if busy else _STEP_BYTES):
                        # One step is written while the next comes in; none while busy, so that
                        # what is new never waits behind it.
                        await engine.writer.durable(commit if busy else before)
                        before = commit
                        self.pace.worked(size)
                        size = 0
                        await self.rest()
                        self.pace.work()
            await engine.writer.durable(commit)
        finally:
            self.pace.worked(size)
        await self.rest()
        return filled

    async def _take(
        self, state: SourceState, frame: bytes, wanted: Range, stable_upto: int
    ) -> tuple[Range, int] | None:
        """What was taken of a batch, and the commit it is in; None if it does not belong."""
        engine = self._engine
        header = check_batch(frame, "from a peer")
        if not state.lacks_all(header.first, header.last):
            await engine.settled_range(state, header.first, header.last)
        position = engine.core.position
        change = engine.core.fill(state, frame, wanted)
        self.wrote(engine.core.position - position)
        part = change.answer
        if part is None:
            return None
        stable = engine.core.learn_stable(state, min(part.last, stable_upto))
        return part, engine.submit(state, change.writes + stable)


async def fetch_from(
    stub: StoreStub, state: SourceState, wanted: Range
) -> AsyncGenerator[v1.FetchAnswer, None]:
    """A peer's answers; a peer that says nothing for too long ends them like one that is away."""
    call = stub.Fetch(
        v1.FetchRequest(
            source=source_to_wire(state.name),
            first=wanted.first,
            last=wanted.last,
            protocol_version=PROTOCOL_VERSION,
        )
    )
    try:
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    response = await call.read()
            except TimeoutError:
                return
            if response is grpc.aio.EOF:
                return
            for answer in response.answers:
                yield answer
    finally:
        call.cancel()
