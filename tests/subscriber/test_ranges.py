"""Subscriptions that end; real stores."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from tests import seams
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import QUICK, client, send, sent, stores

from quorate.client import Client, connect_blocking
from quorate.client.replay import (
    NOW,
    Bookmark,
    Completed,
    Event,
    Item,
    MemoryBookmarkStore,
    Place,
    Position,
    ReplayedBatch,
    ReplayedMessage,
    StoreLeft,
    Subscribed,
)
from quorate.errors import InvalidArgument, UnknownBookmark
from quorate.protocol.identity import SourceName
from quorate.subscriber import Subscriber
from quorate.subscriber.begin import GivenEnd

__all__ = ["client", "stores"]

ONE, TWO = SourceName("orders", 1), SourceName("orders", 2)


class Ahead:
    """A clock that is ahead of all others."""

    def __init__(self, seconds: int) -> None:
        self._ahead_ns = seconds * 10**9

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time_ns(self) -> int:
        return time.time_ns() + self._ahead_ns


def at(source: SourceName, number: int) -> Bookmark:
    return Bookmark(source, 1, number)


async def whole(subscriber: Subscriber) -> list[Item]:
    """All items of a range, once it has ended."""
    async with asyncio.timeout(30):
        return [item async for item in subscriber]


def messages(items: list[Item]) -> list[tuple[int, int]]:
    """Session ID and content of each message, in order. The last item is Completed."""
    *others, completed = items
    assert isinstance(completed, Completed)
    assert not any(isinstance(each, Completed) for each in others)
    found = [each for each in others if isinstance(each, ReplayedMessage)]
    return [(each.source.session_id, int(each.payload)) for each in found]


async def times(client: Client) -> dict[tuple[int, int], datetime]:
    """The time of each message that is there."""
    async with client.subscriber("orders", end=NOW) as subscriber:
        items = await whole(subscriber)
    found = [each for each in items if isinstance(each, ReplayedMessage)]
    return {(each.source.session_id, each.sequence): each.time for each in found}


@pytest.mark.parametrize("year", ["0001", "1677", "1969"])
async def test_times_before_1970_are_before_all_messages(client: Client, year: str) -> None:
    await send(client, 1, 0, 9)
    before = f"{year}-12-31T23:59:59Z"
    async with client.subscriber("orders", begin=before, end=NOW) as subscriber:
        assert messages(await whole(subscriber)) == sent(1, 0, 9)
    async with client.subscriber("orders", begin=f"{year}-01-01", end=before) as subscriber:
        assert messages(await whole(subscriber)) == []


async def test_it_ends_behind_what_is_there(client: Client) -> None:
    await send(client, 1, 0, 9)
    await send(client, 2, 0, 9)
    async with client.subscriber("orders", end=NOW) as subscriber:
        await send(client, 1, 10, 19)
        await send(client, 3, 0, 9)
        *_, completed = items = await whole(subscriber)
        assert messages(items) == sent(1, 0, 9) + sent(2, 0, 9)
        assert isinstance(completed, Completed)
        assert completed.position == subscriber.position
        assert completed.position == {ONE: Place(1, 9), TWO: Place(1, 9)}
        with pytest.raises(StopAsyncIteration):
            await anext(subscriber)
    async with client.subscriber("orders", begin=completed.position, end=NOW) as subscriber:
        assert messages(await whole(subscriber)) == sent(1, 10, 19) + sent(3, 0, 9)


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        ("epoch", "{two}@1:3", sent(1, 0, 9) + sent(2, 0, 3)),
        ("epoch", "at {two}@1:3", sent(1, 0, 9) + sent(2, 0, 3)),
        ("epoch", "before {two}@1:3", sent(1, 0, 9) + sent(2, 0, 2)),
        ("epoch", "before {two}@1:0", sent(1, 0, 9)),
        ("epoch", "{two}@1:1, {one}@1:4, {two}@1:0", sent(1, 0, 9) + sent(2, 0, 1)),
        ("epoch", "before {one}@1:4,{one}@1:6", sent(1, 0, 5)),
        ("{two}@1:1, {one}@1:4", "{one}@1:8, {one}@1:6", sent(1, 5, 8)),
        ("{one}@1:7", "{two}@1:1", sent(1, 8, 9) + sent(2, 0, 1)),
        ("after {one}@1:7", "{two}@1:1", sent(1, 8, 9) + sent(2, 0, 1)),
        ("at {one}@1:7", "{two}@1:1", sent(1, 7, 9) + sent(2, 0, 1)),
        ("at {one}@1:0", "{one}@1:0", sent(1, 0, 0)),
        ("at {two}@1:4", "at {two}@1:4", sent(2, 4, 4)),
        ("{two}@1:4", "{two}@1:4", []),
        ("at {two}@1:4", "before {two}@1:4", []),
        ("now", "now", []),
        ('["{one}@1:3"]', '["{one}@1:5", "{two}@1:1"]', sent(1, 4, 5) + sent(2, 0, 1)),
        ("epoch", '["{two}@1:1"]', sent(2, 0, 1)),
    ],
)
async def test_from_one_point_to_another(
    client: Client, begin: str, end: str, found: list[tuple[int, int]]
) -> None:
    await send(client, 1, 0, 9)
    await send(client, 2, 0, 9)
    await send(client, 1, 10, 19)
    begin, end = (each.format(one=ONE, two=TWO) for each in (begin, end))
    async with client.subscriber("orders", begin=begin, end=end) as subscriber:
        assert messages(await whole(subscriber)) == found


async def test_objects_name_an_end(client: Client) -> None:
    await send(client, 1, 0, 9)
    for end in (at(ONE, 3), Position({ONE: Place(1, 3)})):
        async with client.subscriber("orders", end=end) as subscriber:
            assert messages(await whole(subscriber)) == sent(1, 0, 3)


async def test_each_bookmark_of_a_list_to_end_at_has_to_be_known(client: Client) -> None:
    await send(client, 1, 0, 9)
    with pytest.raises(UnknownBookmark, match="orders/0x1@1:1000"):
        await client.subscriber("orders", end=[at(ONE, 3), at(ONE, 1000)])


async def test_times_are_half_open_unless_words_say_otherwise(client: Client) -> None:
    for number in (0, 5, 10):
        await send(client, 1, number, number + 4)
    sent_at = await times(client)
    first, last = sent_at[1, 5], sent_at[1, 10]
    middle = [each for each in sent_at if first <= sent_at[each] < last]
    later = [each for each in sent_at if first < sent_at[each] <= last]
    assert (1, 5) in middle
    assert (1, 10) in later
    async with client.subscriber("orders", begin=first, end=last) as subscriber:
        assert messages(await whole(subscriber)) == middle
    begin, end = f"after {first.isoformat()}", f"at {last.isoformat()}"
    async with client.subscriber("orders", begin=begin, end=end) as subscriber:
        assert messages(await whole(subscriber)) == later


async def test_a_time_to_come(client: Client) -> None:
    """What comes is given as it comes, and the range ends when the time has passed."""
    await send(client, 1, 0, 4)
    ends = time.time() + 3
    end = datetime.fromtimestamp(ends, UTC)
    async with client.subscriber("orders", end=end) as subscriber:
        before = [await anext(subscriber) for _ in range(5)]
        await send(client, 2, 0, 4)
        before += [await anext(subscriber) for _ in range(5)]
        assert time.time() < ends
        completed = await anext(subscriber)
        assert time.time() >= ends
        await send(client, 1, 5, 9)
        assert messages([*before, completed]) == sent(1, 0, 4) + sent(2, 0, 4)
        with pytest.raises(StopAsyncIteration):
            await anext(subscriber)


async def test_a_source_whose_clock_is_ahead_ends_before_its_first_late_message(
    client: Client,
) -> None:
    """A time to come, whose messages are there already."""
    await send(client, 1, 0, 4)
    with seams.TIME_IN_SOURCE_BATCHER.replaced(Ahead(3600)):
        await send(client, 1, 5, 9)
    await send(client, 1, 10, 14)
    await send(client, 2, 0, 4)
    async with client.subscriber("orders", end="+2s") as subscriber:
        assert messages(await whole(subscriber)) == sent(1, 0, 4) + sent(2, 0, 4)
    async with client.subscriber("orders", begin=NOW, end="+3s") as subscriber:
        with seams.TIME_IN_SOURCE_BATCHER.replaced(Ahead(-3600)):
            await send(client, 2, 5, 9)
        with seams.TIME_IN_SOURCE_BATCHER.replaced(Ahead(3600)):
            await send(client, 2, 10, 14)
        await send(client, 2, 15, 19)
        assert messages(await whole(subscriber)) == sent(2, 5, 9)


async def test_a_time_that_passes_while_no_store_is_there(
    client: Client, stores: RealStores
) -> None:
    for session in (1, 2):
        await send_large(client, session, 0, 29)
    ends = time.time() + 2
    end = datetime.fromtimestamp(ends, UTC)
    async with client.subscriber("orders", end=end) as subscriber:
        items = [await anext(subscriber)]
        await stores.stop("abc")
        await asyncio.sleep(max(0.0, ends - time.time()))
        await stores.start("abc")
        items += await whole(subscriber)
        follower = subscriber._follower
        assert follower is not None
        assert follower.ends is not None
        assert dict(follower.ends) == {ONE: Place(1, 29), TWO: Place(1, 29)}
    assert sorted(messages(items)) == sent(1, 0, 29) + sent(2, 0, 29)


async def test_blocking_and_in_batches(client: Client, stores: RealStores) -> None:
    await send(client, 1, 0, 9)
    named = stores.named("abc")
    async with client.subscriber("orders", end=at(ONE, 5)) as subscriber:
        given = [each async for each in subscriber.batches()]
    assert isinstance(given[-1], Completed)
    assert numbers_of(given) == [*range(6)]

    def replayed(rate: str | None) -> list[Item]:
        with (
            connect_blocking(named) as blocking,
            blocking.subscriber("orders", end=at(ONE, 5), rate=rate) as subscriber,
        ):
            return list(subscriber)

    def in_batches() -> Sequence[ReplayedBatch | Item]:
        with (
            connect_blocking(named) as blocking,
            blocking.subscriber("orders", end=at(ONE, 5)) as subscriber,
        ):
            return list(subscriber.batches())

    for rate in (None, "1000/s"):
        assert messages(await asyncio.to_thread(replayed, rate)) == sent(1, 0, 5)
    assert numbers_of(await asyncio.to_thread(in_batches)) == [*range(6)]


def numbers_of(given: Sequence[ReplayedBatch | Item]) -> list[int]:
    return [number for each in given if isinstance(each, ReplayedBatch) for number in each.numbers]


async def test_at_a_pace_completed_is_the_last_item(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", end=at(ONE, 5), rate="100/s") as subscriber:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(subscriber)
        assert messages(await whole(subscriber)) == sent(1, 0, 5)


@pytest.mark.parametrize("where", ["$sequence > 100", "$sequence = 3"])
async def test_a_filter_passes_nothing_near_the_end(client: Client, where: str) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", end=at(ONE, 5), where=where) as subscriber:
        *_, completed = items = await whole(subscriber)
        assert messages(items) == ([(1, 3)] if "=" in where else [])
        assert isinstance(completed, Completed)
        assert completed.position == {ONE: Place(1, 5)}


@pytest.mark.parametrize("end", [NOW, "+4s"])
async def test_another_store_goes_on_to_the_same_end(
    client: Client, stores: RealStores, end: GivenEnd
) -> None:
    """The messages are many times what is read ahead of an application."""
    for session in (1, 2):
        await send_large(client, session, 0, 29)
    told: list[Event] = []
    async with client.subscriber("orders", end=end, on_event=told.append) as subscriber:
        items = [await anext(subscriber)]
        (begun,) = told
        assert isinstance(begun, Subscribed)
        if end is NOW:
            for session in (1, 3):
                await send_large(client, session, 30, 31)
        await stores.stop([begun.store])
        items += await whole(subscriber)
    assert sorted(messages(items)) == sent(1, 0, 29) + sent(2, 0, 29)
    assert [type(each) for each in told] == [Subscribed, StoreLeft, Subscribed, Completed]


async def send_large(client: Client, session: int, first: int, last: int) -> None:
    async with client.source("orders", session_id=session, options=QUICK) as source:
        for number in range(first, last + 1):
            await source.publish((b"%d" % number).ljust(400_000))


@pytest.mark.expects_log("is deregistered")
async def test_a_source_that_was_deleted_is_not_waited_for(client: Client) -> None:
    await send(client, 2, 0, 4)
    source = await client.source("orders", session_id=1, options=QUICK)
    await source.publish(b"0")
    position = Position({ONE: Place(1, 9), TWO: Place(1, 4)})
    async with client.subscriber("orders", end=position) as subscriber:
        given = [await anext(subscriber) for _ in range(6)]
        waiting = asyncio.ensure_future(anext(subscriber))
        await source.deregister()
        async with asyncio.timeout(30):
            assert sorted(messages([*given, await waiting])) == sent(1, 0, 0) + sent(2, 0, 4)


async def test_what_a_later_epoch_did_not_keep_is_not_waited_for(client: Client) -> None:
    await send(client, 1, 0, 4)
    await send(client, 2, 0, 4)
    position = Position({ONE: Place(1, 9), TWO: Place(1, 4)})
    async with client.subscriber("orders", end=position) as subscriber:
        given = [await anext(subscriber) for _ in range(10)]
        waiting = asyncio.ensure_future(anext(subscriber))
        await send(client, 1, 5, 9)
        async with asyncio.timeout(30):
            assert messages([*given, await waiting]) == sent(1, 0, 4) + sent(2, 0, 4)


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("2026-01-02", "2026-01-01"),
        ("-1m", "-2m"),
        ("now", "-1m"),
        ('["orders/0x1@1:5"]', '["orders/0x1@1:4"]'),
    ],
)
async def test_an_end_before_the_beginning_is_refused_before_a_store_is_asked(
    client: Client, begin: str, end: str
) -> None:
    told: list[Event] = []
    with pytest.raises(InvalidArgument, match=r"end: .* is before the beginning, "):
        await client.subscriber("orders", begin=begin, end=end, on_event=told.append)
    assert told == []


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("orders/0x1@1:5", "orders/0x1@1:4"),
        ("now", "orders/0x1@1:4"),
        ("orders/0x1@1:5", "2020-01-01"),
        ("orders/0x1@1:5", '["orders/0x1@1:4"]'),
    ],
)
async def test_an_end_before_the_beginning_is_refused_once_a_store_knows(
    client: Client, begin: str, end: str
) -> None:
    await send(client, 1, 0, 9)
    with pytest.raises(InvalidArgument, match=r"end: .* is before the beginning, "):
        await client.subscriber("orders", begin=begin, end=end)


@pytest.mark.parametrize("end", ["epoch", "most_recent", "after -1m", "at now", "later", []])
async def test_what_is_no_end_is_refused(client: Client, end: object) -> None:
    with pytest.raises(InvalidArgument, match=r"end: .* is none; give"):
        await client.subscriber("orders", end=end)  # type: ignore[arg-type]


@pytest.mark.parametrize("choice", ["fail", "epoch", "now"])
async def test_an_unknown_end_is_an_error_whatever_the_beginning_does(
    client: Client, choice: str
) -> None:
    await send(client, 1, 0, 4)
    told: list[Event] = []
    with pytest.raises(UnknownBookmark, match="orders/0x1@1:1000"):
        await client.subscriber(
            "orders", end=at(ONE, 1000), unknown_bookmark=choice, on_event=told.append
        )
    assert [type(each) for each in told] == [StoreLeft, StoreLeft]


@pytest.mark.expects_log("the subscription begins at epoch")
async def test_an_unknown_beginning_leaves_the_end_alone(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber(
        "orders", begin=at(ONE, 1000), end=at(ONE, 4), unknown_bookmark="epoch"
    ) as subscriber:
        assert messages(await whole(subscriber)) == sent(1, 0, 4)


async def test_what_was_consumed_is_kept_up_to_the_end(client: Client) -> None:
    bookmarks = MemoryBookmarkStore()
    await send(client, 1, 0, 9)
    for end, found in ((at(ONE, 4), sent(1, 0, 4)), (at(ONE, 4), []), (NOW, sent(1, 5, 9))):
        async with client.subscriber(
            "orders", begin="most_recent", end=end, bookmarks=bookmarks, name="risk"
        ) as subscriber:
            items = await whole(subscriber)
            for item in items:
                if isinstance(item, ReplayedMessage):
                    item.consumed()
        assert messages(items) == found


async def test_a_range_that_ends_with_what_was_just_published_waits_for_no_heartbeat(
    client: Client,
) -> None:
    async with await client.source("orders", session_id=1) as source:
        # The time alone no longer has it tell stores how far the stream is stable.
        source._engine._stable_news_at = math.inf
        receipt = await source.publish(b"0")
        async with client.subscriber("orders", end=receipt.bookmark) as subscriber:
            *found, _ = await whole(subscriber)
    assert [item.sequence for item in found if isinstance(item, ReplayedMessage)] == [0]
