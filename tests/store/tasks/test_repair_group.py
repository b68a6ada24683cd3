"""Stores that know each other as peers: begins that were missed, rot, comparing, goings-on."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import threading
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.protocol.broken_answers import (
    Breach,
    answers_of,
    goes_on_after_its_end,
    name_of,
    says_nothing_for_ever,
    stops_without_its_end,
)
from tests.store.support import (
    ORDERS,
    TRADES,
    Client,
    batch,
    free_addresses,
    payload,
    running,
)

from quorate.protocol import delays
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import Range
from quorate.protocol.wire import begun_epoch, source_to_wire
from quorate.store.node import StoreNode
from quorate.store.rpc import (
    service,
)
from quorate.store.rules import repair_plan
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.stream import SourceStreams
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.records import index_key
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

POLICY = Policy.majority_of(("s1", "s2", "s3"))
RECORD = Membership((POLICY,), (POLICY,))
FIRST = Lineage((Term(1, 0),))
SECOND = Lineage((Term(1, 0), Term(2, 50)))


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.DELAYS_OF_REPAIR.replace(monkeypatch, delays.with_longest(delays.REPAIR, 0.05))
    seams.REPAIR_COMPARE_SECONDS.replace(monkeypatch, 0.02)
    seams.PEER_POLLING_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.PEER_VIEWS_KEPT_SECONDS.replace(monkeypatch, 0.0)


class Group:
    """Two stores of three; the third is never there, and has nothing to say."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack = AsyncExitStack()
        self._running: dict[str, AsyncExitStack] = {}
        self.addresses = dict(zip(("s1", "s2"), free_addresses(2), strict=True))
        self.nodes: dict[str, StoreNode] = {}
        self.clients: dict[str, Client] = {}

    async def start(self, name: str, **settings: Any) -> Client:
        stack = self._running[name] = AsyncExitStack()
        others = tuple(each for other, each in self.addresses.items() if other != name)
        values = {"peers": others, "scrub_interval_seconds": 0.0, **settings}
        if not (self._path / name).exists():
            # It founds; its peers come later.
            async with running(self._path / name, name, scrub_interval_seconds=0.0):
                pass
        self.nodes[name] = await stack.enter_async_context(
            running(self._path / name, name, listen=self.addresses[name], **values)
        )
        self.clients[name] = await stack.enter_async_context(Client(self.addresses[name]))
        return self.clients[name]

    async def stop(self, name: str) -> None:
        await self._running.pop(name).aclose()

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[Client]:
        """The store runs, and no other: nobody repairs what the test has not done yet."""
        assert not self._running
        yield await self.start(name)
        await self.stop(name)

    async def stop_all(self) -> None:
        for name in list(self._running):
            await self.stop(name)


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    yield made
    await made.stop_all()


async def until(client: Client, so: Callable[[store_v1.StatusResponse], bool]) -> Any:
    """The store's status once it is so."""
    async with asyncio.timeout(30):
        while not so(status := await client.status()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return status


def held(status: store_v1.StatusResponse) -> list[tuple[int, int, int]]:
    (source,) = status.sources
    return [(item.first, item.last, item.epoch) for item in source.held]


async def begin(client: Client, lineage: Lineage = FIRST, **fields: Any) -> None:
    await client.promise(lineage.epoch, **fields)
    await client.begin(lineage, membership=RECORD, **fields)


async def fill(
    client: Client, first: int, last: int, stable_upto: int, epoch: int = 1, **fields: Any
) -> None:
    """Batches of ten, in a stream that then ends."""
    stream = await client.open(epoch, retained_from=first, stable_upto=min(first - 1, stable_upto))
    for at in range(first, last + 1, 10):
        await stream.batch(batch(at, min(at + 9, last), epoch, **fields), stable_upto)
    await stream.durable(last)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=stable_upto))
    await stream.close()


# Begins that were missed.


