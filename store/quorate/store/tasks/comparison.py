"""The comparison of two stores' copies of a stream: digests first, contents where they differ.

Two stores may cut the same messages into different batches. Divergence is different content under a
stable number; it is reported, and never overwritten. Nothing is repaired here, and when to compare
is decided in quorate.store.tasks.repair.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NamedTuple, Protocol

import grpc.aio

from quorate.protocol.answers import LargePiece, Piece
from quorate.protocol.attributes import Attributes
from quorate.protocol.digests import Block
from quorate.protocol.errors import CorruptBatch, InvalidArgument, OtherLineage
from quorate.protocol.fragments import Batch, LargeBatch, header_of
from quorate.protocol.framing import BatchHeader, check_batch, read_contents
from quorate.protocol.limits import PROTOCOL_VERSION, SEQUENCE_MAX
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.wire import source_from_wire, source_to_wire
from quorate.store.engine import Engine
from quorate.store.rules import digest
from quorate.store.rules.repair_plan import PeerView
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import Reads
from quorate.store.storage.reader import read
from quorate.store.tasks.executor import Apart
from quorate.store.tasks.fetcher import (
    ANSWER_SECONDS_MAX,
    Fetch,
    Fetching,
    Filler,
    PeerFailed,
)
from quorate.transport.channels import OpenChannel
from quorate.transport.failures import error_from_call
from quorate.transport.fetch import fetch
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

_log = logging.getLogger("quorate.store.tasks.comparison")

_SEGMENT = digest.BLOCK * 256
"""The count of sequence numbers that one request for digests covers."""
_READ_AT_ONCE = 16


class AskDigests(Protocol):
    """A call that asks a peer for its digests. It raises PeerFailed."""

    async def __call__(self, request: store_v1.DigestRequest, /) -> store_v1.DigestResponse: ...


class Asked(NamedTuple):
    """The two calls to a peer that a comparison needs."""

    digests: AskDigests
    fetch: Fetch


Ask = Callable[[str], AbstractAsyncContextManager[Asked]]
"""A function that connects to the peer at an address, for as long as the context lasts."""


class Comparing:
    """The comparison of one store's copies with those of its peers, at the pace of the filler."""

    def __init__(self, engine: Engine, apart: Apart, filler: Filler) -> None:
        self._engine = engine
        self._apart = apart
        self._filler = filler

    async def compare(
        self, state: SourceState, peer: PeerView, asked: Asked, wanted: Range
    ) -> RangeSet:
        """Return the numbers of a range under which the two stores hold different content.

        wanted: a range that is stable and in the lineage of both. Raises QuorateError, PeerFailed.
        """
        divergent = RangeSet()
        await self._engine.written(state)
        first = wanted.first
        while first <= wanted.last:
            last = min(first - first % _SEGMENT + _SEGMENT - 1, wanted.last)
            for block in await self._differing(state, asked, Range(first, last), digest.BLOCK):
                for close in await self._differing(state, asked, block, digest.CLOSE_BLOCK):
                    found = await self._look(state, peer, asked, close)
                    for item in found:
                        divergent.add(item.first, item.last)
            first = last + 1
        return divergent

    async def _differing(
        self, state: SourceState, asked: Asked, wanted: Range, block: int
    ) -> list[Range]:
        """Return the blocks of which both stores hold numbers, but perhaps different content."""
        request = store_v1.DigestRequest(
            source=source_to_wire(state.name),
            first=wanted.first,
            last=wanted.last,
            block=block,
            protocol_version=PROTOCOL_VERSION,
        )
        pace = self._filler.pace
        pace.work()
        try:
            response = await asked.digests(request)
            theirs = [
                Block(each.first, each.last, each.held, each.digest) for each in response.blocks
            ]
            reads, reg_id = self._engine.reads, state.reg_id
            ours = await self._apart(partial(digest.blocks, reads, reg_id, wanted, block))
        finally:
            pace.worked()
        await self._filler.rest()
        return digest.differing(ours, theirs)

    async def _look(
        self, state: SourceState, peer: PeerView, asked: Asked, wanted: Range
    ) -> RangeSet:
        """Return the numbers with different content, message by message. Raises PeerFailed."""
        divergent = RangeSet()
        pace = self._filler.pace
        pace.work()
        fetching = asked.fetch(state, wanted)
        try:
            async for fetched in fetching:
                assert isinstance(fetched, Piece | LargePiece), "a comparison needs whole batches"
                header = fetched.header
                batch = fetched.frame if isinstance(fetched, Piece) else fetched.batch
                part = Range(fetched.first, fetched.last)
                held = HeldRange(part.first, part.last, header.epoch)
                if state.lineage.valid(held) != part:
                    # Another store may answer at the address whose lineage was heard before.
                    raise PeerFailed(
                        OtherLineage(
                            peer.address, str(state.name), held.first, held.last, held.epoch
                        )
                    )
                for found in await self._against_ours(state, batch, part):
                    divergent.add(found.first, found.last)
                pace.worked(len(batch))
                await self._filler.rest()
                pace.work()
        finally:
            fetching.close()
            pace.worked()
        return divergent

    async def _against_ours(self, state: SourceState, batch: Batch, part: Range) -> list[Range]:
        reads, lineage = self._engine.reads, state.lineage
        known = state.as_it_is()
        await self._engine.written(state)
        found: list[Range] = []
        for held in known.readable().both(RangeSet([part])):
            ours, bad = await self._apart(partial(_differing_in, reads, state, batch, held))
            if state.lineage is not lineage:
                return []  # a new epoch began meanwhile: these batches may no longer belong
            found += ours
            if not state.is_as_readable_as(known):
                continue  # repaired while it was read, perhaps; it is compared again
            for item, problem in bad:
                self._engine.found_unreadable(state, item, problem)
        return found


