"""A subscriber with real stores: the journal from a point on, then what comes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.source.real_stores import RealStores

from quorate.client import Client, connect, connect_blocking
from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import (
    BookmarksTakenOver,
    InvalidArgument,
    InvalidFilter,
    UnknownBookmark,
)
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.times import moment_of
from quorate.source import SourceOptions
from quorate.subscriber import (
    EPOCH,
    MOST_RECENT,
    NOW,
    BookmarkStore,
    Completed,
    FileBookmarkStore,
    Item,
    MemoryBookmarkStore,
    ReplayedMessage,
    Subscriber,
    in_order,
)
from quorate.subscriber.events import Event, StoreLeft, Subscribed
from quorate.transport.channels import open_channel
from quorate.v1.store_pb2 import JournalRequest, JournalResponse, SubscriptionStatus
from quorate.v1.store_pb2_grpc import StoreStub

QUICK = SourceOptions(registration_interval=0.3)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    await made.start("abc")
    yield made
    await made.stop_all()


@pytest.fixture
async def client(stores: RealStores) -> AsyncIterator[Client]:
    async with connect(stores.named("abc")) as made:
        yield made


async def send(client: Client, session: int, first: int, last: int, topic: str = "orders") -> None:
    async with client.source(topic, session_id=session, options=QUICK) as source:
        for number in range(first, last + 1):
            await source.send(b"%d" % number, key=b"k%d" % (number % 3))
        await source.flush()


async def take(subscriber: Subscriber, count: int) -> list[tuple[int, int]]:
    """The next so many messages: session ID and content of each."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            item = await anext(subscriber)
            if isinstance(item, ReplayedMessage):
                found.append((item.source.session_id, int(item.payload)))
    return found


async def until_completed(subscriber: Subscriber) -> list[Item]:
    found: list[Item] = []
    async with asyncio.timeout(20):
        async for item in subscriber:
            found.append(item)
            if isinstance(item, Completed):
                return found
    raise AssertionError("it ended")


def sent(session: int, first: int, last: int) -> list[tuple[int, int]]:
    return [(session, number) for number in range(first, last + 1)]


async def test_history_then_what_comes(client: Client) -> None:
    await send(client, 1, 0, 99)
    await send(client, 2, 0, 9)
    async with client.subscriber("orders") as subscriber:
        *messages, completed = await until_completed(subscriber)
        found = [(each.source.session_id, int(each.payload)) for each in messages]  # type: ignore[union-attr]
        assert found == sent(1, 0, 99) + sent(2, 0, 9)
        assert isinstance(completed, Completed)
        assert completed.position == subscriber.position
        await send(client, 1, 100, 120)
        await send(client, 3, 0, 5)
        assert await take(subscriber, 27) == sent(1, 100, 120) + sent(3, 0, 5)
        assert {name.session_id: place.sequence for name, place in subscriber.position.items()} == {
            1: 120,
            2: 9,
            3: 5,
        }


async def test_a_position_goes_on_at_any_store(client: Client, stores: RealStores) -> None:
    await send(client, 1, 0, 99)
    await send(client, 2, 0, 99)
    async with client.subscriber("orders") as subscriber:
        before = await take(subscriber, 50)
        text = str(subscriber.position)
    for name in "abc":
        async with (
            connect(stores.named(name)) as other,
            other.subscriber("orders", begin=text) as subscriber,
        ):
            rest = await take(subscriber, 150)
            assert sorted(before + rest) == sent(1, 0, 99) + sent(2, 0, 99)


