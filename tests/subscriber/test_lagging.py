"""A subscriber at a store that lags: it goes on at another one, and says why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import seams
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import send, sent, take, until_completed

from quorate.client import Client, connect
from quorate.client.replay import (
    NOW,
    Completed,
    Position,
    ReplayedMessage,
    StoreLeft,
    Subscribed,
    in_order,
)
from quorate.protocol.errors import InLimbo, PositionNotReached, StorageFailed, StoreLags
from quorate.subscriber.events import Event

LAG = 0.3

# A source that sends while store c is stopped may notice that before it is closed.
pytestmark = pytest.mark.expects_log("store c does not take|stands in for")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lags count soon, and no store mend itself."""
    seams.LAG_SECONDS.replace(monkeypatch, LAG)
    seams.LAG_SECONDS_IN_SUBSCRIBE.replace(monkeypatch, LAG)
    seams.PEER_POLLING_ROUND_SECONDS.replace(monkeypatch, 0.1)

    async def mends_nothing(*_: object, **__: object) -> bool:
        return True

    seams.REPAIR_MEND.replace(monkeypatch, mends_nothing)
    seams.REPAIR_ADOPT_ALL.replace(monkeypatch, mends_nothing)


async def late(path: Path, *, peers: str) -> RealStores:
    """Stores a and b with [0, 19] of a source, and store c with [0, 9] of it.

    peers: those that store c asks.
    """
    stores = RealStores(path)
    await stores.start("abc")
    async with connect(stores.named("abc")) as client:
        await send(client, 1, 0, 9)
        await stores.stop("c")
        await send(client, 1, 10, 19)
    stores.settings["c"] = {"peers": tuple(map(stores.address, peers))}
    await stores.start("c")
    return stores


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = await late(tmp_path, peers="ab")
    engine = made.node("c")._engine
    assert engine is not None
    async with asyncio.timeout(20):
        while not list(engine.lags):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
    yield made
    await made.stop_all()


@pytest.fixture
async def client(stores: RealStores) -> AsyncIterator[Client]:
    """A client whose subscriptions begin at the store that lags."""
    async with connect(stores.named("cab")) as made:
        yield made


def left(told: list[Event]) -> list[tuple[str, type[Exception]]]:
    return [(each.store, type(each.reason)) for each in told if isinstance(each, StoreLeft)]


def at(told: list[Event]) -> list[str]:
    return [each.store for each in told if isinstance(each, Subscribed)]


async def test_it_is_given_what_the_store_has_and_the_rest_elsewhere(client: Client) -> None:
    told: list[Event] = []
    async with client.subscriber("orders", chooser=in_order, on_event=told.append) as subscriber:
        *messages, completed = await until_completed(subscriber)
    assert [int(each.payload) for each in messages if isinstance(each, ReplayedMessage)] == list(
        range(20)
    )
    assert isinstance(completed, Completed)
    assert left(told) == [("c", StoreLags)]
    assert at(told) == ["c", "a"]
    (reason,) = (each.reason for each in told if isinstance(each, StoreLeft))
    assert str(reason).startswith("Store c lags: it has yet to get orders/0x1 from 10 on.")


@pytest.mark.expects_log("stands in for")
async def test_now_is_behind_what_its_peers_have(client: Client, stores: RealStores) -> None:
    told, is_elsewhere = list[Event](), asyncio.Event()

    def note(event: Event) -> None:
        told.append(event)
        if at(told) == ["c", "a"]:
            is_elsewhere.set()

    async with client.subscriber(
        "orders", begin=NOW, chooser=in_order, on_event=note
    ) as subscriber:
        assert at(told) == ["c"]
        assert [place.sequence for place in subscriber.position.values()] == [19]
        assert len(await until_completed(subscriber)) == 1
        coming = asyncio.create_task(take(subscriber, 5))
        await asyncio.wait_for(is_elsewhere.wait(), 20)
        await stores.stop("c")
        await send(client, 1, 20, 24)
        assert await coming == sent(1, 20, 24)
    assert left(told) == [("c", StoreLags)]


async def test_a_range_ends_at_what_its_peers_have(client: Client) -> None:
    async with client.subscriber("orders", end=NOW, chooser=in_order) as subscriber:
        assert await take(subscriber, 20) == sent(1, 0, 19)
        assert isinstance(await anext(subscriber), Completed)


@pytest.mark.parametrize(("begin", "end"), [("-1h", None), ("epoch", "-0.001s")])
async def test_a_time_is_looked_for_where_all_messages_are(
    client: Client, begin: str, end: str | None
) -> None:
    told: list[Event] = []
    async with client.subscriber(
        "orders", begin=begin, end=end, chooser=in_order, on_event=told.append
    ) as subscriber:
        assert await take(subscriber, 20) == sent(1, 0, 19)
    assert left(told) == [("c", StoreLags)]
    assert at(told) == ["a"]


