"""The calls of Fetch: whatever ends one before the peer said that it has no more is an error.

What the answers say is checked in tests/protocol/test_answers.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.protocol.broken_answers import BREACHES, Breach, answers_of, name_of

from quorate.protocol.answers import Answer, AnswerPacking, AnswerReading, Corrupt, Piece
from quorate.protocol.errors import (
    BrokenAnswer,
    InLimbo,
    QuorateError,
    Unreachable,
)
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import NO_LINEAGE
from quorate.protocol.ranges import Range
from quorate.transport.failures import failure_to_wire
from quorate.transport.fetch import BlockingFetchCall, FetchCall, fetch
from quorate.v1 import messages_pb2 as v1

ORDERS = SourceName("orders", 0x10)
WANTED = Range(0, 99)
SILENCE_SECONDS = 0.2
Step = v1.FetchResponse | Exception | None
"""A response, what ends the call, or None: nothing comes until the call is cancelled."""


def batch(first: int, last: int, source: SourceName = ORDERS) -> bytes:
    return encode_batch(source, 1, first, [b"%d" % n for n in range(first, last + 1)], 0)


def sound() -> list[v1.FetchResponse]:
    """Three responses: [0, 9], then [10, 14] is missing and [15, 19] follows, then the end."""
    packing = AnswerPacking()
    packing.fetched(batch(0, 9), Range(0, 9))
    responses = packing.all()
    packing.missing(Range(10, 14), v1.LOOKUP_ABSENT, "")
    packing.fetched(batch(15, 19), Range(15, 19))
    responses += packing.all()
    packing.end(19, 19, NO_LINEAGE)
    return responses + packing.all()


class Failed(grpc.aio.AioRpcError):
    """A call that ended in trouble of the network, or with an error of the peer."""

    def __init__(self, error: QuorateError | None = None) -> None:
        trailing = grpc.aio.Metadata()
        if error is not None:
            trailing.add("quorate-failure-bin", failure_to_wire(error).SerializeToString())
        code = grpc.StatusCode.UNAVAILABLE
        super().__init__(code, grpc.aio.Metadata(), trailing, "connection refused")


class Stub:
    """A peer that answers as scripted, and its call."""

    def __init__(self, script: Iterable[Step]) -> None:
        self._script = iter(script)
        self.requests: list[v1.FetchRequest] = []
        self.cancelled = threading.Event()

    def Fetch(self, request: v1.FetchRequest) -> Stub:
        self.requests.append(request)
        return self

    async def read(self) -> Any:
        await asyncio.sleep(0)
        step = next(self._script, grpc.aio.EOF)
        if isinstance(step, Exception):
            raise step
        if step is None:
            await asyncio.Event().wait()
        return step

    def __iter__(self) -> Iterator[v1.FetchResponse]:
        for step in self._script:
            if isinstance(step, Exception):
                raise step
            if step is None:
                self.cancelled.wait()
            if self.cancelled.is_set():
                return
            assert step is not None
            yield step

    def cancel(self) -> None:
        self.cancelled.set()


async def read_async(stub: Stub, answers: list[Answer], silence: float = 60.0) -> None:
    call = fetch(stub, "peer:1", ORDERS, WANTED, silence)
    try:
        while not call.is_over:
            answers.extend(await call.answers())
    finally:
        call.close()


async def read_blocking(stub: Stub, answers: list[Answer], silence: float = 60.0) -> None:
    reading = AnswerReading("peer:1", ORDERS, WANTED)
    with BlockingFetchCall(reading, stub, silence) as call:
        answers.extend(call)


Read = Callable[..., Awaitable[None]]
EITHER_WAY = pytest.mark.parametrize("read", [read_async, read_blocking])


@EITHER_WAY
async def test_answers_come_in_order_up_to_the_end(read: Read) -> None:
    stub, answers = Stub([*sound(), None]), list[Answer]()
    await read(stub, answers)
    assert [type(each) for each in answers] == [Piece, v1.Missing, Piece, v1.FetchEnd]
    assert stub.cancelled.is_set(), "a call that is over is let go"


@EITHER_WAY
async def test_a_batch_of_another_source_is_a_corrupt_copy(read: Read) -> None:
    packing = AnswerPacking()
    packing.fetched(batch(0, 9, SourceName("bills", 0x10)), Range(0, 9))
    packing.end(9, 9, NO_LINEAGE)
    answers = list[Answer]()
    await read(Stub(packing.all()), answers)
    assert [type(each) for each in answers] == [Corrupt, v1.FetchEnd]


@EITHER_WAY
@pytest.mark.parametrize(
    ("ends", "error"),
    [
        pytest.param([], BrokenAnswer, id="stops"),
        pytest.param([None], Unreachable, id="hangs"),
        pytest.param([Failed()], Unreachable, id="fails"),
        pytest.param([v1.FetchResponse()], BrokenAnswer, id="empty"),
    ],
)
async def test_a_call_that_breaks_off_is_an_error(
    read: Read, ends: list[Step], error: type[QuorateError]
) -> None:
    stub, answers = Stub([sound()[0], *ends]), list[Answer]()
    with pytest.raises(error) as caught:
        await read(stub, answers, SILENCE_SECONDS if None in ends else 60.0)
    assert [type(each) for each in answers] == [Piece], "what came before it counts"
    assert isinstance(caught.value, BrokenAnswer | Unreachable)
    assert caught.value.address == "peer:1"
    assert stub.cancelled.is_set()


@EITHER_WAY
async def test_an_error_of_the_peer_comes_as_it_is(read: Read) -> None:
    in_limbo = InLimbo("orders/0x10", "a", "wiped")
    with pytest.raises(InLimbo) as caught:
        await read(Stub([Failed(in_limbo)]), [])
    assert str(caught.value) == str(in_limbo)


@EITHER_WAY
async def test_a_hung_peer_is_said_to_have_said_nothing(read: Read) -> None:
    with pytest.raises(Unreachable, match=r"it has said nothing for 0\.2 s"):
        await read(Stub([None]), [], SILENCE_SECONDS)


@EITHER_WAY
@pytest.mark.parametrize("breach", BREACHES, ids=name_of)
async def test_a_peer_that_breaks_the_rule_is_never_taken_to_have_no_more(
    read: Read, breach: Breach
) -> None:
    answers = list[Answer]()
    with pytest.raises(BrokenAnswer):
        await read(Stub(breach(answers_of(sound()))), answers)
    assert not any(isinstance(each, v1.FetchEnd) for each in answers)


async def test_the_request_names_the_source_and_the_range() -> None:
    stub = Stub(sound())
    await read_async(stub, [])
    (request,) = stub.requests
    assert (request.source.topic, request.source.session_id) == ("orders", 0x10)
    assert (request.first, request.last) == (0, 99)


async def test_an_error_of_a_reader_is_passed_on_as_it_is() -> None:
    async def read() -> object:
        raise InLimbo("orders/0x10", "a", "wiped")

    call = FetchCall(AnswerReading("peer:1", ORDERS, WANTED), read, lambda: None)
    with pytest.raises(InLimbo):
        await call.answers()


def test_a_blocking_call_that_is_left_early_ends_its_thread() -> None:
    before = threading.active_count()
    packing, responses = AnswerPacking(), list[Step]()
    for number in range(40):
        packing.fetched(batch(number, number), Range(number, number))
        responses += packing.all()
    reading = AnswerReading("peer:1", ORDERS, WANTED)
    with BlockingFetchCall(reading, Stub([*responses, None]), SILENCE_SECONDS) as call:
        assert isinstance(next(iter(call)), Piece)
    assert threading.active_count() == before