def _differing_in(
    reads: Reads, state: SourceState, batch: Batch, part: Range
) -> tuple[list[Range], list[tuple[Range, str]]]:
    """Return the numbers at which a peer's batch differs, and the unreadable parts here."""
    header = header_of(batch)
    theirs = _contents(batch, header)
    differ: list[Range] = []
    bad: list[tuple[Range, str]] = []
    first = part.first
    while first <= part.last:
        for stored in read(reads, state.reg_id, state.name, Range(first, part.last), _READ_AT_ONCE):
            held = stored.part
            first = held.last + 1
            if stored.problem:
                bad.append((held, stored.problem))
                continue
            try:
                ours_header = check_batch(stored.frame, "in the journal")
                ours = read_contents(stored.frame, ours_header, held.first, held.last)
            except CorruptBatch as error:
                bad.append((held, str(error)))
                continue
            other = [
                number
                for number in range(held.first, held.last + 1)
                if ours[number - held.first] != theirs[number - header.first]
            ]
            differ += RangeSet(Range(number, number) for number in other)
    return differ, bad


def _contents(batch: Batch, header: BatchHeader) -> list[tuple[bytes, Attributes]]:
    if isinstance(batch, LargeBatch):
        return [batch.message()]
    return read_contents(batch, header, header.first, header.last)


async def digests_for(
    engine: Engine, apart: Apart, request: store_v1.DigestRequest
) -> store_v1.DigestResponse:
    """Return the digests of the held batches to a peer that compares.

    Raises InvalidArgument, StorageFailed, CorruptBatch.
    """
    source = source_from_wire(request.source)
    if not 0 <= request.first <= request.last <= SEQUENCE_MAX:
        raise InvalidArgument(
            "range", f"[{request.first}, {request.last}] is not a range of sequence numbers"
        )
    if request.block < 1:
        raise InvalidArgument("block", f"must have at least one number, not {request.block}")
    wanted = Range(request.first, request.last)
    if request.last // request.block - request.first // request.block >= digest.BLOCKS_MAX:
        detail = f"has more than {digest.BLOCKS_MAX} blocks; ask for a shorter one"
        raise InvalidArgument("range", detail)
    state = engine.receivers.source(source)
    await engine.written(state)
    blocks = await apart(partial(digest.blocks, engine.reads, state.reg_id, wanted, request.block))
    return store_v1.DigestResponse(
        blocks=[
            store_v1.BlockDigest(
                first=block.first, last=block.last, held=block.held, digest=block.digest
            )
            for block in blocks
        ],
    )


@asynccontextmanager
async def ask(open_channel: OpenChannel, peer: str) -> AsyncIterator[Asked]:
    """Connect to the peer at this address."""
    async with open_channel(peer) as channel:
        yield asked_by(StoreStub(channel), peer)


def asked_by(stub: StoreStub, peer: str) -> Asked:
    """Return the calls over a stub. A call without an answer in time raises PeerFailed."""

    async def digests(request: store_v1.DigestRequest) -> store_v1.DigestResponse:
        try:
            response: store_v1.DigestResponse = await stub.Digest(
                request, timeout=ANSWER_SECONDS_MAX
            )
        except grpc.aio.AioRpcError as error:
            raise PeerFailed(error_from_call(peer, error)) from None
        return response

    def ask_for(state: SourceState, wanted: Range) -> Fetching:
        return Fetching(fetch(stub, peer, state.name, wanted, ANSWER_SECONDS_MAX))

    return Asked(digests, ask_for)
