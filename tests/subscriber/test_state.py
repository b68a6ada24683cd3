"""The state of the world with real stores: what a client asks for, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.keyed import QUICK, client, published, source, stores

from quorate.client import Client, Outgoing, connect, connect_blocking
from quorate.protocol.bookmarks import Bookmark, Place, Position
from quorate.protocol.errors import (
    Closed,
    InvalidArgument,
    InvalidFilter,
    QuorateError,
    StateUnavailable,
    TopicHasNoKeys,
    Unreachable,
)
from quorate.protocol.identity import SourceName
from quorate.source import Source
from quorate.subscriber import ReplayedMessage, in_order

__all__ = ["client", "source", "stores"]

ORDERS = SourceName("orders", 1)


async def test_the_last_message_of_each_key(client: Client, source: Source) -> None:
    await published(source, "a", price=1)
    await published(source, "b", price=2)
    last = await published(source, "a", price=3)
    orders = client.state("orders")
    rows = await orders.query(at_least=last)
    assert [(row.key, json.loads(row.payload)) for row in rows] == [
        (b"a", {"price": 3}),
        (b"b", {"price": 2}),
    ]
    assert rows.position == Position({ORDERS: last.place})
    assert rows[0].bookmark == last
    row = await orders.get("a")
    assert row is not None
    assert row.payload == b'{"price": 3}'
    assert await orders.get(b"c") is None
    assert await orders.count() == 2
    assert await orders.count("price > 2") == 1


async def test_where_order_limit_and_fields(client: Client, source: Source) -> None:
    last = None
    for number in range(20):
        last = await published(source, f"k{number:02}", price=number % 5, number=number, more="x")
    orders = client.state("orders")
    rows = await orders.query(
        "price >= 3", order_by=["-price", "-number"], limit=3, select="number", at_least=last
    )
    assert [json.loads(row.payload) for row in rows] == [
        {"number": 19}, {"number": 14}, {"number": 9},
    ]  # fmt: skip
    assert [row.key for row in rows] == [b"k19", b"k14", b"k09"]
    rows = await orders.query("$key = 'k07'")
    assert [row.key for row in rows] == [b"k07"]
    rows = await orders.query(limit=2)
    assert [row.key for row in rows] == [b"k00", b"k01"]
    parts = [part async for part in orders.batches(order_by="-number", batch=8)]
    assert list(map(len, parts)) == [8, 8, 4]
    assert [part.position for part in parts] == [rows.position] * 3
    assert [row.key for row in parts[0]][:2] == [b"k19", b"k18"]


async def test_a_deletion_and_an_expiry(client: Client, source: Source) -> None:
    for key in ("a", "b", "c"):
        await published(source, key, price=1)
    await source.delete(b"a")
    await source.send(b"{}", key=b"b", expires=-1.0)
    await source.send(b"{}", key=b"e", expires=3600.0)
    last = await published(source, "d", price=1)
    orders = client.state("orders")
    assert await orders.get("a", at_least=last) is None
    assert [row.key for row in await orders.query()] == [b"c", b"d", b"e"]
    assert await orders.count() == 3
    again = await published(source, "a", price=2)
    assert await orders.get("a", at_least=again) is not None


async def test_what_one_published_is_read_at_every_store(
    stores: RealStores, source: Source
) -> None:
    for number in range(30):
        last = await published(source, "a", number=number)
        async with connect(stores.named("abc"[number % 3])) as alone:
            row = await alone.state("orders").get("a", at_least=last)
        assert row is not None
        assert json.loads(row.payload)["number"] == number


async def test_fields_of_the_payload_are_the_key(client: Client) -> None:
    async with client.source("accounts", session_id=1, options=QUICK) as source:
        for fields in ({"id": 1, "region": "eu"}, {"id": 1, "region": "us"}, {"id": 1}):
            await source.publish(json.dumps(fields).encode())
        receipt = await source.publish(b"no JSON")
    accounts = client.state("accounts")
    at_least = Position({SourceName("accounts", 1): Place(receipt.epoch, receipt.sequence)})
    row = await accounts.get((1, "us"), at_least=at_least)
    assert row is not None
    assert json.loads(row.payload) == {"id": 1, "region": "us"}
    assert await accounts.count() == 2
    async with client.source("accounts", session_id=2, options=QUICK) as source:
        await source.send_many([Outgoing(b'{"id": 1, "region": "us"}', deleted=True)])
        await source.flush()
        later = Bookmark(source.name, source.epoch, 0)
    assert await accounts.get((1, "us"), at_least=later) is None
    assert await accounts.count() == 1
    with pytest.raises(InvalidArgument, match="has 1 value, and the key of these rows has 2"):
        await accounts.get(1)
    with pytest.raises(InvalidArgument, match="is bytes"):
        await accounts.get(b"1")


async def test_another_store_answers_if_one_is_gone(stores: RealStores, client: Client) -> None:
    async with client.source("orders", session_id=1, options=QUICK) as source:
        last = await published(source, "a", price=1)
    orders = client.state("orders", chooser=in_order)
    assert len(await orders.query(at_least=last)) == 1
    await stores.stop("a")
    for _ in range(3):
        assert len(await client.state("orders", chooser=in_order, timeout=3).query()) == 1
    await stores.stop("b")
    await stores.stop("c")
    alone = client.state("orders", timeout=1)
    with pytest.raises(Unreachable):
        await alone.query()
    await stores.start("abc")
    assert len(await orders.query(at_least=last)) == 1, "after a restart, too"


async def test_a_position_that_nobody_has(client: Client, source: Source) -> None:
    last = await published(source, "a", price=1)
    later = Bookmark(ORDERS, last.epoch, 1000)
    with pytest.raises(StateUnavailable, match="had not come to"):
        await client.state("orders", timeout=0.6).query(at_least=later)


async def test_a_store_whose_keys_change_makes_its_rows_anew(
    stores: RealStores, client: Client
) -> None:
    async with client.source("orders", session_id=1, options=QUICK) as source:
        for number in range(10):
            last = await published(source, f"k{number}", price=number)
    await stores.stop("a")
    stores.settings["a"] = {"topic": ({"pattern": "orders", "keys": "price"},)}
    await stores.start("a")
    async with connect(stores.named("a")) as alone:
        orders = alone.state("orders")
        row = await orders.get(7, at_least=last)
        assert row is not None
        assert row.key == b"k7"
        assert await orders.count() == 10


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"where": "price >"}, InvalidFilter),
        ({"order_by": "a +"}, InvalidArgument),
        ({"limit": 0}, InvalidArgument),
        ({"select": ""}, InvalidArgument),
        ({"at_least": "nowhere"}, InvalidArgument),
        ({"at_least": [1]}, InvalidArgument),
        ({"as_of": "yesterday"}, InvalidArgument),
        ({"as_of": "+1h"}, InvalidArgument),
        ({"as_of": "at -1h"}, InvalidArgument),
    ],
)
async def test_queries_that_cannot_be(
    client: Client, wrong: dict[str, object], error: type[QuorateError]
) -> None:
    with pytest.raises(error):
        await client.state("orders").query(**wrong)  # type: ignore[arg-type]


async def test_a_topic_without_keys(client: Client) -> None:
    with pytest.raises(TopicHasNoKeys, match=r"\[\[topic\]\] entry with pattern = 'trades'"):
        await client.state("trades").query()


async def test_a_topic_that_nobody_sent(client: Client) -> None:
    rows = await client.state("orders").query()
    assert list(rows) == []
    assert rows.position == Position()


async def test_a_store_that_takes_no_messages_has_no_rows(stores: RealStores) -> None:
    await stores.stop("a")
    stores.state_only = {"a"}
    await stores.start("a")
    async with connect(stores.named("a")) as alone:
        with pytest.raises(StateUnavailable, match="takes no messages"):
            await alone.state("orders", timeout=0.1).query()


@pytest.mark.expects_log("store a does not take orders")
async def test_a_subscription_begins_where_the_rows_end(
    stores: RealStores, client: Client, source: Source
) -> None:
    """Another source sends meanwhile, and another store serves the subscription."""

    async def busy() -> None:
        async with client.source("orders", session_id=2, options=QUICK) as other:
            for number in range(300):
                await other.send(json.dumps({"n": number}).encode(), key=b"other")
                await asyncio.sleep(0)
            await other.flush()

    for number in range(300):
        await source.send(json.dumps({"n": number}).encode(), key=b"k%d" % number)
        if number == 150:
            sending = asyncio.create_task(busy())
    last = await published(source, "last", n=300)
    orders = client.state("orders", chooser=in_order)
    rows, updates = await orders.query_and_subscribe(at_least=last)
    await sending
    before = {row.key: json.loads(row.payload)["n"] for row in rows if row.source == ORDERS}
    assert len(before) == 301
    other = [json.loads(row.payload)["n"] for row in rows if row.source != ORDERS]
    seen = other[-1] if other else -1
    await stores.stop("a")
    last = await published(source, "k0", n=-1)
    async with updates, asyncio.timeout(20):
        found: list[ReplayedMessage] = []
        while not found or found[-1].bookmark != last or len(found) < 300 - seen:
            item = await anext(updates)
            if isinstance(item, ReplayedMessage):
                found.append(item)
    numbers = [json.loads(each.payload)["n"] for each in found if each.source != ORDERS]
    assert numbers == list(range(seen + 1, 300))
    assert [each.key for each in found if each.source == ORDERS] == [b"k0"]


async def test_rows_are_deleted_by_key_and_by_condition(client: Client, source: Source) -> None:
    for number in range(6):
        last = await published(source, f"k{number}", price=number)
    orders = client.state("orders")
    assert await orders.count(at_least=last) == 6
    assert await orders.delete("k0", source=source)
    assert not await orders.delete("other", source=source), "there is no such row"
    deleted = Bookmark(ORDERS, last.epoch, source.stable_upto)
    assert not await client.state("orders").get("k0", at_least=deleted)
    assert await orders.delete_where("price > 2", source=source) == 3
    deleted = Bookmark(ORDERS, last.epoch, source.stable_upto)
    assert [row.key for row in await orders.query(at_least=deleted)] == [b"k1", b"k2"]
    async with client.subscriber("orders", begin=last) as subscriber:
        deletion = await anext(subscriber)
        assert isinstance(deletion, ReplayedMessage)
        assert (deletion.deleted, deletion.key) == (True, b"k0")
        assert json.loads(deletion.payload) == {"price": 0}
    with pytest.raises(InvalidArgument, match="sends to another topic than accounts"):
        await client.state("accounts").delete((1, "eu"), source=source)


async def test_a_row_of_fields_is_deleted(client: Client) -> None:
    accounts = client.state("accounts")
    async with client.source("accounts", session_id=1, options=QUICK) as source:
        await source.publish(b'{"id": 1, "region": "eu"}')
        receipt = await source.publish(b'{"id": 2, "region": "eu"}')
        last = Bookmark(source.name, receipt.epoch, receipt.sequence)
        assert await accounts.count(at_least=last) == 2
        assert await accounts.delete((1, "eu"), source=source)
        await source.delete(None, payload=b'{"id": 2, "region": "eu"}')
        await source.flush()
        last = Bookmark(source.name, receipt.epoch, source.stable_upto)
    assert await accounts.count(at_least=last) == 0


async def test_a_row_ahead_of_the_clock_is_not_deleted(
    client: Client, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = await published(source, "a", price=1)
    orders = client.state("orders")
    assert await orders.count(at_least=last) == 1
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 3_600_000_000_000)
    with pytest.raises(InvalidArgument, match="ahead of this clock"):
        await orders.delete("a", source=source)


async def test_sql(stores: RealStores, client: Client, source: Source) -> None:
    pytest.importorskip("duckdb", reason="the extra query is not installed")
    for number in range(30):
        last = await published(source, f"k{number}", symbol="ab"[number % 2], price=number)
    orders = client.state("orders")
    statement = "select symbol, max(price) as price from rows group by symbol order by symbol"
    answer = await orders.sql(statement, where="price < 20", at_least=last)
    assert answer.table.to_pylist() == [
        {"symbol": "a", "price": 18}, {"symbol": "b", "price": 19},
    ]  # fmt: skip
    assert answer.position == Position({ORDERS: last.place})
    answer = await orders.sql("select count(*) as n from rows", as_of="-1h")
    assert answer.table.to_pylist() == [{"n": 0}]
    with pytest.raises(InvalidArgument, match="nothing"):
        await orders.sql("select nothing from rows")

    def asked() -> None:
        with connect_blocking(stores.named("abc")) as blocking:
            answer = blocking.state("orders").sql("select count(*) as n from rows")
            assert answer.table.to_pylist() == [{"n": 30}]

    await asyncio.to_thread(asked)


async def test_the_past(client: Client, source: Source) -> None:
    await published(source, "a", price=1)
    await published(source, "b", price=1)
    before = datetime.now(UTC)
    await published(source, "a", price=2)
    await source.delete(b"b")
    last = await published(source, "c", price=3)
    orders = client.state("orders")
    assert [row.key for row in await orders.query(at_least=last)] == [b"a", b"c"]
    rows = await orders.query(as_of=before)
    assert [(row.key, json.loads(row.payload)["price"]) for row in rows] == [(b"a", 1), (b"b", 1)]
    assert rows.position[ORDERS].sequence == 1
    assert await orders.count("price = 1", as_of=before) == 2
    row = await orders.get("b", as_of=before)
    assert row is not None
    assert await orders.count(as_of="-1h") == 0
    parts = [part async for part in orders.batches(batch=1, as_of=before)]
    assert [part[0].key for part in parts] == [b"a", b"b"]


async def test_a_slow_reader_sees_one_position(client: Client, source: Source) -> None:
    """What is sent meanwhile is not among its rows, however slowly it reads."""
    large = "x" * 20_000
    for number in range(100):
        await source.send(json.dumps({"old": True, "more": large}).encode(), key=b"%03d" % number)
    last = await published(source, "100", old=True)
    found: list[bool] = []
    async for part in client.state("orders").batches(batch=10, at_least=last):
        if not found:
            for number in range(100):
                await source.send(b'{"old": false}', key=b"%03d" % number)
            later = await published(source, "101", old=False)
            assert await client.state("orders").count("NOT old", at_least=later) == 101
        found += [json.loads(row.payload)["old"] for row in part]
        assert part.position == Position({ORDERS: last.place})
    assert found == [True] * 101


async def test_blocking(stores: RealStores, source: Source) -> None:
    for key in ("a", "b", "c"):
        last = await published(source, key, price=1)

    def asked() -> None:
        with connect_blocking(stores.named("abc")) as blocking:
            orders = blocking.state("orders")
            assert orders.topic == "orders"
            assert [row.key for row in orders.query(at_least=last)] == [b"a", b"b", b"c"]
            assert orders.count() == 3
            row = orders.get("b", select="-price")
            assert row is not None
            assert row.payload == b"{}"
            assert [len(part) for part in orders.batches(batch=2)] == [2, 1]
            rows, updates = orders.query_and_subscribe("$key = 'a'")
            with updates:
                assert updates.position == rows.position
            with blocking.source("orders", session_id=9, options=QUICK) as other:
                assert orders.delete("a", source=other)
                assert not orders.delete("z", source=other)
                assert orders.delete_where("price = 1 AND $key <> 'a'", source=other) == 2
        with pytest.raises(Closed):
            orders.query()

    await asyncio.to_thread(asked)


async def test_a_closed_client(stores: RealStores) -> None:
    async with connect(stores.named("abc")) as client:
        orders = client.state("orders")
    with pytest.raises(Closed):
        await orders.query()
