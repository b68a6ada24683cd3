"""Sources that drew their session IDs, closed, and had nothing left: their stores forget them.

Each store lets go of the messages when the test asks it to, so that stores finish at different
times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.store.group import NAMES, Group

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_from_wire
from quorate.receiver import Receiver, ReceiverOptions
from quorate.source import FilePublishStore, Source
from quorate.store.engine import Engine
from quorate.store.storage.interface import Table
from quorate.transport.status import read_status, status_request
from quorate.v1 import store_pb2 as store_v1

TOPIC = "orders"


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    await made.found()
    yield made
    await made.stop(*made.nodes)


def engine_of(group: Group, name: str) -> Engine:
    engine = group.nodes[name]._engine
    assert engine is not None
    return engine


def stores_of(group: Group) -> str:
    return ",".join(f"{name}={address}" for name, address in group.addresses.items())


async def sent(group: Group, count: int = 3, **settings: object) -> SourceName:
    """A source that sent so many messages, and has closed."""
    source = await Source.open(TOPIC, stores=stores_of(group), timeout=60.0, **settings)  # type: ignore[arg-type]
    async with source:
        await source.send_many([b"%d" % number for number in range(count)])
        await source.flush(60)
    return source.name


async def release(group: Group, *names: str) -> None:
    """Have these stores let go of all messages."""
    for name in names:
        request = store_v1.ReleaseRequest(
            before_ns=time.time_ns() + 10**12, protocol_version=PROTOCOL_VERSION
        )
        async with group.client(name) as client:
            async for _ in client.stub.Release(request):
                pass


async def until(group: Group, holds: Callable[[], bool]) -> None:
    """Return once something holds, with all stores asking each other as fast as they can."""
    async with asyncio.timeout(300):
        while not holds():
            for name in group.nodes:
                group.peers(name).hurry()
            await asyncio.sleep(0.05)


def knows(group: Group, name: str, source: SourceName) -> bool:
    return source in engine_of(group, name).core.sources


def finished_at(group: Group, name: str, source: SourceName) -> bool:
    engine = engine_of(group, name)
    state = engine.core.sources.get(source)
    return state is not None and engine.is_finished(state)


async def all_finish(group: Group, source: SourceName, *names: str) -> None:
    await until(group, lambda: all(finished_at(group, name, source) for name in names))


async def all_forget(group: Group, source: SourceName) -> None:
    await until(group, lambda: not any(knows(group, name, source) for name in group.nodes))
    await no_rows(group)


async def no_rows(group: Group) -> None:
    """Nothing on the stores' disks is filed under a source, nor is a RegID taken."""
    for name in group.nodes:
        engine = engine_of(group, name)
        await engine.writer.durable(engine.writer.submit(()))
        for table in (Table.REGISTRATIONS, Table.HELD, Table.RECEIVERS, Table.MARKERS, Table.INDEX):
            assert engine.reads.scan(table, b"", b"\xff" * 32, 9) == [], (name, table)
        for kind in (b"gone/", b"life/", b"ended/"):
            assert engine.reads.scan(Table.META, kind, kind + b"\xff" * 16, 9) == [], (name, kind)
        assert not engine.core.identities.ended


async def goes_on(group: Group, source: SourceName, rounds: int = 3) -> None:
    """Nobody forgets the source in so many rounds of questions and looks."""
    known = {name for name in group.nodes if knows(group, name, source)}
    for _ in range(rounds):
        for name in group.nodes:
            await group.rounds(name, 1)
            keeper = group.nodes[name].keeper
            assert keeper is not None
            await keeper.look(time.monotonic())
    assert known == {name for name in group.nodes if knows(group, name, source)}


async def opens(group: Group) -> Receiver:
    options = ReceiverOptions(registration_interval=0.5)
    return await Receiver.open(TOPIC, stores=stores_of(group), timeout=20.0, options=options)


async def announced(group: Group, name: str) -> set[SourceName]:
    """The sources that a store announces to one who comes now."""
    found = set()
    async with group.client(name) as client:
        watching = client.stub.Watch(
            store_v1.WatchRequest(topic=TOPIC, protocol_version=PROTOCOL_VERSION)
        )
        while (response := await watching.read()).HasField("entry"):
            found.add(source_from_wire(response.entry.information.source))
        watching.cancel()
    return found


NO_SOURCE = pytest.mark.expects_log("no store has a source of")


async def test_stores_that_let_go_at_different_times_forget_together(group: Group) -> None:
    source = await sent(group)
    await goes_on(group, source)
    await release(group, "a")
    await all_finish(group, source, "a")
    await goes_on(group, source)
    await release(group, "b")
    await all_finish(group, source, "a", "b")
    await goes_on(group, source)
    assert await announced(group, "a") == {source}, "c has more"
    await release(group, "c")
    await all_forget(group, source)
    await goes_on(group, source)


@NO_SOURCE
async def test_a_receiver_opens_in_every_stage(group: Group) -> None:
    source = await sent(group)
    for finished in NAMES:
        async with await opens(group) as receiver:
            assert receiver.sources == (source,)
        await release(group, finished)
        if finished != "c":
            await all_finish(group, source, finished)
    async with await opens(group):
        pass
    await all_forget(group, source)
    async with await opens(group) as receiver:
        assert receiver.sources == ()


@NO_SOURCE
async def test_receivers_open_all_the_while(group: Group) -> None:
    source = await sent(group)
    opened = 0

    async def open_over_and_over() -> None:
        nonlocal opened
        while True:
            async with await opens(group):
                opened += 1

    opening = asyncio.create_task(open_over_and_over())
    for name in NAMES:
        await release(group, name)
    await all_forget(group, source)
    before = opened
    await until(group, lambda: opened > before + 1 or opening.done())
    opening.cancel()
    await asyncio.wait([opening])
    assert opening.cancelled()


