"""Fields of JSON payloads alone are given: the store leaves the others out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import client, stores, until_completed

from quorate.client import Client, connect, connect_blocking
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.source import SourceOptions
from quorate.subscriber import Completed, ReplayedBatch, ReplayedMessage
from quorate.transport.channels import open_channel
from quorate.transport.failures import errors_of
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

__all__ = ["client", "stores"]

MIB = 1024 * 1024
ORDERS = [
    b'{"id": 0, "price": 1.10, "comment": "secret"}',
    b"no JSON",
    b'{"id": 2, "comment": "secret"}',
    b'[{"id": 3}]',
    b'{"comment": "secret", "price": 4}',
]
KEPT = [b'{"id":0,"price":1.10}', b"no JSON", b'{"id":2}', b'[{"id": 3}]', b'{"price":4}']


async def send(client: Client, payloads: Sequence[bytes], **options: Any) -> None:
    quick = SourceOptions(registration_interval=0.3, **options)
    async with client.source("orders", session_id=1, options=quick) as source:
        await source.send_many(payloads)
        await source.flush()


async def replayed(client: Client, **opening: Any) -> list[ReplayedMessage]:
    async with client.subscriber("orders", **opening) as subscriber:
        items = await until_completed(subscriber)
        assert next(iter(subscriber.position.values())).sequence + 1 == len(ORDERS)
    return [each for each in items if isinstance(each, ReplayedMessage)]


@pytest.mark.parametrize("select", ["id, price", ["price", "id"], "-comment"])
async def test_fields_alone_are_given(client: Client, select: str | list[str]) -> None:
    await send(client, ORDERS)
    found = await replayed(client, select=select)
    assert [each.payload for each in found] == KEPT
    assert [each.sequence for each in found] == list(range(5))


async def test_keys_and_properties_stay(client: Client) -> None:
    quick = SourceOptions(registration_interval=0.3)
    async with client.source("orders", session_id=1, options=quick) as source:
        for number, payload in enumerate(ORDERS):
            await source.send(payload, key=b"%d" % number, properties={"desk": b"london"})
        await source.flush()
    found = await replayed(client, select="id")
    assert [each.key for each in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert all(each.properties == {"desk": b"london"} for each in found)


async def test_the_filter_sees_whole_payloads(client: Client) -> None:
    await send(client, ORDERS)
    found = await replayed(client, where="comment = 'secret' AND price > 1", select="id, price")
    assert [(each.sequence, each.payload) for each in found] == [(0, KEPT[0]), (4, KEPT[4])]


async def test_whole_batches_have_them_too(client: Client) -> None:
    await send(client, ORDERS)
    payloads: list[bytes] = []
    async with client.subscriber("orders", select="-comment") as subscriber:
        async for given in subscriber.batches():
            if isinstance(given, Completed):
                break
            assert isinstance(given, ReplayedBatch)
            payloads += given.payloads
    assert payloads == KEPT


async def test_what_is_left_out_does_not_travel(client: Client, stores: RealStores) -> None:
    await send(client, ORDERS)
    request = store_v1.SubscribeRequest(
        protocol_version=PROTOCOL_VERSION,
        topic="orders",
        delivered=store_v1.DELIVERED_DURABLE,
    )
    for select, travels in (("", True), ("id, price", False)):
        request.select = select
        async with open_channel(stores.address("a")) as channel, asyncio.timeout(10):
            sent = b""
            async for response in StoreStub(channel).Subscribe(request):
                sent += response.SerializeToString()
                if response.completed:
                    break
        assert b"no JSON" in sent
        assert (b"secret" in sent) is travels


async def test_what_remains_of_a_large_message_is_large_or_not(client: Client) -> None:
    large = {"id": 5, "body": "b" * (5 * MIB), "tail": "t" * MIB}
    encoded = json.dumps(large).encode()
    await send(
        client, [*ORDERS[:-2], encoded, b"3 MiB are no JSON" * MIB], message_bytes_max=32 * MIB
    )
    small = await replayed(client, select="id")
    assert small[3].payload == b'{"id":5}'
    assert small[4].payload == b"3 MiB are no JSON" * MIB
    still_large = await replayed(client, select="-tail", where="id = 5")
    assert [json.loads(each.payload) for each in still_large] == [
        {"id": 5, "body": "b" * (5 * MIB)}
    ]


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ([], "names no field"),
        ("", "cannot be read after 0 characters"),
        ("order.", "expected a field"),
        ("id, -comment", "fields to keep and fields to leave out"),
    ],
)
async def test_bad_lists_are_refused_before_anything_is_sent(
    select: str | list[str], says: str
) -> None:
    async with connect("a=127.0.0.1:1") as nowhere:
        with pytest.raises(InvalidArgument, match=f"select: .*{says}"):
            await nowhere.subscriber("orders", select=select)


async def test_a_store_refuses_bad_lists_too(stores: RealStores) -> None:
    request = store_v1.SubscribeRequest(
        protocol_version=PROTOCOL_VERSION,
        topic="orders",
        delivered=store_v1.DELIVERED_STABLE,
        select="id, -comment",
    )
    address = stores.address("a")
    async with open_channel(address) as channel:
        with pytest.raises(InvalidArgument, match="fields to leave out"), errors_of(address):
            await StoreStub(channel).Subscribe(request).read()


async def test_without_asyncio(client: Client, stores: RealStores) -> None:
    await send(client, ORDERS)

    def first() -> bytes:
        with (
            connect_blocking(stores.named("abc")) as blocking,
            blocking.subscriber("orders", select=["price"]) as subscriber,
        ):
            item = next(iter(subscriber))
            assert isinstance(item, ReplayedMessage)
            return item.payload

    assert await asyncio.to_thread(first) == b'{"price":1.10}'
