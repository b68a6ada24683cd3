"""Fetching from the stores what they kept of the last epoch, as far as it may not be stable yet.

This module asks the stores and collects their batches. Which messages are kept is decided in
quorate.source.protocol.registration and quorate.protocol.recovery.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from quorate.protocol.answers import Answer, Corrupt, LargePiece, Piece
from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import CorruptBatch, QuorateError
from quorate.protocol.framing import cut
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import HeldRange, Range
from quorate.source.io.store_session import StoreSession
from quorate.source.protocol.resend_plan import (
    Kept,
    Load,
)
from quorate.transport.channels import UNANSWERED_SECONDS_MAX
from quorate.transport.fetch import FetchCall, fetch
from quorate.v1.messages_pb2 import LOOKUP_RELEASED, FetchEnd, Missing

_log = logging.getLogger("quorate.source")

FetchFrom = Callable[[str, Range, list[Kept]], Awaitable[int]]
"""Adds what a store serves of a range, from its first message on and without a gap.

It returns the last number that the store let go of the messages that come next, else NOTHING.
"""


async def fetch_kept(
    source: SourceName, load: Load, sessions: Mapping[str, StoreSession]
) -> list[Kept]:
    """Return all messages of the load, in order, without those that are lost.

    The source asks again and again, until a store serves them or has let them go: then they were
    stable.
    """

    async def fetch_from(store: str, wanted: Range, kept: list[Kept]) -> int:
        if (session := sessions.get(store)) is None:
            return NOTHING
        address = session.store.address
        try:
            call = fetch(session.stub, address, source, wanted, UNANSWERED_SECONDS_MAX)
            return await collect(call, store, load.lineage, wanted.first, kept)
        except QuorateError as error:
            _log.warning("fetching kept messages of %s from %s: %s", source, store, error)
            return NOTHING

    return await fetch_all(load, fetch_from, lambda: asyncio.sleep(REPEAT.first))


async def fetch_all(
    load: Load, fetch_from: FetchFrom, pause: Callable[[], Awaitable[None]]
) -> list[Kept]:
    """Ask the stores for the load, in the order that it names; pause after all failed to serve."""
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


async def collect(
    call: FetchCall[Answer], store: str, lineage: Lineage, first: int, kept: list[Kept]
) -> int:
    """Add to `kept` what a store serves from `first` on, without a gap; return as FetchFrom.

    Raises QuorateError; what came before the error stays in `kept`.
    """
    try:
        while not call.is_over:
            for answer in await call.answers():
                if isinstance(answer, Corrupt):
                    raise answer.error
                if isinstance(answer, FetchEnd):
                    return NOTHING
                if isinstance(answer, Missing):
                    let_go = answer.why == LOOKUP_RELEASED and answer.first == first
                    return answer.last if let_go else NOTHING
                item = clipped(answer, lineage, store)
                if item.first != first:
                    raise CorruptBatch(f"from {store}", f"it begins at {item.first}, not {first}")
                kept.append(item)
                first = item.last + 1
    finally:
        call.close()
    return NOTHING


def clipped(piece: Piece | LargePiece, lineage: Lineage, store: str) -> Kept:
    """Return the part of a batch that belongs to the stream, as it may be sent again.

    The store may follow another lineage, so this source checks which messages are valid.
    """
    header = piece.header
    valid = lineage.valid(HeldRange(header.first, header.last, header.epoch))
    if valid is None:
        raise CorruptBatch(f"from {store}", f"nothing of epoch {header.epoch} was asked for")
    if isinstance(piece, LargePiece):
        return Kept(piece.first, piece.last, piece.batch, store)
    begin, end = max(piece.first, valid.first), min(piece.last, valid.last)
    if (begin, end) == (header.first, header.last):
        return Kept(begin, end, piece.frame, store)
    if begin > end:
        raise CorruptBatch(f"from {store}", "nothing of it was asked for")
    return Kept(begin, end, cut(piece.frame, header, begin, end, header.epoch), store)