@NO_SOURCE
async def test_a_receiver_that_follows_the_source_sees_it_leave(group: Group) -> None:
    async with await opens(group) as receiver:
        source = await sent(group)
        for number in range(3):
            message = await receiver.receive(60)
            assert message is not None
            assert message.payload == b"%d" % number
        # Asking for the next message acknowledges the last one.
        assert await receiver.receive(0.01) is None
        await receiver.flush(60)
        await release(group, *NAMES)
        await all_forget(group, source)
        # Positions are told again only after a while. Here stores refuse them at once.
        for address in group.addresses.values():
            receiver._acknowledger.repeat(address)
        await until(group, lambda: receiver.sources == ())
        await receiver.flush(60)
        again = await sent(group, 1)
        message = await receiver.receive(60)
        assert message is not None
        assert message.source == again


@pytest.mark.expects_log("does not take|lost its quorum|is silent|can not be heard|cannot be heard")
async def test_nothing_is_forgotten_while_a_store_is_away(group: Group) -> None:
    source = await sent(group)
    await group.stop("c")
    await release(group, "a", "b")
    await all_finish(group, source, "a", "b")
    await until(group, lambda: len(group.peers("a").answering()) == 1)
    for name in ("a", "b"):
        keeper = group.nodes[name].keeper
        assert keeper is not None
        for _ in range(3):
            group.peers(name).hurry()
            await keeper.look(time.monotonic())
    assert knows(group, "a", source)
    assert knows(group, "b", source)
    # It may not have heard yet that b is finished, too.
    await until(group, lambda: not engine_of(group, "a").has_more(source))
    assert await announced(group, "a") == set()
    await group.start("c")
    await group.vouching("c")
    await release(group, "c")
    await all_forget(group, source)


@pytest.mark.expects_log("does not take|lost its quorum|does not answer")
async def test_a_store_that_was_away_at_the_close_hears_of_it(group: Group) -> None:
    async with await Source.open(TOPIC, stores=stores_of(group), timeout=60.0) as opened:
        await opened.publish(b"0")
        await group.stop("c")
        await opened.publish(b"1")
    await release(group, "a", "b")
    await all_finish(group, opened.name, "a", "b")
    await group.start("c")
    await group.vouching("c")
    await until(
        group,
        lambda: (
            (state := engine_of(group, "c").core.sources.get(opened.name)) is None
            or state.registration.clean
        ),
    )
    await release(group, "c")
    await all_forget(group, opened.name)


@pytest.mark.expects_log("does not take|lost its quorum|does not answer|does not register")
async def test_a_store_that_never_knew_the_source_is_not_told_of_it(group: Group) -> None:
    await group.stop("c")
    source = await sent(group)
    await release(group, "a", "b")
    await all_finish(group, source, "a", "b")
    assert knows(group, "a", source)
    await group.start("c")
    await group.vouching("c")
    await all_forget(group, source)


@pytest.mark.parametrize("stage", range(4))
async def test_all_stores_restart_in_each_stage(group: Group, stage: int) -> None:
    source = await sent(group)
    for at, name in enumerate(NAMES):
        if at == stage:
            await restart(group)
        await release(group, name)
    if stage == len(NAMES):
        await restart(group)
    await all_forget(group, source)


async def restart(group: Group) -> None:
    await group.stop(*NAMES)
    await group.start(*NAMES)
    await group.vouching(*NAMES)


@NO_SOURCE
async def test_a_source_that_sent_nothing_is_forgotten_at_once(group: Group) -> None:
    async with await opens(group) as receiver:
        async with await Source.open(TOPIC, stores=stores_of(group), timeout=60.0) as source:
            await until(group, lambda: receiver.sources == (source.name,))
            session = receiver._sessions[source.name]
            await until(group, lambda: session.record.live)
        # It is told that the source has left, though nobody else hears of the source any more.
        await until(group, lambda: not session.record.live)
        await all_forget(group, source.name)


async def test_others_stay(group: Group, tmp_path: Path) -> None:
    """One with an ID that was chosen, one with a RegID, and one that keeps its ID on disk."""
    kept = FilePublishStore(tmp_path / "publish store")
    named = [
        await sent(group, session_id=0x10),
        await sent(group, reg_id=0x7777),
        await sent(group, publish_store=kept),
    ]
    drawn = await sent(group)
    await release(group, *NAMES)
    await until(group, lambda: not any(knows(group, name, drawn) for name in NAMES))
    for source in named:
        await goes_on(group, source, 1)
        assert all(knows(group, name, source) for name in NAMES)


async def test_sources_of_topics_with_keys_stay(tmp_path: Path) -> None:
    made = Group(tmp_path)
    for name in NAMES:
        made.overrides[name] = {"topic": ({"pattern": TOPIC, "keys": ("id",)},)}
    await made.found()
    async with await Source.open(TOPIC, stores=stores_of(made), timeout=60.0) as source:
        pass
    await goes_on(made, source.name)
    assert all(knows(made, name, source.name) for name in NAMES)
    await made.stop(*NAMES)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_hundred_leave_nothing_behind(group: Group) -> None:
    for _ in range(5):
        await asyncio.gather(*(sent(group, 1) for _ in range(20)))
    await release(group, *NAMES)
    await until(group, lambda: not any(engine_of(group, name).core.sources for name in NAMES))
    await no_rows(group)
    for name in NAMES:
        async with group.client(name) as client:
            status = await read_status(client.stub.Status(status_request()))
            assert not status.sources