@pytest.mark.expects_log("set 10 messages aside")
async def test_a_begin_that_was_missed_is_taken_over_while_the_source_is_away(
    group: Group,
) -> None:
    for name, last in (("s2", 59), ("s1", 49)):
        async with group.alone(name) as client:
            await begin(client)
            await fill(client, 0, last, 39)
    one = await group.start("s1")
    # Epoch 2 keeps [0, 49]; what store two has above is void.
    await begin(one, SECOND)
    await fill(one, 50, 89, 69, epoch=2)
    two = await group.start("s2")
    status = await until(two, lambda status: held(status)[-1][1] == 69)
    assert held(status) == [(0, 49, 1), (50, 69, 2)], "and nothing above what is stable"
    (source,) = status.sources
    assert (source.promised_epoch, begun_epoch(source.begun), source.set_aside) == (2, 2, 10)
    assert source.stable_upto == 69
    # Who began comes back to it, with what was not stable.
    await two.promise(2)
    stream = await two.open(2, stable_upto=69)
    assert stream.next_sequence == 70
    await stream.batch(batch(70, 89, 2))
    await stream.durable(89)


async def test_a_source_that_was_never_heard_of_is_taken_over(group: Group) -> None:
    one = await group.start("s1")
    await begin(one)
    await fill(one, 0, 49, 44)
    stranger = Membership((), (Policy.majority_of(("s1", "s8", "s9")),))
    await one.promise(source=TRADES)
    await one.begin(source=TRADES, membership=stranger)
    two = await group.start("s2")
    status = await until(two, lambda status: bool(status.sources) and bool(held(status)))
    status = await until(two, lambda status: held(status) == [(0, 44, 1)])
    assert status.sources[0].information.source.topic == ORDERS.topic, "the other names it not"


