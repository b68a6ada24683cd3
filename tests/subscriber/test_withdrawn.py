"""Messages that are given before they are stable, and that a recovery sets aside: real stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.source.real_stores import HURRIED, ORDERS, RealStores, crash, numbered

from quorate.client import connect
from quorate.client.replay import (
    Item,
    Place,
    ReplayedMessage,
    Subscribed,
    Withdrawn,
    in_order,
)
from quorate.source import QuorumLost, Source
from quorate.subscriber.events import Event

KEEP = replace(HURRIED, without_quorum="keep")

pytestmark = pytest.mark.expects_log(
    "does not take|lost its quorum|is over|stands in for|5 messages aside"
)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    await made.start("abc")
    yield made
    await made.stop_all()


async def lonely(stores: RealStores) -> Source:
    """A source that has lost its quorum: only store a takes [10, 14] of it."""
    lost = asyncio.Event()

    def note(event: object) -> None:
        if isinstance(event, QuorumLost):
            lost.set()

    source = await stores.open("abc", options=KEEP, on_event=note)
    for payload in numbered(0, 9).values():
        await source.send(payload)
    await source.flush()
    engine = stores.node("a")._engine
    assert engine is not None
    async with asyncio.timeout(30):
        while engine.core.sources[ORDERS].held.stable_upto < 9:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
    await stores.stop("bc")
    async with asyncio.timeout(30):
        await lost.wait()
    for payload in numbered(10, 14).values():
        await source.send(payload)
    return source


async def taken(subscriber: AsyncIterator[Item], count: int) -> list[Item]:
    """The next so many messages, and notices of what is void."""
    found: list[Item] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            item = await anext(subscriber)
            if isinstance(item, ReplayedMessage | Withdrawn):
                found.append(item)
    return found


def shown(items: list[Item]) -> list[tuple[int, bytes, bool]]:
    """Number, content, and whether it was stable, of each message."""
    return [
        (each.sequence, each.payload, each.stable)
        for each in items
        if isinstance(each, ReplayedMessage)
    ]


async def other_history(stores: RealStores) -> None:
    """Let the source go on without store a: other messages take the numbers from 10 on."""
    async with await stores.open("abc", options=HURRIED) as source:
        assert source.next_sequence == 10
        for payload in (b"x", b"y"):
            await source.send(payload)
        await source.flush()


@pytest.mark.parametrize("delivered", ["live", "durable"])
async def test_it_is_told_at_another_store(stores: RealStores, delivered: str) -> None:
    told: list[Event] = []
    source = await lonely(stores)
    async with (
        connect(stores.named("abc")) as client,
        client.subscriber(
            "orders", delivered=delivered, chooser=in_order, on_event=told.append
        ) as subscriber,
    ):
        before = await taken(subscriber, 15)
        await crash(source)
        await stores.stop("a")
        await stores.start("bc")
        await other_history(stores)
        void, *after = await taken(subscriber, 3)
    assert shown(before) == [
        (number, payload, number < 10) for number, payload in numbered(0, 14).items()
    ]
    assert void == Withdrawn(ORDERS, 10, 14, Place(1, 9))
    assert [(number, payload) for number, payload, _ in shown(after)] == [(10, b"x"), (11, b"y")]
    first, *_, last = (each.store for each in told if isinstance(each, Subscribed))
    assert (first, last in "bc") == ("a", True)


@pytest.mark.parametrize("delivered", ["live", "durable"])
async def test_it_is_told_at_the_same_store_once_that_has_recovered(
    stores: RealStores, delivered: str
) -> None:
    source = await lonely(stores)
    async with (
        connect(stores.named("a")) as client,
        client.subscriber("orders", delivered=delivered) as subscriber,
    ):
        before = await taken(subscriber, 15)
        await crash(source)
        await stores.stop("a")
        await stores.start("bc")
        await other_history(stores)
        stores.settings["a"] = {"peers": (stores.address("b"), stores.address("c"))}
        await stores.start("a")
        async with await stores.open("abc", options=HURRIED) as again:
            await again.send(b"z")
            await again.flush()
            void, *after = await taken(subscriber, 4)
    assert [number for number, *_ in shown(before)] == list(range(15))
    assert void == Withdrawn(ORDERS, 10, 14, Place(1, 9))
    assert [payload for _, payload, _ in shown(after)] == [b"x", b"y", b"z"]


async def test_what_is_stable_is_never_withdrawn(stores: RealStores) -> None:
    source = await lonely(stores)
    async with (
        connect(stores.named("abc")) as client,
        client.subscriber("orders", chooser=in_order) as subscriber,
    ):
        before = await taken(subscriber, 10)
        await crash(source)
        await stores.stop("a")
        await stores.start("bc")
        await other_history(stores)
        after = await taken(subscriber, 2)
    assert shown(before + after) == [
        *((number, payload, True) for number, payload in numbered(0, 9).items()),
        (10, b"x", True),
        (11, b"y", True),
    ]
