from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import pytest
from tests.protocol.broken_answers import BREACHES, Breach, answers_of, name_of
from tests.whole import whole

from quorate.protocol.answers import AnswerPacking, AnswerReading, Piece
from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.errors import CorruptBatch, QuorateError
from quorate.protocol.framing import check_batch, encode_batch, read_contents, read_payloads
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.source.io.fetch_kept import (
    clipped,
    collect,
    fetch_kept,
)
from quorate.source.io.store_session import StoreSession
from quorate.source.protocol.resend_plan import (
    Kept,
    Load,
)
from quorate.transport.fetch import FetchCall
from quorate.v1.messages_pb2 import FetchRequest, FetchResponse

NAME = SourceName("orders", 0x10)
LINEAGE = Lineage((Term(3, 0),))
BATCH = encode_batch(NAME, 3, 10, [b"10", b"11", b"12", b"13"], 99)


def piece(frame: bytes, first: int, last: int) -> Piece:
    return Piece(frame, check_batch(frame), first, last)


def test_a_whole_batch_stays_as_it_is() -> None:
    assert clipped(piece(BATCH, 10, 13), LINEAGE, "a") == Kept(10, 13, BATCH, "a")


@pytest.mark.parametrize("part", [(10, 11), (12, 13), (11, 12)])
def test_of_a_batch_only_what_is_valid_and_wanted_is_kept(part: tuple[int, int]) -> None:
    item = clipped(piece(BATCH, *part), LINEAGE, "a")
    assert (item.first, item.last) == part
    header = check_batch(whole(item.batch))
    assert (header.first, header.last, header.epoch, header.timestamp_ns) == (*part, 3, 99)
    numbers = range(part[0], part[1] + 1)
    assert read_payloads(whole(item.batch), header) == [b"%d" % number for number in numbers]


def test_a_part_keeps_its_attributes() -> None:
    attributes = [Attributes(b"ten"), NO_ATTRIBUTES, Attributes(b"twelve")]
    batch = encode_batch(NAME, 3, 10, [b"10", b"11", b"12"], 99, attributes=attributes)
    item = clipped(piece(batch, 11, 12), LINEAGE, "a")
    contents = read_contents(whole(item.batch), check_batch(whole(item.batch)), 11, 12)
    assert contents == [(b"11", NO_ATTRIBUTES), (b"12", Attributes(b"twelve"))]


def test_what_a_later_epoch_voided_is_not_kept() -> None:
    """A store that has not begun yet serves as valid what is not so any more."""
    voided = Lineage((Term(3, 0), Term(4, 12)))
    item = clipped(piece(BATCH, 10, 13), voided, "a")
    assert (item.first, item.last) == (10, 11)
    with pytest.raises(CorruptBatch):
        clipped(piece(BATCH, 12, 13), voided, "a")
    with pytest.raises(CorruptBatch):
        clipped(piece(BATCH, 10, 13), Lineage((Term(4, 0),)), "a")


async def collected(*responses: FetchResponse, lineage: Lineage = LINEAGE) -> list[Kept]:
    """Return the batches kept of [10, 29] if a store answers so. A broken answer ends the fetch."""
    left = iter(responses)

    async def read() -> FetchResponse | None:
        return next(left, None)

    kept: list[Kept] = []
    call = FetchCall(AnswerReading("a:1", NAME, Range(10, 29)), read, lambda: None)
    with pytest.raises(QuorateError):
        await collect(call, "a", lineage, 10, kept)
    return kept


async def test_a_corrupt_copy_ends_what_a_store_gives() -> None:
    packing = AnswerPacking()
    packing.fetched(BATCH, Range(10, 13))
    packing.fetched(encode_batch(NAME, 3, 14, [b"14"], 99)[:-1] + b"x", Range(14, 14))
    packing.fetched(encode_batch(NAME, 3, 15, [b"15"], 99), Range(15, 15))
    assert await collected(*packing.all()) == [Kept(10, 13, BATCH, "a")]


async def test_behind_what_is_void_a_store_gives_nothing() -> None:
    packing = AnswerPacking()
    packing.fetched(BATCH, Range(10, 13))
    packing.fetched(encode_batch(NAME, 4, 14, [b"14"], 99), Range(14, 14))
    voided = Lineage((Term(3, 0), Term(4, 12)))
    (item,) = await collected(*packing.all(), lineage=voided)
    assert (item.first, item.last) == (10, 11)


# Asking stores.


class FakeStore:
    """A store that has [10, 39], in batches of ten, and the session with it."""

    def __init__(self, name: str, breach: Breach | None = None) -> None:
        self.store = StoreAddress(name, f"{name}:1")
        self.stub = self
        self.asked: list[tuple[int, int]] = []
        self._breach = breach

    def Fetch(self, request: FetchRequest) -> Any:
        self.asked.append((request.first, request.last))
        responses = self._responses(request)
        if self._breach is not None:
            responses = self._breach(answers_of(responses))

        async def read() -> Any:
            await asyncio.sleep(0)
            return next(responses, grpc.aio.EOF)

        return SimpleNamespace(read=read, cancel=lambda: None)

    @staticmethod
    def _responses(request: FetchRequest) -> Iterator[FetchResponse]:
        packing = AnswerPacking()
        for first in range(request.first - request.first % 10, 40, 10):
            payloads = [b"%d" % number for number in range(first, first + 10)]
            frame = encode_batch(NAME, 3, first, payloads, 99)
            packing.fetched(frame, Range(max(first, request.first), first + 9))
            yield from packing.all()
        packing.end(39, -1, LINEAGE)
        yield from packing.all()


@pytest.mark.parametrize("breach", BREACHES, ids=name_of)
@pytest.mark.expects_log("fetching kept messages .* ends before it is whole")
async def test_a_store_that_breaks_off_is_followed_by_the_next(breach: Breach) -> None:
    bad, sound = FakeStore("a", breach), FakeStore("b")
    load = Load(10, 39, {10: ("a", "b"), 20: ("b", "a")}, LINEAGE)
    sessions = {store.store.name: cast(StoreSession, store) for store in (bad, sound)}
    async with asyncio.timeout(60):
        kept = await fetch_kept(NAME, load, sessions)
    assert [(item.first, item.last, item.store) for item in kept] == [
        (10, 19, "a"),
        (20, 29, "b"),
        (30, 39, "b"),
    ]
    assert (bad.asked, sound.asked) == ([(10, 19)], [(20, 39)])
