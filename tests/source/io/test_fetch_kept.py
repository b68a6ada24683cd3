from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import pytest
from tests.protocol.broken_answers import BREACHES, Breach, answers_of, name_of

from quorate.protocol.answers import AnswerPacking
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import check_batch, encode_batch, read_contents, read_payloads
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.source.io.fetch_kept import (
    clipped,
    fetch_kept,
)
from quorate.source.io.store_session import StoreSession
from quorate.source.protocol.resend_plan import (
    Kept,
    Load,
)
from quorate.v1.messages_pb2 import Fetched, FetchRequest, FetchResponse

NAME = SourceName("orders", 0x10)
LINEAGE = Lineage((Term(3, 0),))
BATCH = encode_batch(NAME, 3, 10, [b"10", b"11", b"12", b"13"], 99)


def test_a_whole_batch_stays_as_it_is() -> None:
    fetched = Fetched(batch=BATCH, first=10, last=13)
    assert clipped(NAME, LINEAGE, fetched, Range(10, 20), "a") == Kept(10, 13, BATCH, "a")


@pytest.mark.parametrize(
    ("valid", "wanted", "expected"),
    [
        ((10, 11), (10, 20), (10, 11)),
        ((10, 13), (12, 20), (12, 13)),
        ((11, 13), (10, 12), (11, 12)),
    ],
)
def test_of_a_batch_only_what_is_valid_and_wanted_is_kept(
    valid: tuple[int, int], wanted: tuple[int, int], expected: tuple[int, int]
) -> None:
    fetched = Fetched(batch=BATCH, first=valid[0], last=valid[1])
    item = clipped(NAME, LINEAGE, fetched, Range(*wanted), "a")
    assert (item.first, item.last) == expected
    header = check_batch(item.batch)
    assert (header.first, header.last, header.epoch, header.timestamp_ns) == (*expected, 3, 99)
    numbers = range(expected[0], expected[1] + 1)
    assert read_payloads(item.batch, header) == [b"%d" % number for number in numbers]


def test_a_part_keeps_its_attributes() -> None:
    whole = encode_batch(
        NAME, 3, 10, [b"10", b"11", b"12"], 99, attributes=[b"ten", b"", b"twelve"]
    )
    item = clipped(NAME, LINEAGE, Fetched(batch=whole, first=11, last=12), Range(10, 20), "a")
    contents = read_contents(item.batch, check_batch(item.batch), 11, 12)
    assert contents == [(b"11", b""), (b"12", b"twelve")]


def test_what_a_later_epoch_voided_is_not_kept() -> None:
    """A store that has not begun yet serves as valid what is not so any more."""
    fetched = Fetched(batch=BATCH, first=10, last=13)
    voided = Lineage((Term(3, 0), Term(4, 12)))
    item = clipped(NAME, voided, fetched, Range(10, 20), "a")
    assert (item.first, item.last) == (10, 11)
    with pytest.raises(CorruptBatch):
        clipped(NAME, voided, fetched, Range(12, 20), "a")
    with pytest.raises(CorruptBatch):
        clipped(NAME, Lineage((Term(4, 0),)), fetched, Range(10, 20), "a")


@pytest.mark.parametrize(
    ("source", "batch", "last", "first_wanted"),
    [
        (SourceName("other", 1), BATCH, 13, 10),
        (NAME, BATCH, 11, 12),
        (NAME, BATCH[:-1] + b"x", 13, 10),
    ],
)
def test_what_can_not_be_is_refused(
    source: SourceName, batch: bytes, last: int, first_wanted: int
) -> None:
    fetched = Fetched(batch=batch, first=10, last=last)
    with pytest.raises(CorruptBatch):
        clipped(source, LINEAGE, fetched, Range(first_wanted, 20), "a")


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
