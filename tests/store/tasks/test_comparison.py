"""What comparing makes of what a peer gives: divergence is only what both have in one stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.store.ended import engine_of
from tests.store.support import ORDERS, World, batch

from quorate.protocol.answers import AnswerPacking, AnswerReading
from quorate.protocol.errors import OtherLineage
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules import digest
from quorate.store.rules.repair_plan import PeerView
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.reader import read
from quorate.store.tasks.comparison import (
    Asked,
    Comparing,
)
from quorate.store.tasks.executor import in_threads
from quorate.store.tasks.fetcher import (
    Fetching,
    Filler,
    PeerFailed,
    reached,
)
from quorate.store.tasks.throttle import Pace
from quorate.transport.channels import open_channel
from quorate.transport.fetch import FetchCall
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

PEER = PeerView("host:2", "s2")
WHOLE = Range(0, 29)
OLD = Lineage((Term(1, 0),))
NEW = Lineage((Term(1, 0), Term(2, 20)))


def store(lineage: Lineage, *frames: bytes) -> World:
    """One that has begun the epochs of a lineage, and holds this."""
    world = World()
    for number in range(1, len(lineage.terms) + 1):
        world.begin(Lineage(lineage.terms[:number]))
    stream = world.open(lineage.epoch)
    for frame in frames:
        world.append(stream, frame)
    return world


def asked_of(world: World) -> Asked:
    """A store that answers at once, with all that it has of a range."""
    reg_id = world.core.sources[ORDERS].reg_id

    async def digests(request: store_v1.DigestRequest) -> store_v1.DigestResponse:
        wanted = Range(request.first, request.last)
        blocks = digest.blocks(world.storage, reg_id, wanted, request.block)
        return store_v1.DigestResponse(
            blocks=[
                store_v1.BlockDigest(
                    first=each.first, last=each.last, held=each.held, digest=each.digest
                )
                for each in blocks
            ]
        )

    def fetch(state: SourceState, wanted: Range) -> Fetching:
        packing = AnswerPacking()
        for each in read(world.storage, reg_id, state.name, wanted, 100):
            packing.fetched(each.frame, each.part)
        packing.end(WHOLE.last, WHOLE.last, world.core.sources[ORDERS].lineage)
        responses = packing.all()

        async def next_response() -> v1.FetchResponse | None:
            return responses.pop(0) if responses else None

        reading = AnswerReading(PEER.address, state.name, wanted)
        return Fetching(FetchCall(reading, next_response, lambda: None))

    return Asked(digests, fetch)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def compared(executor: ThreadPoolExecutor, ours: World, theirs: World) -> RangeSet:
    engine = engine_of(ours)
    comparing = Comparing(
        engine,
        in_threads(executor),
        Filler(engine, Pace(time.monotonic), partial(reached, open_channel), dict),
    )
    return asyncio.run(comparing.compare(ours.core.sources[ORDERS], PEER, asked_of(theirs), WHOLE))


def test_the_same_in_other_batches_is_no_divergence(executor: ThreadPoolExecutor) -> None:
    ours = store(OLD, batch(0, 14), batch(15, 29))
    assert compared(executor, ours, store(OLD, batch(0, 29))) == RangeSet()


@pytest.mark.expects_log(r"hold other content for orders/0x\w+ \[15, 29\]")
def test_other_content_of_the_same_epoch_is_divergence(executor: ThreadPoolExecutor) -> None:
    ours = store(OLD, batch(0, 14), batch(15, 29))
    theirs = store(OLD, batch(0, 14), batch(15, 29, salt="other "))
    assert compared(executor, ours, theirs) == RangeSet([Range(15, 29)])


@pytest.mark.parametrize(
    ("frames", "void"),
    [
        pytest.param([batch(0, 19), batch(20, 29, salt="old ")], (20, 29), id="apart"),
        pytest.param([batch(0, 9), batch(10, 29)], (10, 29), id="straddling"),
    ],
)
def test_what_belongs_to_another_lineage_is_no_divergence(
    executor: ThreadPoolExecutor, frames: list[bytes], void: tuple[int, int]
) -> None:
    """As when two stores run under one name, and the lineage was heard of the other one."""
    ours = store(NEW, batch(0, 19), batch(20, 29, epoch=2))
    with pytest.raises(PeerFailed) as caught:
        compared(executor, ours, store(OLD, *frames))
    error = caught.value.error
    assert isinstance(error, OtherLineage)
    assert (error.address, error.source) == (PEER.address, str(ORDERS))
    assert (error.first, error.last, error.epoch) == (*void, 1)
