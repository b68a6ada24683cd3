"""Fetching from the stores what was kept of the last epoch but is not known to be stable.

Nothing here decides what is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

import grpc.aio

from quorate.protocol.answers import AnswerReading
from quorate.protocol.errors import CorruptBatch, QuorateError, Unreachable
from quorate.protocol.framing import check_batch, cut
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.wire import source_to_wire
from quorate.source.io.store_session import StoreSession
from quorate.source.protocol.resend_plan import (
    Kept,
    Load,
)
from quorate.transport.channels import SILENCE_SECONDS_MAX
from quorate.transport.failures import error_from_call
from quorate.v1.messages_pb2 import LOOKUP_RELEASED, Fetched, FetchRequest, FetchResponse

_log = logging.getLogger("quorate.source")
_RETRY_SECONDS = 0.2


FetchFrom = Callable[[str, Range, list[Kept]], Awaitable[int]]
"""Add what a store has of a range, from its first message on and without a gap; returns how far the
store has let go what comes next."""


async def fetch_kept(
    source: SourceName, load: Load, sessions: Mapping[str, StoreSession]
) -> list[Kept]:
    """All messages of the load, in order, without those that are lost.

    Goes on trying until a store that has them answers, or has let them go meanwhile: they were
    stable then.
    """

    async def fetch_from(store: str, wanted: Range, kept: list[Kept]) -> int:
        if (session := sessions.get(store)) is None:
            return NOTHING
        try:
            return await _fetch_from(session, source, load.lineage, wanted, kept)
        except QuorateError as error:
            _log.warning("fetching kept messages of %s from %s: %s", source, store, error)
            return NOTHING

    return await fetch_all(load, fetch_from, lambda: asyncio.sleep(_RETRY_SECONDS))


async def fetch_all(
    load: Load, fetch_from: FetchFrom, pause: Callable[[], Awaitable[None]]
) -> list[Kept]:
    """The order in which the stores are asked; pause: after none of them had what comes next."""
    kept: list[Kept] = []
    first = load.first
    while (first := load.losses.contiguous_upto(first) + 1) <= load.last:
        upto, holders = load.run(first)
        before = first
        for store in holders:
            released_upto = await fetch_from(store, Range(first, upto), kept)
            first = max(first, released_upto + 1)
            if kept:
                first = max(first, kept[-1].last + 1)
            if first > before:
                break
        else:
            await pause()
    return kept


async def _fetch_from(
    session: StoreSession, source: SourceName, lineage: Lineage, wanted: Range, kept: list[Kept]
) -> int:
    """As FetchFrom, of the store behind this session; raises QuorateError."""
    address = session.store.address
    request = FetchRequest(
        source=source_to_wire(source),
        first=wanted.first,
        last=wanted.last,
        protocol_version=PROTOCOL_VERSION,
    )
    call = session.stub.Fetch(request)
    taking = Taking(session.store, source, lineage, wanted, kept)
    try:
        while not taking.is_over:
            async with asyncio.timeout(SILENCE_SECONDS_MAX):
                response = await call.read()
            taking.take(response if isinstance(response, FetchResponse) else None)
    except TimeoutError:
        raise Unreachable(address, "no answer to a fetch") from None
    except grpc.aio.AioRpcError as error:
        raise error_from_call(address, error) from error
    finally:
        call.cancel()
    return taking.released_upto


class Taking:
    """Takes what one store gives of what was kept, from its first message on, without a gap."""

    def __init__(
        self,
        store: StoreAddress,
        source: SourceName,
        lineage: Lineage,
        wanted: Range,
        kept: list[Kept],
    ) -> None:
        """kept: is added to."""
        self._store = store
        self._source = source
        self._lineage = lineage
        self._wanted = wanted
        self._kept = kept
        self._reading = AnswerReading(store.address, wanted)
        self._first = wanted.first
        self.is_over = False
        """Nothing more of the answers is wanted."""
        self.released_upto = NOTHING
        """How far the store has let go what comes next."""

    def take(self, response: FetchResponse | None) -> None:
        """The next response; None: there is no more. Raises BrokenAnswer, CorruptBatch."""
        if response is None:
            raise self._reading.cut_short()
        for kind, answer in self._reading.answers(response):
            if kind != "fetched":
                missing = answer.missing
                if missing.why == LOOKUP_RELEASED and missing.first == self._first:
                    self.released_upto = missing.last
                self.is_over = True
                return
            first, rest = self._first, Range(self._first, self._wanted.last)
            item = clipped(self._source, self._lineage, answer.fetched, rest, self._store.name)
            if item.first != first:
                what = f"it begins at {item.first}, not {first}"
                raise CorruptBatch(f"from {self._store.address}", what)
            self._kept.append(item)
            self._first = item.last + 1


def clipped(
    source: SourceName, lineage: Lineage, fetched: Fetched, wanted: Range, store: str
) -> Kept:
    """The batch as it may be sent again: only what belongs to the stream.

    The store may follow another lineage: its word for what is valid does not count.
    """
    header = check_batch(fetched.batch, f"from {store}")
    if header.source != source:
        raise CorruptBatch(f"from {store}", f"it belongs to {header.source}")
    valid = lineage.valid(HeldRange(header.first, header.last, header.epoch))
    if valid is None:
        raise CorruptBatch(f"from {store}", f"nothing of epoch {header.epoch} was asked for")
    begin = max(fetched.first, valid.first, wanted.first)
    end = min(fetched.last, valid.last, wanted.last)
    if (begin, end) == (header.first, header.last):
        return Kept(begin, end, fetched.batch, store)
    if begin > end:
        raise CorruptBatch(f"from {store}", "nothing of it was asked for")
    batch = cut(fetched.batch, header, begin, end, header.epoch)
    return Kept(begin, end, batch, store)
