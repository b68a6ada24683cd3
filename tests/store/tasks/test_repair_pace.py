"""What repairs and compares rests while its store is busy, and only then.

The filler, the comparison and the pace are production's; the clock stands still but where a test
lets time pass: while a peer answers, and in a rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tests import seams
from tests.store.ended import engine_of
from tests.store.support import FIRST_LINEAGE, ORDERS, TRADES, World, batch

from quorate.protocol.answers import AnswerPacking, AnswerReading
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules import digest
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
)
from quorate.store.rules.repair_plan import PeerView
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.comparison import (
    Comparing,
    asked_by,
)
from quorate.store.tasks.executor import in_threads
from quorate.store.tasks.fetcher import (
    Fetch,
    Fetching,
    Filler,
)
from quorate.store.tasks.throttle import (
    SHARE,
    Pace,
)
from quorate.transport.fetch import FetchCall
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

ANSWER_SECONDS = 0.05
BATCHES = 5
LAST = 10 * BATCHES - 1
WHOLE = Range(0, LAST)
PEER = PeerView("host:2", "s2")


def frames(salt: str = "") -> list[bytes]:
    return [batch(first, first + 9, salt=salt) for first in range(0, LAST, 10)]


class Time:
    """A clock, and what it was spent on."""

    def __init__(self, world: World, *, busy: bool, peers_busy: bool = False) -> None:
        """busy: a message of another source comes whenever time passes. peers_busy: to a peer."""
        self._world = world
        self.heard = Heard(PeerAnswer(PEER.store, PEER.address, b""), 0, 0, 0, busy=peers_busy)
        self._news = world.stream(source=TRADES) if busy else None
        self._messages = 0
        self.now = self._began = 1000.0
        self.rested = 0.0
        self._rested_at = self.now
        self.longest = 0.0
        """The longest that anything worked without a rest."""
        self._passes(0.0)

    def __call__(self) -> float:
        return self.now

    def _passes(self, seconds: float) -> None:
        self.now += seconds
        if self._news is not None:
            self._world.append(self._news, batch(self._messages, self._messages, source=TRADES))
            self._messages += 1

    def work(self) -> None:
        self._passes(ANSWER_SECONDS)
        self.longest = max(self.longest, self.now - self._rested_at)

    async def rest(self, seconds: float) -> None:
        self._passes(seconds)
        self.rested += seconds
        self._rested_at = self.now

    @property
    def share(self) -> float:
        """How much of the time was work."""
        spent = self.now - self._began
        return (spent - self.rested) / spent


class Answers:
    """A peer's answers to a fetch, a batch at a time; each takes a while."""

    def __init__(self, time: Time, salt: str = "") -> None:
        self._time = time
        packing = AnswerPacking()
        self._responses: list[v1.FetchResponse] = []
        for number, frame in enumerate(frames(salt)):
            packing.fetched(frame, Range(10 * number, 10 * number + 9))
            self._responses += packing.all()
        packing.end(LAST, LAST, FIRST_LINEAGE)
        self._responses += packing.all()

    async def read(self) -> v1.FetchResponse | None:
        self._time.work()
        return self._responses.pop(0) if self._responses else None

    def cancel(self) -> None: ...


class Peer:
    """A store that holds other content, as a stub."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._world = World()
        stream = self._world.stream()
        for frame in frames("other "):
            self._world.append(stream, frame)

    async def Digest(self, request: Any, timeout: float) -> store_v1.DigestResponse:
        assert timeout > 0
        self._time.work()
        reg_id = self._world.core.sources[ORDERS].reg_id
        wanted = Range(request.first, request.last)
        blocks = digest.blocks(self._world.storage, reg_id, wanted, request.block)
        return store_v1.DigestResponse(
            blocks=[
                store_v1.BlockDigest(
                    first=each.first, last=each.last, held=each.held, digest=each.digest
                )
                for each in blocks
            ]
        )

    def Fetch(self, _: v1.FetchRequest) -> Answers:
        return Answers(self._time, "other ")


def filler_of(world: World, time: Time) -> Filler:
    @asynccontextmanager
    async def reached(peer: str) -> AsyncIterator[Fetch]:
        def fetch(_: SourceState, wanted: Range) -> Fetching:
            answers = Answers(time)
            reading = AnswerReading(peer, ORDERS, wanted)
            return Fetching(FetchCall(reading, answers.read, answers.cancel))

        yield fetch

    def answering() -> dict[str, Heard]:
        return {PEER.store: time.heard}

    return Filler(engine_of(world), Pace(time), reached, answering, time.rest)


async def filled(world: World, time: Time) -> Filler:
    """A filler that has fetched everything."""
    filler = filler_of(world, time)
    state = world.core.sources[ORDERS]
    await filler.rest()  # nothing is owed: it looks whether the store is busy
    done = await filler.fill(
        state, PEER.address, [WHOLE], lambda: RangeSet([WHOLE]).minus(state.held.ranges), LAST
    )
    assert (done.messages, done.failed) == (LAST + 1, None)
    return filler


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A store with a source that has begun; what is busy makes a step of each batch."""
    seams.FETCHER_STEP_BYTES_BUSY.replace(monkeypatch, 1)
    world = World()
    world.stream()
    return world


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.mark.parametrize("where", ["here", "at a peer"])
async def test_a_busy_store_fetches_for_its_share_of_the_time(world: World, where: str) -> None:
    """Also one in limbo, to which no source streams, while its peers are busy."""
    time = Time(world, busy=where == "here", peers_busy=where == "at a peer")
    await filled(world, time)
    assert time.share == pytest.approx(SHARE)
    assert time.longest == pytest.approx(ANSWER_SECONDS), "a step at a time"


@pytest.mark.parametrize("step", [1, 1 << 20])
async def test_an_idle_store_fetches_without_a_rest(
    world: World, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """What it fetches itself is no news that would make it busy."""
    seams.FETCHER_STEP_BYTES.replace(monkeypatch, step)
    time = Time(world, busy=False)
    filler = await filled(world, time)
    assert time.rested == 0
    sizes = sum(map(len, frames()))
    assert filler.pace.bytes_per_second() == pytest.approx(sizes / 5), "of the last five seconds"


@pytest.mark.expects_log("hold other content")
@pytest.mark.parametrize("busy", [True, False])
async def test_what_compares_rests_while_the_store_is_busy(
    world: World, executor: ThreadPoolExecutor, busy: bool
) -> None:
    stream = world.open()
    for frame in frames():
        world.append(stream, frame)
    time = Time(world, busy=busy)
    filler = filler_of(world, time)
    filler.wrote(BATCHES)  # those above are no news
    comparing = Comparing(engine_of(world), in_threads(executor), filler)
    asked = asked_by(cast(StoreStub, Peer(time)), PEER.address)
    found = await comparing.compare(world.core.sources[ORDERS], PEER, asked, WHOLE)
    assert found == RangeSet([WHOLE])
    await filler.rest()  # what is owed for the last answer, before whatever comes next
    if busy:
        assert time.share == pytest.approx(SHARE)
        assert time.longest == pytest.approx(ANSWER_SECONDS), "a step at a time"
    else:
        assert time.rested == 0
