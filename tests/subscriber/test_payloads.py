"""Topics whose payloads are MessagePack: filters, fields, keys, queries and conflation at work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.keyed import QUICK
from tests.subscriber.test_replay import subscriptions_of, until_completed

from quorate.client import Client, connect, connect_blocking
from quorate.protocol.bookmarks import Bookmark
from quorate.protocol.errors import InvalidArgument
from quorate.source import SourceOptions
from quorate.subscriber import ReplayedMessage, in_order
from quorate.subscriber.changes import Left, Updated

MIB = 1024 * 1024
TOPICS = (
    {"pattern": "orders", "payload": "msgpack", "keys": ["id"]},
    {"pattern": "text-.*", "keys": ["id"]},
)
ORDERS: list[dict[str, Any]] = [
    {"id": 1, "price": 10.5, "note": "x", "raw": b"\xff"},
    {"id": 2, "price": 20, "note": "y"},
    {"id": 1, "price": 30, "note": "z"},
]
PAYLOADS = [*map(msgpack.packb, ORDERS), b'{"id": 3, "price": 1}', b"\xc1"]
"""The last two are no MessagePack with fields."""


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    made.settings = {name: {"topic": TOPICS} for name in "abc"}
    await made.start("abc")
    yield made
    await made.stop_all()


@pytest.fixture
async def client(stores: RealStores) -> AsyncIterator[Client]:
    async with connect(stores.named("abc"), timeout=20) as made:
        yield made


@pytest.fixture
async def last(client: Client) -> Bookmark:
    """The last of PAYLOADS, which are stable."""
    return await sent(client, "orders", PAYLOADS)


async def sent(
    client: Client, topic: str, payloads: list[bytes], options: SourceOptions = QUICK
) -> Bookmark:
    async with client.source(topic, session_id=1, options=options) as source:
        await source.send_many(payloads)
        await source.flush()
        return Bookmark(source.name, source.epoch, len(payloads) - 1)


async def replayed(client: Client, **opening: Any) -> list[ReplayedMessage]:
    async with client.subscriber(**opening) as subscriber:
        items = await until_completed(subscriber)
    return [each for each in items if isinstance(each, ReplayedMessage)]


@pytest.mark.usefixtures("last")
async def test_a_filter_at_the_store(client: Client) -> None:
    found = await replayed(client, topic="orders", where="price >= 20 AND note <> 'q'")
    assert [each.payload for each in found] == PAYLOADS[1:3]


async def test_each_topic_of_one_subscription_has_its_format(client: Client) -> None:
    await sent(client, "orders", PAYLOADS)
    await sent(client, "text-a", [b'{"id": 5, "price": 50}', PAYLOADS[2]])
    found = await replayed(
        client, topic_pattern="orders|text-.*", where="price >= 30", select="price"
    )
    assert sorted((each.source.topic, each.payload) for each in found) == [
        ("orders", msgpack.packb({"price": 30})),
        ("text-a", b'{"price":50}'),
    ]


@pytest.mark.usefixtures("last")
async def test_what_is_not_decoded_is_counted(client: Client, stores: RealStores) -> None:
    async with client.subscriber("orders", where="price > 20", chooser=in_order) as subscriber:
        await until_completed(subscriber)
        (counted,) = await subscriptions_of(stores, "a")
    assert counted.undecoded == 2


@pytest.mark.usefixtures("last")
async def test_select_gives_messagepack_back(client: Client) -> None:
    found = await replayed(client, topic="orders", select="-price, -note")
    assert [each.payload for each in found] == [
        msgpack.packb({"id": 1, "raw": b"\xff"}),
        msgpack.packb({"id": 2}),
        msgpack.packb({"id": 1}),
        *PAYLOADS[3:],
    ]


async def test_fields_of_a_large_message(client: Client) -> None:
    options = SourceOptions(registration_interval=0.3, message_bytes_max=32 * MIB)
    large = msgpack.packb({"id": 7, "body": b"b" * (5 * MIB), "tail": "t"})
    await sent(client, "orders", [large], options)
    (small,) = await replayed(client, topic="orders", select="id", where="tail = 't'")
    assert small.payload == msgpack.packb({"id": 7})


async def test_fields_are_keys_and_rows_are_asked_for(client: Client, last: Bookmark) -> None:
    orders = client.state("orders")
    rows = await orders.query(order_by="-id", at_least=last)
    assert [row.payload for row in rows] == [PAYLOADS[1], PAYLOADS[2]]
    row = await orders.get(1, select="price")
    assert row is not None
    assert msgpack.unpackb(row.payload) == {"price": 30}
    assert await orders.count("price > 25") == 1
    assert await orders.count("note = 'y' OR note = 'z'") == 2


async def test_a_watch(client: Client, last: Bookmark) -> None:
    async with client.state("orders").watch("price < 25", select="id", at_least=last) as watch:
        first = await anext(watch)
        assert isinstance(first, Updated)
        assert msgpack.unpackb(first.row.payload) == {"id": 2}
        await anext(watch)  # it has all
        async with client.source("orders", session_id=2, options=QUICK) as source:
            await source.publish(msgpack.packb({"id": 2, "price": 99}))
        left = await anext(watch)
        assert isinstance(left, Left)
        assert left.key == (2,)


async def test_sql(client: Client, last: Bookmark) -> None:
    pytest.importorskip("duckdb", reason="the extra query is not installed")
    answer = await client.state("orders").sql(
        "select note, sum(price)::bigint as total from rows group by note order by note",
        at_least=last,
    )
    assert answer.table.to_pylist() == [{"note": "y", "total": 20}, {"note": "z", "total": 30}]


@pytest.mark.usefixtures("last")
async def test_conflation_compares_fields(client: Client) -> None:
    found = await replayed(
        client,
        topic="orders",
        where="id > 0",
        payload="msgpack",
        conflation="10s",
        conflation_key="id",
    )
    assert [each.payload for each in found] == [PAYLOADS[1], PAYLOADS[2]]


async def test_a_format_that_there_is_not(client: Client, stores: RealStores) -> None:
    with pytest.raises(InvalidArgument, match="'cbor' is none of json, msgpack"):
        await client.subscriber("orders", payload="cbor")
    with (
        connect_blocking(stores.named("abc")) as blocking,
        pytest.raises(InvalidArgument, match="'cbor' is none of json, msgpack"),
    ):
        blocking.receiver("orders", payload="cbor")
