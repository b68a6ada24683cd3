"""Conflation with real stores: the newest of each key, and nothing lost behind any place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import client, send, stores, until_completed

from quorate.client import Client, connect_blocking
from quorate.protocol.errors import Closed, InvalidArgument
from quorate.subscriber import (
    MOST_RECENT,
    Completed,
    Item,
    MemoryBookmarkStore,
    ReplayedMessage,
)
from quorate.subscriber.events import Event, Subscribed

__all__ = ["client", "stores"]

LONG: dict[str, Any] = {"conflation": "10m", "conflation_key": "key"}
"""A window that ends only with what ends it at once."""


def shown(items: list[Any]) -> list[tuple[int, int, int]]:
    """Of each message: its number, that of its bookmark, and how many it stands for."""
    return [
        (each.sequence, each.bookmark.sequence, each.conflated)
        for each in items
        if isinstance(each, ReplayedMessage)
    ]


async def test_history_is_conflated_until_it_is_completed(client: Client) -> None:
    await send(client, 1, 0, 99)
    async with client.subscriber("orders", **LONG) as subscriber:
        *messages, completed = await until_completed(subscriber)
        assert shown(messages) == [(97, 1, 33), (98, 2, 33), (99, 0, 34)]
        newest = messages[-1]
        assert isinstance(newest, ReplayedMessage)
        assert (newest.payload, newest.key) == (b"99", b"k0")
        assert isinstance(completed, Completed)
        assert subscriber.position == completed.position


async def test_without_conflation_a_message_stands_for_itself(client: Client) -> None:
    await send(client, 1, 0, 1)
    async with client.subscriber("orders") as subscriber:
        assert shown(await until_completed(subscriber)) == [(0, 0, 1), (1, 1, 1)]


async def test_a_window_ends_by_the_clock(client: Client) -> None:
    clock = asyncio.get_running_loop().time
    async with client.subscriber("orders", conflation=0.3, conflation_key="key") as subscriber:
        await until_completed(subscriber)
        began = clock()
        sending = asyncio.create_task(send(client, 1, 0, 2))
        async with asyncio.timeout(20):
            item = await anext(subscriber)
        assert isinstance(item, ReplayedMessage)
        assert clock() - began >= 0.3
        await sending


async def test_the_position_stays_before_what_waits(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", **LONG) as subscriber:
        begins = subscriber.position
        items = aiter(subscriber)
        assert (await anext(items)).sequence == 7  # type: ignore[union-attr]
        assert subscriber.position == begins
        position = str(subscriber.position)
    async with client.subscriber("orders", begin=position, **LONG) as subscriber:
        assert [number for number, *_ in shown(await until_completed(subscriber))] == [7, 8, 9]


async def test_behind_the_bookmark_of_the_first_the_newest_comes_again(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", **LONG) as subscriber:
        first = await anext(aiter(subscriber))
        assert isinstance(first, ReplayedMessage)
        assert first.bookmark.sequence == 1
    async with client.subscriber("orders", begin=str(first.bookmark), **LONG) as subscriber:
        assert subscriber.position == {first.source: first.bookmark.place}
        found = shown(await until_completed(subscriber))
        assert found == [(7, 4, 2), (8, 2, 3), (9, 3, 3)]


async def test_a_cancelled_call_loses_nothing(client: Client) -> None:
    async with client.subscriber("orders", conflation=0.5, conflation_key="key") as subscriber:
        await until_completed(subscriber)
        before = subscriber.position
        await send(client, 1, 0, 9)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(subscriber)
        assert subscriber.position == before
        found: list[Any] = []
        async with asyncio.timeout(20):
            while sum(each.conflated for each in found) < 10:
                found.append(await anext(subscriber))
        assert sorted(each.sequence for each in found)[-3:] == [7, 8, 9]


async def test_nothing_is_handed_over_in_a_pause(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", conflation=0.05, conflation_key="key") as subscriber:
        await anext(subscriber)
        subscriber.pause()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await anext(subscriber)
        subscriber.resume()
        assert len(await until_completed(subscriber)) == 3


async def test_nothing_is_handed_over_once_it_is_closed(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", **LONG) as subscriber:
        await anext(subscriber)
        await subscriber.close()
        with pytest.raises(Closed):
            await anext(subscriber)


async def test_closing_ends_the_waiting(client: Client) -> None:
    subscriber = await client.subscriber("orders", **LONG)
    await until_completed(subscriber)
    await send(client, 1, 0, 2)
    waiting = asyncio.create_task(anext(subscriber))
    await asyncio.sleep(0)
    await subscriber.close()
    with pytest.raises(Closed):
        await waiting
    with pytest.raises(Closed):
        await anext(subscriber)


async def test_consumed_counts_all_that_a_message_stands_for(client: Client) -> None:
    await send(client, 1, 0, 9)
    opening: dict[str, Any] = {
        "begin": MOST_RECENT,
        "bookmarks": MemoryBookmarkStore(),
        "name": "risk",
    }
    async with client.subscriber("orders", **opening, **LONG) as subscriber:
        *messages, _ = await until_completed(subscriber)
        for message in messages[:-1]:
            message.consumed()  # type: ignore[union-attr]
    async with client.subscriber("orders", **opening, **LONG) as subscriber:
        *messages, _ = await until_completed(subscriber)
        assert shown(messages) == [(7, 1, 3), (8, 2, 3), (9, 0, 4)]
        for message in messages:
            message.consumed()  # type: ignore[union-attr]
    async with client.subscriber("orders", **opening, **LONG) as subscriber:
        assert len(await until_completed(subscriber)) == 1


async def test_fields_and_messages_without_them(client: Client) -> None:
    async with client.source("orders", session_id=1) as source:
        for payload in (b'{"id": 1}', b'{"id": 2}', b'{"id": 1, "x": 1}', b"no JSON", b'{"id": 2}'):
            await source.send(payload)
        await source.flush()
    async with client.subscriber("orders", conflation="10m", conflation_key="id") as subscriber:
        found = shown(await until_completed(subscriber))
        assert found == [(1, 1, 1), (2, 0, 2), (3, 3, 1), (4, 4, 1)]


async def test_several_topics_have_keys_of_their_own(client: Client) -> None:
    await send(client, 1, 0, 5, "orders")
    await send(client, 2, 0, 5, "trades")
    async with client.subscriber({"orders": None, "trades": None}, **LONG) as subscriber:
        found = await until_completed(subscriber)
    assert {(each.topic, each.sequence) for each in found if isinstance(each, ReplayedMessage)} == {
        (topic, number) for topic in ("orders", "trades") for number in (3, 4, 5)
    }


async def test_sources_of_one_topic_share_their_keys(client: Client) -> None:
    await send(client, 1, 0, 2)
    await send(client, 2, 0, 2)
    async with client.subscriber("orders", **LONG) as subscriber:
        *messages, _ = await until_completed(subscriber)
    for number, message in enumerate(messages):
        assert isinstance(message, ReplayedMessage)
        assert (message.source.session_id, message.sequence) == (2, number)
        assert (message.bookmark.source.session_id, message.conflated) == (1, 2)


async def test_a_rate_counts_before_conflation(client: Client) -> None:
    await send(client, 1, 0, 9)
    clock = asyncio.get_running_loop().time
    async with client.subscriber("orders", rate="50/s", **LONG) as subscriber:
        began = clock()
        found = shown(await until_completed(subscriber))
        assert clock() - began >= 9 / 50 - 0.01
        assert [count for *_, count in found] == [3, 3, 4]


async def test_batches_are_refused(client: Client) -> None:
    async with client.subscriber("orders", **LONG) as subscriber:
        with pytest.raises(InvalidArgument, match=r"conflation: .*batches\(\)"):
            await anext(aiter(subscriber.batches()))


async def test_without_asyncio(client: Client, stores: RealStores) -> None:
    await send(client, 1, 0, 9)

    def replayed() -> list[tuple[int, int, int]]:
        with (
            connect_blocking(stores.named("abc")) as blocking,
            blocking.subscriber("orders", **LONG) as subscriber,
        ):
            with pytest.raises(InvalidArgument, match="batches"):
                next(subscriber.batches())
            found: list[ReplayedMessage] = []
            for item in subscriber:
                if isinstance(item, Completed):
                    assert subscriber.position == item.position
                    return shown(found)
                assert isinstance(item, ReplayedMessage)
                found.append(item)
        raise AssertionError("it ended")

    assert await asyncio.to_thread(replayed) == [(7, 1, 3), (8, 2, 3), (9, 0, 4)]


@pytest.mark.expects_log("does not take|lost its quorum|is over")
async def test_a_window_goes_on_at_another_store(client: Client, stores: RealStores) -> None:
    events: list[Event] = []
    async with client.subscriber(
        "orders", conflation=1.0, conflation_key="key", on_event=events.append
    ) as subscriber:
        await until_completed(subscriber)
        await send(client, 1, 0, 19)
        found = [await anext(subscriber)]
        assert isinstance(events[0], Subscribed)
        await stores.stop(events[0].store)
        await send(client, 1, 20, 29)
        async with asyncio.timeout(30):
            while sum(map(count, found)) < 30:
                found.append(await anext(subscriber))
        newest = {each.key: each.sequence for each in found if isinstance(each, ReplayedMessage)}
        assert newest == {b"k0": 27, b"k1": 28, b"k2": 29}


def count(item: Item) -> int:
    assert isinstance(item, ReplayedMessage)
    return item.conflated
