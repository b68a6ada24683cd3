"""Several topics as one subscription, and subscriptions that begin with a pause."""

from __future__ import annotations

import asyncio

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import client, send, stores, take, until_completed

from quorate.client import Client, connect_blocking
from quorate.protocol.errors import InvalidArgument, InvalidFilter
from quorate.subscriber import Completed, ReplayedMessage, Subscriber

__all__ = ["client", "stores"]


async def replayed(subscriber: Subscriber) -> list[tuple[str, int]]:
    """Topic and number of each message of the history."""
    items = await until_completed(subscriber)
    return [(each.topic, each.sequence) for each in items if isinstance(each, ReplayedMessage)]


async def test_several_topics_come_in_the_order_of_the_journal(client: Client) -> None:
    await send(client, 1, 0, 2, "orders")
    await send(client, 2, 0, 2, "trades")
    await send(client, 1, 3, 4, "orders")
    await send(client, 3, 0, 2, "orders.eu")
    topics = {"orders": "$sequence >= 2", "trades": None}
    async with client.subscriber(topics) as subscriber:
        given = [("orders", 2), *(("trades", number) for number in range(3))]
        assert await replayed(subscriber) == [*given, ("orders", 3), ("orders", 4)]
        await send(client, 4, 0, 3, "orders")
        assert await take(subscriber, 2) == [(4, 2), (4, 3)]
    async with client.subscriber(topics, where="$sequence <= 2") as subscriber:
        assert await replayed(subscriber) == [*given, ("orders", 2)]


async def test_a_pause_holds_for_all_topics(client: Client) -> None:
    await send(client, 1, 0, 0, "orders")
    await send(client, 2, 0, 0, "trades")
    async with client.subscriber({"orders": None, "trades": None}, paused=True) as subscriber:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await anext(subscriber)
        # What is sent in the pause has its place in the journal, too.
        await send(client, 1, 1, 1, "orders")
        subscriber.resume()
        assert await take(subscriber, 3) == [(1, 0), (2, 0), (1, 1)]
        subscriber.pause()
        await send(client, 2, 1, 1, "trades")
        await send(client, 1, 2, 2, "orders")
        subscriber.resume()
        assert await take(subscriber, 2) == [(2, 1), (1, 2)]


async def test_a_paused_subscription_that_begins_now_misses_nothing(client: Client) -> None:
    async with client.subscriber("orders", begin="now", paused=True) as subscriber:
        await send(client, 1, 0, 2)
        subscriber.resume()
        assert await take(subscriber, 3) == [(1, 0), (1, 1), (1, 2)]


async def test_what_waits_for_none_cannot_be_paused(client: Client) -> None:
    async with client.subscriber("orders", delivered="live") as subscriber:
        with pytest.raises(InvalidArgument, match=r"pause\(\): .*delivered='live'"):
            subscriber.pause()


async def test_a_wrong_condition_says_of_which_topic_it_is(client: Client) -> None:
    with pytest.raises(InvalidFilter, match="topic 'trades'"):
        await client.subscriber({"orders": None, "trades": "price >"})


async def test_without_asyncio(client: Client, stores: RealStores) -> None:
    await send(client, 1, 0, 2, "orders")
    await send(client, 2, 0, 2, "trades")

    def of_both() -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        topics = {"orders": None, "trades": "$sequence = 1"}
        with (
            connect_blocking(stores.named("abc")) as blocking,
            blocking.subscriber(topics, paused=True) as subscriber,
        ):
            subscriber.resume()
            for item in subscriber:
                if isinstance(item, Completed):
                    return found
                assert isinstance(item, ReplayedMessage)
                found.append((item.topic, item.sequence))
        raise AssertionError("it ended")

    given = [("orders", 0), ("orders", 1), ("orders", 2), ("trades", 1)]
    assert await asyncio.to_thread(of_both) == given
