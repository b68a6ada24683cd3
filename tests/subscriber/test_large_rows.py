"""Rows of large messages with real stores: every way to ask gives them whole."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.keyed import QUICK, client, published, stores

from quorate.client import Client, connect
from quorate.client.replay import Left, Updated
from quorate.protocol.bookmarks import Bookmark
from quorate.protocol.keying import Keying, Missing
from quorate.source import Source
from quorate.store.tasks.state_peers import ask_peer, candidate_of
from quorate.transport.channels import open_channel
from quorate.v1 import store_pb2 as store_v1

__all__ = ["client", "stores"]

OPTIONS = replace(QUICK, message_bytes_max=32 * 1024 * 1024)


def large(megabytes: int, **fields: object) -> bytes:
    return json.dumps({**fields, "more": "x" * (megabytes * 1_000_000)}).encode()


async def sent(source: Source, key: bytes, payload: bytes) -> Bookmark:
    receipt = await source.publish(payload, key=key)
    return Bookmark(source.name, receipt.epoch, receipt.sequence)


@pytest.fixture
async def source(client: Client) -> Source:
    return await client.source("orders", session_id=1, options=OPTIONS)


async def test_every_query_gives_large_rows(client: Client, source: Source) -> None:
    three, twenty = large(3, price=3), large(20, price=20)
    await sent(source, b"three", three)
    await published(source, "small", price=1)
    last = await sent(source, b"twenty", twenty)
    orders = client.state("orders")
    row = await orders.get("twenty", at_least=last)
    assert row is not None
    assert row.payload == twenty
    assert row.bookmark == last
    rows = await orders.query()
    assert [(each.key, len(each.payload)) for each in rows] == [
        (b"small", 12), (b"three", len(three)), (b"twenty", len(twenty)),
    ]  # fmt: skip
    rows = await orders.query("price > 1", order_by="-price", select="price")
    assert [each.payload for each in rows] == [b'{"price":20}', b'{"price":3}']
    rows = await orders.query("$size > 1500000", limit=1)
    assert [each.payload for each in rows] == [three]
    assert await orders.count("price > 1") == 2
    parts = [part async for part in orders.batches(order_by="-price", batch=2)]
    assert [[each.key for each in part] for part in parts] == [[b"twenty", b"three"], [b"small"]]


async def test_a_row_of_then_may_be_large(client: Client, source: Source) -> None:
    three = large(3, price=3)
    first = await sent(source, b"a", three)
    row = await client.state("orders").get("a", at_least=first)
    assert row is not None
    await published(source, "a", price=1)
    then = await client.state("orders").get("a", as_of=row.time + timedelta(microseconds=1))
    assert then is not None
    assert then.payload == three


async def test_a_watch_gives_large_rows(client: Client, source: Source) -> None:
    three, twenty = large(3, price=3), large(20, price=20)
    first = await sent(source, b"a", three)
    async with client.state("orders").watch("price > 2", at_least=first) as changes:
        async with asyncio.timeout(60):
            shown = await anext(changes)
            assert isinstance(shown, Updated)
            assert shown.row.payload == three
            await anext(changes)
            await sent(source, b"b", twenty)
            shown = await anext(changes)
            assert isinstance(shown, Updated)
            assert (shown.key, shown.row.payload) == (b"b", twenty)
            await published(source, "b", price=1)
            left = await anext(changes)
            assert isinstance(left, Left)
            assert left.key == b"b"


async def test_a_large_row_is_deleted(client: Client, source: Source) -> None:
    last = await sent(source, b"a", large(3, price=3))
    orders = client.state("orders")
    await orders.get("a", at_least=last)
    assert await orders.delete_where("price = 3", source=source) == 1
    deletion = Bookmark(source.name, source.epoch, source.stable_upto)
    assert await orders.get("a", at_least=deletion) is None


@pytest.mark.expects_log("store b does not take orders")
async def test_a_store_that_was_wiped_has_large_rows_again(
    source: Source, stores: RealStores, tmp_path: Path
) -> None:
    three = large(3, price=3)
    last = await sent(source, b"a", three)
    await stores.stop("b")
    shutil.rmtree(tmp_path / "b")
    await stores.start("b")
    async with connect(stores.named("b"), timeout=60) as alone:
        row = await alone.state("orders").get("a", at_least=last)
        assert row is not None
        assert row.payload == three


async def test_a_store_gives_a_peer_large_rows(source: Source, stores: RealStores) -> None:
    three = large(3, price=3)
    await published(source, "b", price=1)
    last = await sent(source, b"a", three)
    async with connect(stores.named("a"), timeout=60) as alone:
        await alone.state("orders").get("a", at_least=last)
    request = store_v1.StateCandidatesRequest(
        protocol_version=1,
        topic="orders",
        keys=Keying(["$key"], Missing.DROP).text,
    )
    found = {
        each.key: candidate_of(each).payload
        async for answer in ask_peer(open_channel, stores.address("a"), request)
        for each in answer.candidates
    }
    assert found == {b"ka": three, b"kb": b'{"price": 1}'}
