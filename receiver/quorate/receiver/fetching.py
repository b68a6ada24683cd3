"""Fetching what a stream lacks from one peer: a store, or the source's own retention."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from quorate.protocol.errors import CorruptBatch, QuorateError, Unreachable
from quorate.protocol.framing import check_batch
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import lineage_from_wire, source_to_wire
from quorate.receiver.peers import errors_of
from quorate.receiver.plan import SOURCE, Answer, Request
from quorate.receiver.session import Session
from quorate.v1 import messages_pb2 as v1

log = logging.getLogger("quorate.receiver")

_ANSWERS = {
    v1.LOOKUP_ABSENT: Answer.ABSENT,
    v1.LOOKUP_LOST: Answer.LOST,
    v1.LOOKUP_RELEASED: Answer.RELEASED,
}
"""Any other, also one that a newer version of a store may give, proves nothing."""


async def fetch_from(session: Session, peer: str) -> None:
    """Ask this peer for what the plan says, one request after the other, until cancelled."""
    plan = session.plan
    loop = asyncio.get_running_loop()
    while True:
        request = await session.next_request(peer)
        try:
            await _fetch(session, request)
        except QuorateError as error:
            log.info("%s: fetching from %s: %s", session.source, peer, error)
            plan.failed(request, loop.time())
        except BaseException:
            plan.given_back(request)
            raise
        session.settle()
        session.wake()


async def hear_stable(session: Session) -> None:
    """Ask the source, or its stores, what is stable by now."""
    peers = [SOURCE] if session.plan.attached else session.plan.stores
    first = session.stream.next
    for peer in peers:
        try:
            call = _call(session, Request(peer, first, first, first))
            response = await _read(session, call, peer)
            while not _is_last(response):
                response = await _read(session, call, peer)
            end = response.answers[-1].end
            session.tell_stable(end.stable_upto, lineage_from_wire(end.lineage).epoch)
        except QuorateError as error:
            log.info("%s: %s: %s", session.source, peer, error)


def _call(session: Session, request: Request) -> Any:
    address = session.address_of(request.peer)
    peers = session.peers
    stub = peers.source(address) if request.peer == SOURCE else peers.store(address)
    return stub.Fetch(
        v1.FetchRequest(
            source=source_to_wire(session.source),
            first=request.first,
            last=request.last,
            protocol_version=PROTOCOL_VERSION,
        )
    )


async def _read(session: Session, call: Any, peer: str) -> v1.FetchResponse:
    address = session.address_of(peer)
    with errors_of(address):
        async with asyncio.timeout(session.options.request_timeout):
            response = await call.read()
    if not isinstance(response, v1.FetchResponse):
        raise Unreachable(address, "it ended its answer without saying so")
    return response


def _is_last(response: v1.FetchResponse) -> bool:
    return len(response.answers) > 0 and response.answers[-1].HasField("end")


async def _fetch(session: Session, request: Request) -> None:
    call = _call(session, request)
    loop = asyncio.get_running_loop()
    try:
        while await session.room_for(request):
            response = await _read(session, call, request.peer)
            for answer in response.answers:
                _take(session, request, answer, loop.time())
            if _is_last(response):
                return
        session.plan.given_back(request)
    finally:
        call.cancel()


def _take(session: Session, request: Request, answer: v1.FetchAnswer, now: float) -> None:
    plan = session.plan
    match answer.WhichOneof("kind"):
        case "fetched":
            _take_batch(session, request, answer.fetched, now)
        case "missing":
            missing = answer.missing
            why = _ANSWERS.get(missing.why, Answer.UNKNOWN)
            plan.missing(request, missing.first, missing.last, why, missing.detail, now)
        case "end":
            end = answer.end
            lineage = lineage_from_wire(end.lineage)
            session.withdraw(plan.ended(request, end.high, end.stable_upto, lineage, now))


def _take_batch(session: Session, request: Request, fetched: v1.Fetched, now: float) -> None:
    """A corrupt copy is one that the peer does not have; others may."""
    batch = fetched.batch  # each look at the field makes a copy
    try:
        header = check_batch(batch, f"from {request.peer}")
        if header.source != session.source or not (
            header.first <= fetched.first <= fetched.last <= header.last
        ):
            raise CorruptBatch(f"from {request.peer}", f"it is not the one asked for: {header}")
    except CorruptBatch as error:
        log.error("%s: %s", session.source, error)
        first, last = max(fetched.first, request.first), min(fetched.last, request.last)
        session.plan.missing(request, first, last, Answer.UNKNOWN, str(error), now)
        return
    session.plan.fetched(request, header, batch, fetched.first, fetched.last, now)
    session.hand_on()
