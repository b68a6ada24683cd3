"""The choice of the store that queries and watches of the state of the world ask."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.keyed import QUICK, client, published, source, stores

from quorate.client import Client, StoreAddress, connect_blocking
from quorate.protocol.errors import InvalidArgument, TopicHasNoKeys
from quorate.source import Source
from quorate.subscriber import Completed, Tried, Updated
from quorate.subscriber.watching import change_of

__all__ = ["client", "source", "stores"]


class Chooser:
    """A chooser of these stores, in turn, which remembers what it was told."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)
        self.told: list[list[str]] = []
        """The stores that were tried, at each call."""

    def __call__(self, stores: Sequence[StoreAddress], tried: Sequence[Tried], /) -> StoreAddress:
        self.told.append([each.store.name for each in tried])
        name = self._names.pop(0)
        return next(store for store in stores if store.name == name)


async def last_asked(client: Client) -> str:
    """The store that a new state asks last, when none of them can answer."""
    with pytest.raises(TopicHasNoKeys) as caught:
        await client.state("trades").query()
    return caught.value.store


async def test_states_and_watches_of_a_client_spread_over_the_stores(client: Client) -> None:
    assert {await last_asked(client) for _ in range(3)} == {"a", "b", "c"}
    last: set[str] = set()
    for _ in range(3):
        async with client.state("trades").watch() as watch:
            with pytest.raises(TopicHasNoKeys) as caught:
                await anext(watch)
        last.add(caught.value.store)
    assert last == {"a", "b", "c"}


async def test_queries_stay_at_a_store_until_it_fails(client: Client, stores: RealStores) -> None:
    async with client.source("orders", session_id=1, options=QUICK) as source:
        last = await published(source, "k", price=1)
    choose = Chooser("c", "a", "b")
    orders = client.state("orders", chooser=choose)
    for _ in range(3):
        assert await orders.count(at_least=last) == 1
    assert choose.told == [[]]
    await stores.stop("c")
    for _ in range(2):
        assert await orders.count(at_least=last) == 1
    assert choose.told == [[], ["c"]]
    await stores.start("c")
    await stores.stop("a")
    assert await orders.count(at_least=last) == 1
    assert choose.told == [[], ["c"], ["a"]], "what gave something was not tried in vain"


@pytest.mark.expects_log("store . does not take orders")
async def test_queries_at_one_time_leave_a_store_that_fails_once(
    client: Client, stores: RealStores, source: Source
) -> None:
    last = await published(source, "k", price=1)
    choose = Chooser("c", "a")
    orders = client.state("orders", chooser=choose)
    assert await orders.count(at_least=last) == 1
    await stores.stop("c")
    counts = await asyncio.gather(*(orders.count(at_least=last) for _ in range(5)))
    assert counts == [1] * 5
    assert choose.told == [[], ["c"]]


@pytest.mark.expects_log("store . does not take orders")
async def test_a_watch_has_a_choice_of_its_own(
    client: Client, stores: RealStores, source: Source
) -> None:
    last = await published(source, "k", price=1)
    choose = Chooser("b", "c", "a")
    orders = client.state("orders", chooser=choose)
    assert await orders.count(at_least=last) == 1
    async with orders.watch(at_least=last) as watch, asyncio.timeout(60):
        assert isinstance(await anext(watch), Updated)
        assert isinstance(await anext(watch), Completed)
        assert choose.told == [[], []]
        await stores.stop("c")
        await published(source, "k", price=2)
        change = await anext(watch)
        assert isinstance(change, Updated)
        assert change.row.payload == b'{"price": 2}'
    assert choose.told == [[], [], ["c"]]


async def test_the_subscription_behind_rows_is_chosen_likewise(
    client: Client, source: Source
) -> None:
    last = await published(source, "k", price=1)
    choose = Chooser("b", "c")
    _, updates = await client.state("orders", chooser=choose).query_and_subscribe(at_least=last)
    await updates.close()
    assert choose.told == [[], []]


async def test_a_chooser_that_names_no_store(client: Client) -> None:
    def wrong(_: Sequence[StoreAddress], __: Sequence[Tried]) -> StoreAddress:
        return StoreAddress("x", "x:1")

    orders = client.state("orders", chooser=wrong)
    with pytest.raises(InvalidArgument, match="not one of the stores"):
        await orders.query()
    async with orders.watch() as watch:
        with pytest.raises(InvalidArgument, match="not one of the stores"):
            await change_of(watch)


async def test_the_same_without_asyncio(stores: RealStores, source: Source) -> None:
    last = await published(source, "k", price=1)
    choose = Chooser("c", "b", "a")
    named = stores.named("abc")

    def asked() -> None:
        with connect_blocking(named, timeout=20) as blocking:
            orders = blocking.state("orders", chooser=choose)
            assert orders.count(at_least=last) == 1
            with orders.watch(at_least=last) as watch:
                assert isinstance(next(watch), Updated)
            _, updates = orders.query_and_subscribe(at_least=last)
            updates.close()

    await asyncio.to_thread(asked)
    assert choose.told == [[], [], []]