async def test_a_source_that_a_position_does_not_name_is_new(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders") as subscriber:
        await take(subscriber, 10)
        position = subscriber.position
    await send(client, 2, 0, 9)
    async with client.subscriber("orders", begin=position) as subscriber:
        assert await take(subscriber, 10) == sent(2, 0, 9)


async def test_from_now_on(client: Client) -> None:
    await send(client, 1, 0, 99)
    async with client.subscriber("orders", begin=NOW) as subscriber:
        assert len(await until_completed(subscriber)) == 1
        await send(client, 1, 100, 101)
        await send(client, 2, 0, 1)
        assert await take(subscriber, 4) == sent(1, 100, 101) + sent(2, 0, 1)


async def test_behind_a_bookmark(client: Client) -> None:
    await send(client, 1, 0, 9)
    await send(client, 2, 0, 9)
    async with client.subscriber("orders") as subscriber:
        async for item in subscriber:
            if isinstance(item, ReplayedMessage) and item.source.session_id == 2:
                first_of_two = item.bookmark
                break
    async with client.subscriber("orders", begin=str(first_of_two)) as subscriber:
        assert await take(subscriber, 9) == sent(2, 1, 9)
    unknown = first_of_two._replace(sequence=1000)
    with pytest.raises(UnknownBookmark, match="orders/0x2@1:1000"):
        await client.subscriber("orders", begin=[unknown], timeout=5)


async def test_since_a_time(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", begin="-1h") as subscriber:
        assert await take(subscriber, 10) == sent(1, 0, 9)
    async with client.subscriber("orders", begin="2100-01-01") as subscriber:
        assert len(await until_completed(subscriber)) == 1


async def test_only_what_passes_the_filter(client: Client) -> None:
    await send(client, 1, 0, 99)
    async with client.subscriber("orders", where="$key = 'k1' AND $sequence < 50") as subscriber:
        *messages, _ = await until_completed(subscriber)
        numbers = [each.sequence for each in messages if isinstance(each, ReplayedMessage)]
        assert numbers == list(range(1, 50, 3))
        assert all(each.key == b"k1" for each in messages if isinstance(each, ReplayedMessage))
        # What does not pass counts as given.
        (place,) = subscriber.position.values()
        assert place.sequence == 99


async def test_topics_by_pattern(client: Client) -> None:
    await send(client, 1, 0, 4, "orders.eu")
    await send(client, 1, 0, 4, "orders.us")
    await send(client, 1, 0, 4, "trades")
    async with client.subscriber(topic_pattern="orders[.].*") as subscriber:
        found = await until_completed(subscriber)
        topics = {each.topic for each in found if isinstance(each, ReplayedMessage)}
        assert topics == {"orders.eu", "orders.us"}
        await send(client, 1, 0, 1, "orders.asia")
        assert await take(subscriber, 2) == sent(1, 0, 1)


@pytest.mark.expects_log("does not take|lost its quorum|is over")
async def test_it_goes_on_at_another_store(client: Client, stores: RealStores) -> None:
    events: list[Event] = []
    await send(client, 1, 0, 999)
    async with client.subscriber("orders", on_event=events.append) as subscriber:
        found = await take(subscriber, 100)
        assert isinstance(events[0], Subscribed)
        await stores.stop(events[0].store)
        found += await take(subscriber, 900)
        assert found == sent(1, 0, 999)
        await send(client, 1, 1000, 1099)
        assert await take(subscriber, 100) == sent(1, 1000, 1099)
    assert any(isinstance(event, StoreLeft) for event in events)
    *_, last = (each for each in events if isinstance(each, Subscribed))
    assert last.store != events[0].store


@pytest.mark.parametrize(
    "wrong",
    [
        {"begin": "yesterday"},
        {"begin": "orders@1:2"},
        {"begin": []},
        {"delivered": "soon"},
        {"topic_pattern": "x"},
    ],
)
async def test_wrong_arguments_are_named(client: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        await client.subscriber("orders", **wrong)


async def test_payloads_that_are_no_json_are_counted_if_the_filter_looked_into_them(
    client: Client, stores: RealStores
) -> None:
    async with client.source("orders", session_id=1, options=QUICK) as source:
        for payload in (b'{"n": 1}', b"no JSON", b"null", b'{"n": 2}', b"[[", b"{"):
            await source.send(payload)
        await source.flush()
    where = "n > 0 AND $sequence < 100"
    async with (
        client.subscriber("orders", where=where, chooser=in_order) as filtered,
        client.subscriber("orders", where="$sequence < 3", chooser=in_order) as other,
    ):
        *messages, _ = await until_completed(filtered)
        assert [each.sequence for each in messages if isinstance(each, ReplayedMessage)] == [0, 3]
        await until_completed(other)
        counted = {each.where: each.undecoded for each in await subscriptions_of(stores, "a")}
        assert counted == {where: 3, "$sequence < 3": 0}


async def subscriptions_of(stores: RealStores, name: str) -> list[SubscriptionStatus]:
    whole = JournalResponse()
    async with open_channel(stores.address(name)) as channel:
        request = JournalRequest(protocol_version=PROTOCOL_VERSION)
        async for part in StoreStub(channel).Journal(request):
            whole.MergeFrom(part)
    return list(whole.subscriptions)


async def test_a_wrong_filter_says_where(client: Client) -> None:
    with pytest.raises(InvalidFilter, match="expected"):
        await client.subscriber("orders", where="price >")


async def test_a_pace_is_kept(client: Client) -> None:
    await send(client, 1, 0, 9)
    clock = asyncio.get_running_loop().time
    async with client.subscriber("orders", rate="50/s") as subscriber:
        began = clock()
        assert await take(subscriber, 10) == sent(1, 0, 9)
        assert clock() - began >= 9 / 50 - 0.01


async def test_a_pause_and_a_cancelled_call_lose_nothing(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", rate="1000/s") as subscriber:
        assert await take(subscriber, 3) == sent(1, 0, 2)
        subscriber.pause()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(subscriber)
        (place,) = subscriber.position.values()
        assert place.sequence == 2
        subscriber.resume()
        assert await take(subscriber, 7) == sent(1, 3, 9)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"rate": "fast"}, "rate"),
        ({"rate": "10/s", "delivered": "live"}, "live"),
        ({"paused": True, "delivered": "live"}, "^paused: .*live"),
        ({"conflation": "1s"}, "^conflation: needs a conflation_key"),
        ({"conflation_key": "key"}, "^conflation_key: needs a conflation"),
        ({"conflation": 0, "conflation_key": "key"}, "not above 0"),
        ({"conflation": -1, "conflation_key": "key"}, "not above 0"),
        ({"conflation": 1, "conflation_key": "id", "select": "price"}, "select leaves out"),
        ({"rate_max_gap": 1.0}, "needs a rate"),
        ({"rate": "2x", "rate_max_gap": 0.0}, "above 0"),
    ],
)
async def test_what_excludes_what(client: Client, wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        await client.subscriber("orders", **wrong)


async def test_batches(client: Client) -> None:
    await send(client, 1, 0, 99)
    async with client.subscriber("orders", begin=EPOCH) as subscriber:
        numbers: list[int] = []
        async for batch in subscriber.batches():
            if isinstance(batch, Completed):
                break
            numbers += batch.numbers  # type: ignore[union-attr]
        assert numbers == list(range(100))


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_it_goes_on_behind_what_was_consumed(
    client: Client, tmp_path: Path, kind: str
) -> None:
    bookmarks: BookmarkStore = MemoryBookmarkStore()
    if kind == "file":
        bookmarks = FileBookmarkStore(tmp_path / "risk.db")
    await send(client, 1, 0, 9)
    await send(client, 2, 0, 9)
    opening: dict[str, Any] = {"begin": MOST_RECENT, "bookmarks": bookmarks, "name": "risk"}
    async with client.subscriber("orders", **opening) as subscriber:
        items = [
            each for each in await until_completed(subscriber) if isinstance(each, ReplayedMessage)
        ]
        # Of the first source all but one, of the second one none.
        for item in items[9:4:-1] + items[:4]:
            item.consumed()
    if kind == "file":
        bookmarks = FileBookmarkStore(tmp_path / "risk.db")
    async with client.subscriber("orders", **{**opening, "bookmarks": bookmarks}) as subscriber:
        assert await take(subscriber, 16) == sent(1, 4, 9) + sent(2, 0, 9)


async def test_of_two_with_one_name_the_older_is_told(client: Client) -> None:
    bookmarks = MemoryBookmarkStore()
    await send(client, 1, 0, 9)
    opening: dict[str, Any] = {"begin": MOST_RECENT, "bookmarks": bookmarks, "name": "risk"}
    older = await client.subscriber("orders", **opening)
    async with client.subscriber("orders", **opening) as newer:
        for subscriber in (older, newer):
            item = await anext(subscriber)
            assert isinstance(item, ReplayedMessage)
            item.consumed()
        with pytest.raises(BookmarksTakenOver, match="risk"):
            await older.close()
    assert bookmarks.most_recent("risk") is not None


def test_a_file_of_bookmarks_that_nobody_uses_any_more_is_closed(tmp_path: Path) -> None:
    bookmarks = FileBookmarkStore(tmp_path / "risk.db")
    bookmarks.claim("risk", "me")
    connection = bookmarks._connection
    assert connection is not None
    del bookmarks
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


async def test_a_bookmark_store_needs_a_name(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="name"):
        await client.subscriber("orders", bookmarks=MemoryBookmarkStore())
    with pytest.raises(InvalidArgument, match="most_recent needs bookmarks"):
        await client.subscriber("orders", begin="most_recent")


async def test_what_says_how_positions_are_kept_needs_a_bookmark_store(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="name: needs bookmarks"):
        await client.subscriber("orders", name="risk")
    with pytest.raises(InvalidArgument, match="save_every: needs bookmarks"):
        await client.subscriber("orders", save_every=100)


async def test_without_asyncio(client: Client, stores: RealStores) -> None:
    await send(client, 1, 0, 99)

    def replayed() -> list[int]:
        with connect_blocking(stores.named("abc")) as blocking:
            found: list[int] = []
            with blocking.subscriber("orders", where="$sequence >= 50") as subscriber:
                for item in subscriber:
                    if isinstance(item, Completed):
                        return found
                    if isinstance(item, ReplayedMessage):
                        found.append(item.sequence)
        raise AssertionError("it ended")

    assert await asyncio.to_thread(replayed) == list(range(50, 100))


def test_a_position_is_the_text_of_its_bookmarks() -> None:
    text = '["orders/0x1@7:3836", "orders/0x2@1:0"]'
    assert str(Position.parse(text)) == text


def test_a_position_may_be_before_the_first_message() -> None:
    text = '["orders/0x1@0:-1"]'
    assert str(Position.parse(text)) == text


START_NS = 1_790_000_000_000_000_000


async def send_at(client: Client, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Send messages at these times, gathered in as few batches as may be."""
    times = iter([START_NS + round(each * 1e9) for each in seconds])
    with monkeypatch.context() as to:
        seams.SOURCE_TIME_NS.replace(to, lambda: next(times))
        async with client.source("orders", session_id=1, options=QUICK) as source:
            for number in range(len(seconds)):
                await source.send(b"%d" % number)
            await source.flush()


async def test_each_message_of_a_batch_has_its_own_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = (0.0, 1.0, 2.5, 2.0, 3.0)
    await send_at(client, monkeypatch, *seconds)
    async with client.subscriber("orders") as subscriber:
        found = await until_completed(subscriber)
    messages = [each for each in found if isinstance(each, ReplayedMessage)]
    assert [each.timestamp_ns - START_NS for each in messages] == [
        round(each * 1e9) for each in seconds
    ]
    assert len({id(each.batch) for each in messages}) < len(messages)
    assert not any(each.deleted or each.expires for each in messages)


async def test_it_begins_with_the_first_message_of_a_time_inside_a_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_at(client, monkeypatch, 0.0, 1.0, 2.0, 3.0)
    for seconds, first in ((0, 0), (0.5, 1), (1, 1), (2.5, 3), (3, 3)):
        begin = moment_of(START_NS + round(seconds * 1e9))
        async with client.subscriber("orders", begin=begin) as subscriber:
            assert await take(subscriber, 4 - first) == sent(1, first, 3)


async def test_its_pace_is_that_of_messages_also_inside_a_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_at(client, monkeypatch, 0.0, 1.0, 2.0, 3.0)
    loop = asyncio.get_running_loop()
    async with client.subscriber("orders", rate="10x") as subscriber:
        await take(subscriber, 1)
        begun = loop.time()
        await take(subscriber, 3)
        assert loop.time() - begun > 0.25


async def test_deletions_and_expiries_are_given_and_filtered(client: Client) -> None:
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    async with client.source("orders", session_id=1, options=QUICK) as source:
        await source.send(b"0", key=b"k", expires=moment)
        await source.delete(b"k")
        await source.flush()
    async with client.subscriber("orders") as subscriber:
        found = await until_completed(subscriber)
    facts = [
        (each.key, each.deleted, each.expires)
        for each in found
        if isinstance(each, ReplayedMessage)
    ]
    assert facts == [(b"k", False, moment), (b"k", True, None)]
    async with client.subscriber("orders", where="$deleted") as subscriber:
        found = await until_completed(subscriber)
    assert [each.sequence for each in found if isinstance(each, ReplayedMessage)] == [1]