async def test_a_bookmark_is_looked_for_at_any_store(client: Client) -> None:
    told: list[Event] = []
    async with client.subscriber(
        "orders", begin="orders/0x1@1:4", chooser=in_order, on_event=told.append
    ) as subscriber:
        assert await take(subscriber, 15) == sent(1, 5, 19)
    assert at(told) == ["c", "a"]


async def test_a_store_that_has_not_reached_its_position_is_left(tmp_path: Path) -> None:
    """The store hears no peer, so only the position tells that it lags."""
    stores = await late(tmp_path, peers="")
    told: list[Event] = []
    async with connect(stores.named("cab")) as client:
        position = Position.parse('["orders/0x1@2:17"]')
        async with client.subscriber(
            "orders", begin=position, chooser=in_order, on_event=told.append
        ) as subscriber:
            assert at(told) == ["c"]
            assert await take(subscriber, 2) == sent(1, 18, 19)
    assert left(told) == [("c", PositionNotReached)]
    await stores.stop_all()


async def test_a_position_that_no_store_has_reached_ends_the_subscription(tmp_path: Path) -> None:
    stores, told = RealStores(tmp_path), list[Event]()
    await stores.start("abc")
    async with connect(stores.named("abc")) as client:
        await send(client, 1, 0, 9)
        async with client.subscriber(
            "orders", begin='["orders/0x1@1:12"]', chooser=in_order, on_event=told.append
        ) as subscriber:
            with pytest.raises(PositionNotReached) as caught:
                await take(subscriber, 1)
    assert left(told) == [(store, PositionNotReached) for store in "abc"]
    error = caught.value
    assert (error.source, error.position) == ("orders/0x1", "orders/0x1@1:12")
    assert (error.epoch, error.upto) == (1, 9)
    await stores.stop_all()


async def test_a_range_that_ends_before_what_the_store_lacks_is_over_there(
    client: Client,
) -> None:
    told: list[Event] = []
    async with client.subscriber(
        "orders", end="orders/0x1@1:7", chooser=in_order, on_event=told.append
    ) as subscriber:
        assert await take(subscriber, 8) == sent(1, 0, 7)
        assert isinstance(await anext(subscriber), Completed)
    assert left(told) == []


async def test_without_its_peers_the_store_gives_what_it_has(
    client: Client, stores: RealStores
) -> None:
    """Nobody can go on elsewhere, so nobody is sent away."""
    await stores.stop("ab")
    async with client.subscriber("orders", chooser=in_order, timeout=20) as subscriber:
        *messages, _ = await until_completed(subscriber)
    assert len(messages) == 10


async def test_a_store_that_falls_into_limbo_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, told, is_elsewhere = RealStores(tmp_path), list[Event](), asyncio.Event()

    def note(event: Event) -> None:
        told.append(event)
        if at(told) == ["c", "a"]:
            is_elsewhere.set()

    await stores.start("abc")
    stores.settings["c"] = {"peers": tuple(map(stores.address, "ab"))}
    await stores.stop("c")
    await stores.start("c")
    real, limbo = seams.STORE_ENGINE_LIMBO_REASON.real(), {"": ""}
    seams.STORE_ENGINE_LIMBO_REASON.replace(
        monkeypatch,
        lambda engine, state: limbo.get(engine.core.store, "") or real(engine, state),
    )
    async with connect(stores.named("cab")) as client:
        await send(client, 1, 0, 9)
        async with client.subscriber("orders", chooser=in_order, on_event=note) as subscriber:
            assert len(await until_completed(subscriber)) == 11
            limbo["c"] = "its disk was exchanged"
            coming = asyncio.create_task(take(subscriber, 1))
            await asyncio.wait_for(is_elsewhere.wait(), 20)
            await stores.stop("c")
            await send(client, 1, 10, 10)
            assert await coming == sent(1, 10, 10)
    assert left(told) == [("c", InLimbo)]
    await stores.stop_all()


async def test_a_store_whose_disk_failed_is_passed_over(tmp_path: Path) -> None:
    stores, told = RealStores(tmp_path), list[Event]()
    await stores.start("ab")
    async with connect(stores.named("ab")) as client:
        await send(client, 1, 0, 9)
        service = stores.node("a")._service
        assert service is not None
        service.stopping = StorageFailed("the disk", "the sync failed")
        async with client.subscriber("orders", chooser=in_order, on_event=told.append) as given:
            assert len(await until_completed(given)) == 11
    assert left(told) == [("a", StorageFailed)]
    await stores.stop_all()
