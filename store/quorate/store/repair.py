"""Repair: fetches from peers what this store lacks and knows to be stable.

Runs in the background at a bounded rate. Holes and unreadable batches are filled as far as they are
stable; the end of a stream whose source is away is filled as far as a peer was told that it is
stable. Never more: what is not stable belongs to the source that may come back to it. The lineage
is not taken from peers: a batch that does not fit the one that was begun here is left alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import grpc.aio

from quorate.protocol.errors import ContentConflict, QuorateError
from quorate.protocol.framing import read_header
from quorate.protocol.limits import PROTOCOL_VERSION, SEQUENCE_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.state import SourceState
from quorate.transport.channels import open_channel
from quorate.transport.failures import error_from_call
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2_grpc import StoreStub

_log = logging.getLogger("quorate.store.repair")

ROUND_SECONDS = 1.0
"""How often the store looks for what it lacks."""
BACK_OFF_SECONDS_MAX = 10.0
"""How long a source rests at most after no peer could help."""
BYTES_PER_SECOND = 64 * 1024 * 1024
"""So that repair leaves room for what is new."""
_PACE_BYTES = 256 * 1024
_ANSWER_SECONDS = 10.0


@dataclass(slots=True)
class _Rest:
    """When a source is looked at again."""

    until: float = 0.0
    seconds: float = ROUND_SECONDS


class Repair:
    """The repair of one store."""

    def __init__(self, engine: Engine, address: str) -> None:
        """address: where peers know this store, so that it does not ask itself."""
        self._engine = engine
        self._address = address
        self._rests: dict[int, _Rest] = {}

    async def run(self) -> None:
        """Look for what is lacking, again and again; ends only by being cancelled."""
        while True:
            for state in list(self._engine.core.sources.values()):
                rest = self._rests.setdefault(state.reg_id, _Rest())
                if time.monotonic() < rest.until:
                    continue
                try:
                    done = await self.repair(state)
                except QuorateError as error:
                    level = logging.ERROR if isinstance(error, ContentConflict) else logging.WARNING
                    _log.log(level, "repair of %s: %s", state.name, error)
                    done = False
                except Exception:
                    _log.exception("repair of %s failed in a way that was not foreseen", state.name)
                    done = False
                rest.seconds = (
                    ROUND_SECONDS if done else min(2 * rest.seconds, BACK_OFF_SECONDS_MAX)
                )
                rest.until = time.monotonic() + rest.seconds
            await asyncio.sleep(ROUND_SECONDS)

    async def repair(self, state: SourceState) -> bool:
        """Fill what can be filled of one source. Returns whether nothing is lacking any more."""
        peers = self._peers(state)
        if not peers:
            return False
        wanted = self._lacking(state)
        if not wanted and state.live:
            return True
        filled, complete = 0, not wanted
        for peer in peers:
            channel = open_channel(peer)
            try:
                filled += await self._fill_from(state, peer, StoreStub(channel), wanted)
                wanted = self._lacking(state)
                complete = not wanted
            except grpc.aio.AioRpcError as error:
                _log.debug("repair of %s: %s", state.name, error_from_call(peer, error))
            finally:
                await channel.close()
            if complete and state.live:
                break
        if filled:
            _log.info("repaired %d messages of %s", filled, state.name)
        if wanted:
            _log.warning(
                "%s lacks %s, and no peer could give it",
                state.name,
                ", ".join(map(str, wanted[:5])),
            )
        # Of a source that is away peers may learn more: that is looked at again, less often.
        return complete and (state.live or filled > 0)

    def _peers(self, state: SourceState) -> list[str]:
        information = state.registration.information
        if information is None:
            return []
        return [
            store.address
            for store in information.stores
            if store.address != self._address and store.name != self._engine.core.store
        ]

    def _lacking(self, state: SourceState) -> list[Range]:
        """What is stable and lacking, or unreadable."""
        stable_upto = state.held.stable_upto
        lacking = RangeSet(state.holes())
        for item in self._engine.unreadable.get(state.name, ()):
            lacking.add(item.first, item.last)
        return [
            Range(item.first, min(item.last, stable_upto))
            for item in lacking
            if item.first <= stable_upto
        ]

    async def _fill_from(
        self, state: SourceState, peer: str, stub: StoreStub, wanted: list[Range]
    ) -> int:
        filled = 0
        for item in wanted:
            filled += await self._fill(state, peer, stub, item)
        if state.live:
            return filled
        # The source is away: what was stable may go on beyond what this store was told.
        begins = state.held.next_sequence
        async with aclosing(_fetch(stub, state, Range(begins, begins))) as answers:
            ends = [answer.end.stable_upto async for answer in answers if answer.HasField("end")]
        if ends and begins <= ends[0] <= SEQUENCE_MAX and not state.live:
            filled += await self._fill(state, peer, stub, Range(begins, ends[0]))
        return filled

    async def _fill(self, state: SourceState, peer: str, stub: StoreStub, wanted: Range) -> int:
        engine = self._engine
        filled = commit = unpaced = 0
        async with aclosing(_fetch(stub, state, wanted)) as answers:
            async for answer in answers:
                if not answer.HasField("fetched"):
                    continue
                frame = answer.fetched.batch
                header = read_header(frame, f"from {peer}")
                if not state.lacks_all(header.first, header.last):
                    await engine.settled(state)
                change = engine.core.fill(state.name, frame, wanted)
                part = change.answer
                if part is None:
                    _log.warning("%s follows another lineage of %s", peer, state.name)
                    break
                writes = change.writes + engine.core.learn_stable(state, part.last)
                commit = engine.submit(state, writes)
                if state.name in engine.unreadable:
                    engine.unreadable[state.name].remove(part.first, part.last)
                filled += len(part)
                unpaced += len(frame)
                if unpaced > _PACE_BYTES:
                    await asyncio.sleep(unpaced / BYTES_PER_SECOND)
                    await engine.writer.room()
                    unpaced = 0
        await engine.writer.durable(commit)
        return filled


async def _fetch(
    stub: StoreStub, state: SourceState, wanted: Range
) -> AsyncGenerator[v1.FetchResponse, None]:
    """A peer's answers; a peer that says nothing for too long fails like one that is away."""
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
                answer = await asyncio.wait_for(call.read(), _ANSWER_SECONDS)
            except TimeoutError:
                return
            if answer is grpc.aio.EOF:
                return
            yield answer
    finally:
        call.cancel()
