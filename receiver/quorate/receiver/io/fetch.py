"""Fetching what a stream lacks from one peer: a store, or the source's own retention."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from quorate.protocol.answers import AnswerReading
from quorate.protocol.errors import CorruptBatch, QuorateError
from quorate.protocol.framing import check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range
from quorate.protocol.wire import lineage_from_wire, source_to_wire
from quorate.receiver.io.channels import errors_of
from quorate.receiver.io.source_session import Session
from quorate.receiver.protocol.fetch_plan import (
    SOURCE,
    Answer,
    FetchPlan,
    Request,
)
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
            await _hear_stable_of(session, Request(peer, first, first, first))
        except QuorateError as error:
            log.info("%s: %s: %s", session.source, peer, error)


async def _hear_stable_of(session: Session, request: Request) -> None:
    call = _call(session, request)
    reading = _reading(session, request)
    try:
        while not reading.is_over:
            for kind, answer in await _read(session, call, request.peer, reading):
                if kind == "end":
                    epoch = lineage_from_wire(answer.end.lineage).epoch
                    session.tell_stable(answer.end.stable_upto, epoch)
    finally:
        call.cancel()


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


def _reading(session: Session, request: Request) -> AnswerReading:
    return AnswerReading(session.address_of(request.peer), Range(request.first, request.last))


async def _read(
    session: Session, call: Any, peer: str, reading: AnswerReading
) -> Iterator[tuple[str, v1.FetchAnswer]]:
    with errors_of(session.address_of(peer)):
        async with asyncio.timeout(session.options.request_timeout):
            response = await call.read()
    if not isinstance(response, v1.FetchResponse):
        raise reading.cut_short()
    return reading.answers(response)


async def _fetch(session: Session, request: Request) -> None:
    call = _call(session, request)
    loop = asyncio.get_running_loop()
    reading = _reading(session, request)
    try:
        while await session.room_for(request):
            for kind, answer in await _read(session, call, request.peer, reading):
                withdrawn = take_answer(
                    session.plan, session.source, request, kind, answer, loop.time()
                )
                if kind == "fetched":
                    session.hand_on()
                elif kind == "end":
                    session.withdraw(withdrawn)
            if reading.is_over:
                return
        session.plan.given_back(request)
    finally:
        call.cancel()


def take_answer(
    plan: FetchPlan,
    source: SourceName,
    request: Request,
    kind: str,
    answer: v1.FetchAnswer,
    now: float,
) -> Range | None:
    """Have the plan know what a peer answered; returns what its end withdraws, if anything."""
    if kind == "fetched":
        _take_batch(plan, source, request, answer.fetched, now)
    elif kind == "missing":
        missing = answer.missing
        why = _ANSWERS.get(missing.why, Answer.UNKNOWN)
        plan.missing(request, missing.first, missing.last, why, missing.detail, now)
    elif kind == "end":
        end = answer.end
        lineage = lineage_from_wire(end.lineage)
        return plan.ended(request, end.high, end.stable_upto, lineage, now)
    return None


def _take_batch(
    plan: FetchPlan, source: SourceName, request: Request, fetched: v1.Fetched, now: float
) -> None:
    """A corrupt copy is one that the peer does not have; others may."""
    batch = fetched.batch  # each look at the field makes a copy
    try:
        header = check_batch(batch, f"from {request.peer}")
        if header.source != source or not (
            header.first <= fetched.first <= fetched.last <= header.last
        ):
            raise CorruptBatch(f"from {request.peer}", f"it is not the one asked for: {header}")
    except CorruptBatch as error:
        log.error("%s: %s", source, error)
        first, last = max(fetched.first, request.first), min(fetched.last, request.last)
        plan.missing(request, first, last, Answer.UNKNOWN, str(error), now)
        return
    plan.fetched(request, header, batch, fetched.first, fetched.last, now)
