"""In which order one call of Append takes what a source sends, and tells it what became of that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests import seams
from tests.store.held_back import Store
from tests.store.support import FIRST_LINEAGE, INCARNATION, ORDERS, batch, information

from quorate.protocol.errors import ContentConflict
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.store.rpc.append import AppendCall
from quorate.store.rules.receivers import waited_for
from quorate.store.watchers import by_topic
from quorate.transport.heartbeat import Listening
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

PACED = v1.ReceiverPacing(messages=10, bytes=1000)


class Source:
    """A source that sends on a lane. It stands for the lane, too."""

    def __init__(self, store: Store) -> None:
        self._sent: asyncio.Queue[v1.Frame | None] = asyncio.Queue()
        self._told: asyncio.Queue[store_v1.AppendResponse] = asyncio.Queue()
        self.call = AppendCall(store.engine, self, "s1:1", Listening())
        self.serving = asyncio.create_task(self.call.run())

    def send(self, frame: v1.Frame) -> None:
        self._sent.put_nowait(frame)

    def hang_up(self) -> None:
        self._sent.put_nowait(None)

    async def told(self) -> store_v1.AppendResponse:
        """What it is told next."""
        return await self._told.get()

    # What the stream does.

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def read(self) -> v1.Frame | None:
        return await self._sent.get()

    def tells(self) -> None:
        asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        for response in self.call.responses():
            self._told.put_nowait(response)


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    seams.STORE_APPEND_RECEIVERS_SECONDS.replace(monkeypatch, 0.001)
    store = Store()
    store.world.begin(FIRST_LINEAGE)
    return store


@pytest.fixture
async def source(store: Store) -> AsyncIterator[Source]:
    """It waits for its receivers, and its stream is open."""
    source = Source(store)
    opening = v1.AppendOpen(
        information=information(pacing=PACED),
        instance=b"a",
        incarnation=INCARNATION,
        protocol_version=PROTOCOL_VERSION,
    )
    source.send(v1.Frame(open=opening, stable_upto=NOTHING))
    assert (await store.done(source.told())).HasField("opened")
    yield source
    source.serving.cancel()
    await asyncio.wait((source.serving,))


async def test_of_a_store_that_came_back_it_hears_before_anything_durable(
    store: Store, source: Source
) -> None:
    """It may not count together what that store had acknowledged and what is durable from now."""
    came_back = store_v1.StoreReplaced(store_name="s2", incarnation=b"new")
    source.call.acknowledge(9)
    store.engine.replaced(came_back)
    assert [await source.told(), await source.told()] == [
        store_v1.AppendResponse(replaced=came_back),
        store_v1.AppendResponse(durable=store_v1.Durable(upto=9)),
    ]


async def test_it_hears_whether_somebody_waits_for_what_becomes_stable(
    store: Store, source: Source
) -> None:
    source.call.acknowledge(1)
    assert not (await source.told()).durable.stable_awaited
    topic = source.call._topic
    with store.engine.stable_tail.watching(by_topic(topic), ()):
        source.call.acknowledge(2)
        assert (await source.told()).durable.stable_awaited
    source.call.acknowledge(3)
    assert not (await source.told()).durable.stable_awaited


async def acknowledged(store: Store, source: Source, last: int) -> None:
    """Send messages up to this number, and take the acknowledgement."""
    source.send(v1.Frame(batch=batch(0, last), stable_upto=NOTHING))
    told = asyncio.create_task(source.told())
    while not told.done():
        store.writer.let()
        await asyncio.sleep(0)
    assert told.result().durable == store_v1.Durable(upto=last)


async def test_it_hears_once_that_somebody_has_begun_to_wait(store: Store, source: Source) -> None:
    await acknowledged(store, source, 9)
    engine, state = store.engine, store.engine.core.sources[ORDERS]
    with engine.stable_tail.watching(by_topic(ORDERS.topic), ()):
        engine.ask_for_stable(state)
        assert (await source.told()).durable == store_v1.Durable(upto=9, stable_awaited=True)
        engine.ask_for_stable(state)
        await asyncio.sleep(0)
        assert source.call.responses() == [], "it knows"


async def test_nobody_waits_for_what_is_stable_already(store: Store, source: Source) -> None:
    await acknowledged(store, source, 9)
    engine, state = store.engine, store.engine.core.sources[ORDERS]
    with engine.stable_tail.watching(by_topic(ORDERS.topic), ()) as stable:
        source.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=9))
        await asyncio.wait_for(stable.changed(), 10)
        engine.ask_for_stable(state)
        await asyncio.sleep(0)
        assert source.call.responses() == []


async def test_nobody_asks_a_source_that_is_away(store: Store, source: Source) -> None:
    await acknowledged(store, source, 9)
    engine, state = store.engine, store.engine.core.sources[ORDERS]
    source.hang_up()
    store.writer.let()
    await asyncio.wait_for(source.serving, 10)
    engine.ask_for_stable(state)
    assert source.call.responses() == []


async def test_a_keepalive_wakes_neither_the_writer_nor_those_who_follow_the_journal(
    store: Store, source: Source
) -> None:
    source.send(v1.Frame(batch=batch(0, 9), stable_upto=NOTHING))
    told = asyncio.create_task(source.told())
    while not told.done():
        store.writer.let()
        await asyncio.sleep(0)
    topic = source.call._topic
    watching = store.engine.tail.watching(by_topic(topic), ())
    with watching as tail, store.engine.stable_tail.watching(by_topic(topic), ()) as stable:
        source.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=9))
        await asyncio.wait_for(stable.changed(), 10)
        assert [len(rows) for rows in store.writer.lazy] == [1]
        store.writer.let()
        store.engine.committed(store.writer.committed)
        assert (tail.owed, stable.owed) == (0, 1)
    assert store.world.restarted().core.sources[ORDERS].held.stable_upto == 9


@pytest.mark.expects_log("holds other content")
async def test_what_is_sent_again_is_compared_with_what_is_on_its_way_to_the_disk(
    store: Store, source: Source
) -> None:
    """As long as that can not be read, nothing contradicts."""
    source.send(v1.Frame(batch=batch(0, 9), stable_upto=NOTHING))
    source.send(v1.Frame(batch=batch(0, 9, salt="another "), stable_upto=NOTHING))
    source.hang_up()
    with pytest.raises(ContentConflict):
        await store.finished(source.serving)


async def test_of_its_receivers_it_hears_what_is_durable(store: Store, source: Source) -> None:
    state = store.core.sources[ORDERS]
    store.engine.submit(state, store.world.receivers.register(ORDERS, 7, 0, 1).writes)
    hearing = await store.held_up(source.told())
    store.writer.let()
    assert await hearing == store_v1.AppendResponse(waited_for=waited_for(state))
