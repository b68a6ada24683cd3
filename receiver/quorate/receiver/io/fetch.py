"""Fetching what a stream lacks from one peer: a store, or the source's own retention.

Which range a peer is asked for, and what its answers mean, is decided in
quorate.receiver.protocol.fetch_plan.
"""

from __future__ import annotations

import asyncio
import logging

from quorate.protocol import answers
from quorate.protocol.answers import AnswerReading, Corrupt, LargePiece, Piece
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range
from quorate.protocol.wire import lineage_from_wire
from quorate.receiver.io.source_session import Session
from quorate.receiver.protocol.fetch_plan import (
    SOURCE,
    Answer,
    FetchPlan,
    Request,
)
from quorate.transport.fetch import FetchCall, begin_fetch
from quorate.transport.turns import Turn
from quorate.v1 import messages_pb2 as v1

log = logging.getLogger("quorate.receiver")

_ANSWERS = {
    v1.LOOKUP_ABSENT: Answer.ABSENT,
    v1.LOOKUP_LOST: Answer.LOST,
    v1.LOOKUP_POISONED: Answer.POISONED,
    v1.LOOKUP_RELEASED: Answer.RELEASED,
}
"""Any other reason proves nothing, also one that only a newer version of a store gives."""


async def fetch_from(session: Session, peer: str) -> None:
    """Send this peer the plan's requests, one after the other, as long as there are any."""
    while True:
        with session.peers.fetch_turn(session.address_of(peer)) as turn:
            request = await session.next_request(peer, turn)
            if request is None:
                return
            await _fetch_next(session, request, turn)
        session.settle()
        session.wake()


async def _fetch_next(session: Session, request: Request, turn: Turn) -> None:
    plan, peers, peer = session.plan, session.peers, request.peer
    address = session.address_of(peer)
    try:
        await _fetch(session, request, address, turn)
    except QuorateError as error:
        again = plan.is_failing(peer)
        peers.failed(address, f"{session.source}: fetching from {peer}", error, again=again)
        plan.failed(request, asyncio.get_running_loop().time())
    except BaseException:
        plan.given_back(request)
        raise
    else:
        peers.answered(address)


async def hear_stable(session: Session) -> None:
    """Ask the source, or its stores, how far the stream is stable."""
    peers = [SOURCE] if session.plan.attached else session.plan.stores
    first = session.stream.next
    for peer in peers:
        try:
            await _hear_stable_of(session, Request(peer, first, first, first))
        except QuorateError as error:
            log.info("%s: %s: %s", session.source, peer, error)


async def _hear_stable_of(session: Session, request: Request) -> None:
    call, _ = _call(session, request, session.address_of(request.peer))
    try:
        while not call.is_over:
            for answer in await call.answers():
                if isinstance(answer, v1.FetchEnd):
                    epoch = lineage_from_wire(answer.lineage).epoch
                    session.tell_stable(answer.stable_upto, epoch)
    finally:
        call.close()


def _call(
    session: Session, request: Request, address: str
) -> tuple[FetchCall[answers.Answer], AnswerReading]:
    peers = session.peers
    stub = peers.source(address) if request.peer == SOURCE else peers.store(address)
    wanted = Range(request.first, request.last)
    reading = AnswerReading(address, session.source, wanted)
    silence = session.options.request_timeout
    call = begin_fetch(stub, address, session.source, wanted, silence, reading, delivers=True)
    return call, reading


async def _fetch(session: Session, request: Request, address: str, turn: Turn) -> None:
    call, reading = _call(session, request, address)
    loop = asyncio.get_running_loop()
    try:
        while await session.room_for(request, reading.assembling, turn):
            came = await call.answers()
            session.peers.heard(address)
            for answer in came:
                now = loop.time()
                withdrawn = take_answer(session.plan, session.source, request, answer, now)
                if isinstance(answer, Piece | LargePiece | Corrupt):
                    session.hand_on()
                elif isinstance(answer, v1.FetchEnd):
                    session.withdraw(withdrawn)
            if call.is_over:
                return
        session.plan.given_back(request)
    finally:
        call.close()


def take_answer(
    plan: FetchPlan, source: SourceName, request: Request, answer: answers.Answer, now: float
) -> Range | None:
    """Tell the plan what a peer answered; return the range that an end withdraws, if any."""
    match answer:
        case Piece():
            plan.fetched(request, answer.header, answer.frame, answer.first, answer.last, now)
        case LargePiece():
            plan.fetched(request, answer.header, answer.batch, answer.first, answer.last, now)
        case Corrupt():
            # The peer has no good copy of it; others may.
            log.error("%s: %s", source, answer.error)
            detail = str(answer.error)
            plan.missing(request, answer.first, answer.last, Answer.UNKNOWN, detail, now)
        case v1.Missing():
            why = _ANSWERS.get(answer.why, Answer.UNKNOWN)
            plan.missing(request, answer.first, answer.last, why, answer.detail, now)
        case v1.FetchEnd():
            lineage = lineage_from_wire(answer.lineage)
            return plan.ended(request, answer.high, answer.stable_upto, lineage, now)
    return None
