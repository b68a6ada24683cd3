"""Stores that come later: opening waits for them, and tries again at the delays of the client."""

from __future__ import annotations

import asyncio

import pytest
from tests import seams
from tests.receiver.fakes import NAME, Group
from tests.source.fake_store import FakeStore

from quorate.client import Delays, Receiver, Source, connect

DELAYS = Delays(first=0.25, factor=3.0, longest=7.0)


class Counting:
    """The delays that were asked for. Each one takes a moment instead."""

    def __init__(self) -> None:
        self.policies: set[Delays] = set()
        self.failures: list[int] = []
        self._news = asyncio.Event()

    def delay(self, delays: Delays, failures: int) -> float:
        self.policies.add(delays)
        self.failures.append(failures)
        self._news.set()
        return 0.001

    async def until(self, waits: int) -> None:
        while len(self.failures) < waits:
            self._news.clear()
            await self._news.wait()


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.mark.expects_log("cannot be reached|waits for")
async def test_a_source_opens_once_its_store_comes(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.DELAY_IN_STORE_SESSION.replace(monkeypatch, counting.delay)
    store = FakeStore()
    await store.start()
    await store.stop()
    async with connect(store.address, timeout=None, delays=DELAYS) as quorate:

        async def opened() -> Source:
            return await quorate.source("orders")

        opening = asyncio.create_task(opened())
        await counting.until(5)
        assert not opening.done()
        assert counting.failures[:5] == [1, 2, 3, 4, 5]
        assert counting.policies == {DELAYS}
        await store.start()
        source = await opening
        assert (await source.publish(b"0")).sequence == 0
    await store.stop()


@pytest.mark.expects_log("cannot be heard")
async def test_a_receiver_opens_once_its_stores_come(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.DELAY_IN_WATCH_DIRECTORY.replace(monkeypatch, counting.delay)
    group = Group()
    await group.start()
    await group.announce()
    group.store(0)
    for store in group.stores:
        await store.stop()
    first = f"a={group.stores[0].address}"
    async with connect(first, timeout=None, delays=DELAYS) as quorate:

        async def opened() -> Receiver:
            return await quorate.receiver(NAME.topic, session_id=0x20)

        opening = asyncio.create_task(opened())
        await counting.until(5)
        assert not opening.done()
        assert counting.failures[:5] == [1, 2, 3, 4, 5]
        assert counting.policies == {DELAYS}
        for store in group.stores:
            await store.start()
        receiver = await opening
        message = await receiver.receive()
        assert message is not None
        assert message.sequence == 0
    await group.stop()