async def test_while_the_source_streams_only_holes_are_filled(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_streaming = asyncio.Event()
    mend = seams.REPAIR_MEND.real()

    async def mend_while_streaming(*arguments: Any, **named: Any) -> Any:
        await is_streaming.wait()
        return await mend(*arguments, **named)

    seams.REPAIR_MEND.replace(monkeypatch, mend_while_streaming)
    one, two = await group.start("s1"), await group.start("s2")
    await begin(one)
    stream = await one.open()
    for first in range(0, 100, 10):
        await stream.batch(batch(first, first + 9), first - 1)
    await stream.durable(99)
    # Store two was away, is told of the hole, and follows slowly.
    await begin(two)
    slow = await two.open(retained_from=60, stable_upto=79)
    await slow.append(60, 69)
    is_streaming.set()
    status = await until(two, lambda status: held(status) == [(0, 69, 1)])
    assert status.sources[0].live
    await slow.append(70, 79)
    assert held(await two.status()) == [(0, 79, 1)]
    await stream.close()
    await slow.close()


async def test_a_higher_promise_keeps_a_store_from_taking_over(group: Group) -> None:
    for name in ("s1", "s2"):
        async with group.alone(name) as client:
            await begin(client)
            await fill(client, 0, 49, 39)
    one, two = await group.start("s1"), await group.start("s2")
    await two.promise(3)
    await begin(one, SECOND)
    await fill(one, 50, 59, 59, epoch=2)
    # A source that store two never heard of shows when it has looked at what store one knows.
    await begin(one, source=TRADES)
    await until(two, lambda status: len(status.sources) == 2)
    (orders,) = [
        source
        for source in (await two.status()).sources
        if source.information.source.topic == ORDERS.topic
    ]
    assert (orders.promised_epoch, begun_epoch(orders.begun)) == (3, 1)
    assert orders.held[-1].last == 49


# What can not be read.


async def spoil(node: StoreNode, first: int) -> None:
    """Damage the batch that begins there, behind the store's back."""
    engine = node._engine
    assert engine is not None
    for key, value in engine.reads.scan(Table.JOURNAL, b"", b"\xff" * 8, 1000):
        if payload(first) in value:
            damaged = value.replace(payload(first), b"_" * len(payload(first)))
            number = engine.writer.submit([Write(Table.JOURNAL, key, damaged)])
            await engine.writer.durable(number)
            return
    raise AssertionError(f"no batch has {first}")


@pytest.mark.expects_log("cannot be read|no peer could give it")
async def test_what_can_not_be_read_does_not_vouch_until_it_is_repaired(group: Group) -> None:
    one = await group.start("s1")
    await begin(one)
    await fill(one, 0, 49, 19)
    await spoil(group.nodes["s1"], 30)
    assert (await one.fetch()).missing == [(30, 39, v1.LOOKUP_UNKNOWN)]
    for _ in range(2):
        promised = await one.promise(1)
        assert promised.limbo
        assert promised.limbo_reason == "it cannot read [30, 39]"
        assert [(item.first, item.last) for item in promised.held] == [(0, 29), (40, 49)]
        assert begun_epoch(promised.begun) == 1
        await group.stop("s1")
        one = await group.start("s1")
    # It stays in service: it takes the next epoch, and the stream.
    promised = await one.promise(2)
    assert promised.limbo
    # A peer has it, above what is stable.
    await group.stop("s1")
    async with group.alone("s2") as two:
        await begin(two)
        await fill(two, 0, 49, 19)
    one = await group.start("s1")
    await group.start("s2")
    # Repair counts what it filled after the last of it is on disk.
    status = await until(one, lambda status: bool(status.repair.messages))
    assert not status.sources[0].unreadable
    assert held(status) == [(0, 49, 1)]
    assert status.sources[0].stable_upto == 19
    assert not (await one.promise(2)).limbo
    assert (await one.fetch()).messages == {number: payload(number) for number in range(50)}
    assert status.repair.messages == 10


@pytest.mark.expects_log("cannot be read|no peer could give it")
async def test_the_source_itself_may_bring_what_can_not_be_read(group: Group) -> None:
    one = await group.start("s1")
    await begin(one)
    await fill(one, 0, 49, 19)
    await spoil(group.nodes["s1"], 30)
    await one.fetch()
    stream = await one.open(retained_from=20)
    assert stream.next_sequence == 30, "it does not say that it has what it can not read"
    await stream.batch(batch(30, 39))
    await stream.batch(batch(40, 49))
    await stream.append(50, 59)
    await stream.close()
    assert len((await one.fetch()).messages) == 60
    assert not (await one.status()).sources[0].unreadable


@pytest.mark.expects_log("cannot be read|no peer could give it")
async def test_the_scrub_finds_rot_and_it_is_repaired(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SCRUB_BYTES_PER_SECOND_MIN.replace(monkeypatch, 1 << 30)
    seams.SCRUB_BYTES_PER_SECOND_MAX.replace(monkeypatch, 1 << 30)
    for name in ("s1", "s2"):
        async with group.alone(name) as client:
            await begin(client)
            await fill(client, 0, 199, 199)
            if name == "s1":
                await spoil(group.nodes["s1"], 120)
    await group.start("s2")
    one = await group.start("s1", scrub_interval_seconds=3600.0)
    status = await until(one, lambda status: bool(status.repair.messages))
    checked = status.repair.scrub
    assert (checked.unreadable, status.repair.messages) == (10, 10)
    status = await until(one, lambda status: status.repair.scrub.passes == 1)
    assert status.repair.scrub.part == 1.0
    assert status.repair.scrub.messages == 200
    assert (await one.fetch()).messages == {number: payload(number) for number in range(200)}
    await group.stop("s1")
    # The next pass is not due yet: that is known after a restart.
    one = await group.start("s1", scrub_interval_seconds=3600.0)
    status = (await until(one, lambda status: status.repair.scrub.part == 1.0)).repair
    assert (status.scrub.passes, status.scrub.messages) == (1, 0)


@pytest.mark.expects_log("cannot be read|no peer could give it")
async def test_what_could_not_be_read_for_a_while_is_believed_again(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SCRUB_BYTES_PER_SECOND_MIN.replace(monkeypatch, 1 << 30)
    seams.SCRUB_BYTES_PER_SECOND_MAX.replace(monkeypatch, 1 << 30)
    async with group.alone("s1") as client:
        await begin(client)
        await fill(client, 0, 199, 199)
        engine = group.nodes["s1"]._engine
        assert engine is not None
        assert engine.found_unreadable(engine.core.sources[ORDERS], Range(120, 129), "for once")
        assert (await client.status()).sources[0].unreadable
    one = await group.start("s1", scrub_interval_seconds=3600.0)
    status = await until(one, lambda status: not status.sources[0].unreadable)
    assert status.repair.messages == 0, "nobody else was there to give it back"


async def test_the_scrub_goes_on_where_it_was(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SCRUB_SAVE_SECONDS.replace(monkeypatch, 0.0)
    seams.SCRUB_CHUNK_BATCHES_MAX.replace(monkeypatch, 4)
    seams.SCRUB_BYTES_PER_SECOND_MIN.replace(monkeypatch, 20_000)
    one = await group.start("s1")
    await begin(one)
    await fill(one, 0, 499, 499)
    await group.stop("s1")
    one = await group.start("s1", scrub_interval_seconds=3600.0)
    before = (await until(one, lambda status: status.repair.scrub.messages > 100)).repair.scrub
    assert before.part < 1
    await group.stop("s1")
    seams.SCRUB_BYTES_PER_SECOND_MIN.replace(monkeypatch, 1 << 30)
    one = await group.start("s1", scrub_interval_seconds=3600.0)
    after = (await until(one, lambda status: status.repair.scrub.passes == 1)).repair.scrub
    assert after.messages <= 500 - before.messages + 40, "at most one chunk is read twice"


# Comparing.


async def compared(client: Client) -> store_v1.RepairStatus:
    request = store_v1.RepairRequest(protocol_version=PROTOCOL_VERSION)
    last = [progress async for progress in client.stub.Repair(request)][-1]
    assert last.verdict
    status: store_v1.RepairStatus = (await client.status()).repair
    return status


async def test_other_batches_with_the_same_content_are_no_divergence(group: Group) -> None:
    for name, step in (("s1", 10), ("s2", 7)):
        async with group.alone(name) as client:
            await begin(client)
            stream = await client.open()
            for at in range(0, 100, step):
                await stream.batch(batch(at, min(at + step - 1, 99), key=b"key"), 99)
            await stream.durable(99)
            await stream.close()
    one, _ = await group.start("s1"), await group.start("s2")
    status = await compared(one)
    assert (status.compared, status.divergent) == (1, 0)


async def differing(group: Group, other: dict[str, Any]) -> tuple[Client, Client]:
    """Two stores of which the second has other content for [40, 49], which the first has found."""
    for name in ("s1", "s2"):
        async with group.alone(name) as client:
            await begin(client)
            stream = await client.open()
            for at in range(0, 100, 10):
                salted = other if name == "s2" and at == 40 else {}
                await stream.batch(batch(at, at + 9, **salted), 99)
            await stream.durable(99)
            await stream.close()
    one, two = await group.start("s1"), await group.start("s2")
    await until(one, lambda status: bool(status.repair.divergent))
    return one, two


@pytest.mark.expects_log("stores s. and s. hold other content for .* .40, 49.; nothing")
@pytest.mark.parametrize("other", [{"salt": "other "}, {"key": b"other"}])
async def test_other_content_is_reported_and_never_overwritten(
    group: Group, caplog: pytest.LogCaptureFixture, other: dict[str, Any]
) -> None:
    one, two = await differing(group, other)
    status = await one.status()
    assert status.repair.divergent == 1
    assert (await one.fetch()).messages[40] == payload(40)
    assert (await two.fetch()).messages[40] == payload(40, other.get("salt", ""))
    request = store_v1.RepairRequest(
        source=source_to_wire(ORDERS), protocol_version=PROTOCOL_VERSION
    )
    last = [progress async for progress in one.stub.Repair(request)][-1]
    assert (last.divergent, last.complete) == (10, False)
    assert "has other content than store s2 for [40, 49]" in last.verdict
    assert any(record.levelname == "ERROR" for record in caplog.records)


@pytest.mark.expects_log("stores s. and s. hold other content for .* .40, 49.; nothing")
async def test_in_what_a_store_differed_that_was_replaced_is_not_told_any_more(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has to be compared again from the first number on, and that at once."""
    one, _ = await differing(group, {"salt": "other "})
    view_of = seams.PEER_VIEWS_VIEW_OF.real()

    def replaced(*told: Any) -> Any:
        return dataclasses.replace(view_of(*told), incarnation=b"new", held=())

    seams.PEER_VIEWS_VIEW_OF.replace(monkeypatch, replaced)
    await until(one, lambda status: not status.repair.divergent)


@pytest.mark.expects_log("cannot be read: it is held, but not in the index")
async def test_what_comparing_finds_lacking_is_repaired(group: Group) -> None:
    for name in ("s1", "s2"):
        async with group.alone(name) as client:
            await begin(client)
            await fill(client, 0, 99, 99)
    one, _ = await group.start("s1"), await group.start("s2")
    engine = group.nodes["s1"]._engine
    assert engine is not None
    key = index_key(engine.core.sources[ORDERS].reg_id, 40)
    await engine.writer.durable(engine.writer.submit([Write(Table.INDEX, key, None)]))
    request = store_v1.RepairRequest(protocol_version=PROTOCOL_VERSION)
    last = [progress async for progress in one.stub.Repair(request)][-1]
    assert (last.verdict, last.complete) == ("whole", True)
    assert (await one.fetch()).messages == {number: payload(number) for number in range(100)}


async def test_what_is_not_stable_is_not_compared(group: Group) -> None:
    for name, salt in (("s1", ""), ("s2", "other ")):
        async with group.alone(name) as client:
            await begin(client)
            await fill(client, 0, 49, NOTHING, salt=salt)
    one, _ = await group.start("s1"), await group.start("s2")
    status = await compared(one)
    assert (status.compared, status.divergent) == (1, 0)


# Peers that break off.

SOME_BREACHES = (stops_without_its_end, says_nothing_for_ever, goes_on_after_its_end)


def break_off(monkeypatch: pytest.MonkeyPatch, store: str, breach: Breach) -> list[int]:
    """Have this store answer fetches so; returns where each one begins."""
    sound = seams.SERVICE_FETCH.real()
    begun: list[int] = []

    async def fetch(self: service.Service, request: v1.FetchRequest, context: Any) -> Any:
        responses = sound(self, request, context)
        if self._engine.core.store != store:
            async for response in responses:
                yield response
            return
        begun.append(request.first)
        for response in breach(answers_of([each async for each in responses])):
            yield response

    seams.SERVICE_FETCH.replace(monkeypatch, fetch)
    return begun


@pytest.mark.parametrize("breach", SOME_BREACHES, ids=name_of)
@pytest.mark.expects_log("ends before it is whole|no peer could give it")
async def test_a_peer_that_breaks_off_is_followed_by_the_next(
    group: Group, monkeypatch: pytest.MonkeyPatch, breach: Breach
) -> None:
    group.addresses["s3"] = free_addresses(1)[0]
    for name in ("s1", "s2", "s3"):
        async with group.alone(name) as client:
            await begin(client)
            if name != "s2":
                await fill(client, 0, 99, 99)
    begun = break_off(monkeypatch, "s1", breach)
    errands = seams.REPAIR_PLAN_ERRANDS.real()

    def first_of_s1(*arguments: Any) -> list[repair_plan.Errand]:
        return sorted(errands(*arguments), key=lambda errand: errand.peer.store)

    seams.REPAIR_PLAN_ERRANDS.replace(monkeypatch, first_of_s1)
    await group.start("s1")
    await group.start("s3")
    two = await group.start("s2")
    await until(two, lambda status: held(status) == [(0, 99, 1)])
    assert begun == [0]
    assert (await two.fetch()).messages == {number: payload(number) for number in range(100)}


@pytest.mark.parametrize("breach", SOME_BREACHES, ids=name_of)
@pytest.mark.expects_log("ends before it is whole|other content|no peer could give it")
async def test_with_a_peer_that_breaks_off_nothing_is_compared(
    group: Group, monkeypatch: pytest.MonkeyPatch, breach: Breach
) -> None:
    for name, salt in (("s1", ""), ("s2", "other ")):
        async with group.alone(name) as client:
            await begin(client)
            await fill(client, 0, 9, 49)
            await fill(client, 10, 49, 49, salt=salt)
    break_off(monkeypatch, "s2", breach)
    one, _ = await group.start("s1"), await group.start("s2")
    request = store_v1.RepairRequest(protocol_version=PROTOCOL_VERSION)
    last = [progress async for progress in one.stub.Repair(request)][-1]
    assert f"did not answer: {group.addresses['s2']}" in last.verdict


# Cut off in the middle.


async def test_a_repair_that_was_cut_off_goes_on(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.FETCHER_STEP_BYTES.replace(monkeypatch, 2000)
    one = await group.start("s1")
    await begin(one)
    await fill(one, 0, 999, 999)
    fill_one, reached = seams.SOURCE_STREAMS_FILL.real(), asyncio.Event()

    def cut(self: SourceStreams, state: SourceState, *arguments: Any) -> Any:
        change = fill_one(self, state, *arguments)
        if state.held.ranges.high > 400:
            reached.set()
            raise asyncio.CancelledError
        return change

    with monkeypatch.context() as patch:
        seams.SOURCE_STREAMS_FILL.replace(patch, cut)
        await group.start("s2")
        await asyncio.wait_for(reached.wait(), 20)
    await group.stop("s2")
    two = await group.start("s2")
    status = await until(two, lambda status: held(status) == [(0, 999, 1)])
    assert 0 < status.repair.messages < 1000, "what was there was not fetched again"
    assert (await two.fetch()).messages == {number: payload(number) for number in range(1000)}


# Killed in the middle.


@asynccontextmanager
async def process(group: Group, path: Path, name: str) -> AsyncIterator[Process]:
    """The store as a process of its own."""
    others = [each for other, each in group.addresses.items() if other != name]
    running_now = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "store", "run", "-o", "json"),
        *("--name", name),
        *("--data-directory", str(path), "--listen", group.addresses[name]),
        *(argument for each in others for argument in ("--peer", each)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert running_now.stdout is not None
    await running_now.stdout.readline()  # it serves
    try:
        yield running_now
    finally:
        if running_now.returncode is None:
            running_now.kill()
        await running_now.wait()


@pytest.mark.processes
async def test_a_repair_that_was_killed_goes_on(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await group.start("s1")
    await begin(one)
    await fill(one, 0, 999, 999)
    wanted: list[int] = []
    let, half = threading.Event(), asyncio.Event()
    loop, read = asyncio.get_running_loop(), seams.READ_IN_STORE_SERVICE.real()

    def slow(*arguments: Any) -> Any:
        wanted.append(arguments[3].first)
        if arguments[3].first >= 400 and not let.is_set():
            loop.call_soon_threadsafe(half.set)
            let.wait(30)
        return read(*arguments)

    async with running(tmp_path / "s2", "s2", scrub_interval_seconds=0.0):
        pass
    seams.READ_IN_STORE_SERVICE.replace(monkeypatch, slow)
    seams.STORE_FETCH_CHUNK_BATCHES_MAX.replace(monkeypatch, 4)
    try:
        async with (
            process(group, tmp_path / "s2", "s2") as victim,
            Client(group.addresses["s2"]) as two,
        ):
            async with asyncio.timeout(60):
                await half.wait()
                await until(two, lambda status: held(status)[-1][1] >= 399)
                # What a fetch gives is on the disk.
                assert len((await two.fetch(0, 399)).messages) == 400
            victim.kill()
        let.set()
        before = len(wanted)
        async with process(group, tmp_path / "s2", "s2"), Client(group.addresses["s2"]) as two:
            status = await until(two, lambda status: held(status) == [(0, 999, 1)])
            assert min(wanted[before:]) >= 400, "what was there was not fetched again"
            assert status.repair.messages <= 600
            assert len((await two.fetch()).messages) == 1000
    finally:
        let.set()


async def test_a_source_without_news_is_left_alone_until_a_peer_has_news(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store with a thousand idle sources looked after each of them every second."""
    looks, mend = 0, seams.REPAIR_MEND.real()
    repair: Any = None

    async def counted(self: Any, state: SourceState, case: Any, fresh: bool) -> Any:
        nonlocal looks, repair
        if self._engine.core.store == "s2":
            looks, repair = looks + 1, self
        return await mend(self, state, case, fresh)

    seams.REPAIR_MEND.replace(monkeypatch, counted)
    one, two = await group.start("s1"), await group.start("s2")
    for client in (one, two):
        await client.promise()
        await client.begin(FIRST, membership=RECORD)
        stream = await client.open()
        await stream.append(0, 9)
        await stream.close()
    async with asyncio.timeout(60):
        # It is to be looked after only for the comparison of everything, in a day.
        while not looks or repair._cases[ORDERS].until < time.monotonic() + 3600:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    looked = looks
    assert looked < 40
    stream = await one.open()
    await stream.append(10, 19)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=19))
    async with asyncio.timeout(60):
        while (await two.fetch()).messages.get(19) != payload(19):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert looks > looked
