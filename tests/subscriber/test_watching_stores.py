"""A watch of rows with real stores: the wire, a store that dies, expiry by the clock."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.keyed import QUICK, client, published, source, stores

from quorate.client import Client, connect, connect_blocking
from quorate.client.replay import Bookmark, Completed, Left, LeftReason, Updated
from quorate.protocol.errors import Closed, InvalidArgument, TopicHasNoKeys, Unreachable
from quorate.source import Source
from quorate.subscriber import Watching, in_order

__all__ = ["client", "source", "stores"]

Table = dict[object, object]


async def until(changes: Watching, table: Table, wanted: Table) -> None:
    """Apply changes to a table until it is as it should be."""
    async with asyncio.timeout(20):
        while table != wanted:
            match await anext(changes):
                case Updated(key, row):
                    table[key] = json.loads(row.payload)
                case Left(key):
                    del table[key]


@pytest.mark.expects_log("store . does not take orders")
async def test_a_table_that_follows(stores: RealStores, client: Client, source: Source) -> None:
    await published(source, "a", price=1)
    last = await published(source, "b", price=9)
    table: Table = {}
    orders = client.state("orders", chooser=in_order)
    async with orders.watch("price > 5", select="price", at_least=last) as changes:
        await until(changes, table, {b"b": {"price": 9}})
        assert isinstance(await anext(changes), Completed)
        await published(source, "a", price=7, more="x")
        await until(changes, table, {b"a": {"price": 7}, b"b": {"price": 9}})
        await stores.stop("a")
        await published(source, "b", price=2)
        await source.send(b'{"price": 8}', key=b"c", expires=4.0)
        await source.flush()
        await until(changes, table, {b"a": {"price": 7}, b"c": {"price": 8}})
        left = await anext(changes)
        assert isinstance(left, Left)
        assert (left.key, left.reason) == (b"c", LeftReason.EXPIRED)
        assert changes.position[source.name].sequence == 4
    with pytest.raises(Closed):
        await anext(changes)


async def test_fields_make_the_key(client: Client) -> None:
    async with client.source("accounts", session_id=1, options=QUICK) as source:
        await source.publish(b'{"id": 1, "region": "eu", "n": 1}')
        receipt = await source.publish(b'{"id": 1, "region": "eu", "n": 2}')
        last = Bookmark(source.name, receipt.epoch, receipt.sequence)
        async with client.state("accounts").watch(at_least=last) as changes:
            change = await anext(changes)
            assert isinstance(change, Updated)
            assert change.key == (1, "eu")
            assert await client.state("accounts").get(change.key) is not None


async def test_what_cannot_be_watched(client: Client, stores: RealStores) -> None:
    with pytest.raises(InvalidArgument):
        client.state("orders").watch(select="")
    async with client.state("trades").watch() as changes:
        with pytest.raises(TopicHasNoKeys):
            await anext(changes)
    async with client.state("orders", timeout=0.5).watch() as changes:
        await stores.stop("abc")
        with pytest.raises(Unreachable):
            await anext(changes)


async def test_a_closed_client_ends_a_watch(stores: RealStores) -> None:
    async with connect(stores.named("abc")) as client:
        changes = client.state("orders").watch()
        assert isinstance(await anext(changes), Completed)
        waiting = asyncio.create_task(change_of(changes))
        await asyncio.sleep(0)
    with pytest.raises(Closed):
        await waiting
    await changes.close()


async def change_of(changes: Watching) -> object:
    return await anext(changes)


async def test_blocking(stores: RealStores, source: Source) -> None:
    last = await published(source, "a", price=1)

    def watched() -> None:
        with connect_blocking(stores.named("abc")) as blocking:
            with blocking.state("orders").watch(at_least=last) as changes:
                first, second = next(changes), next(changes)
                assert isinstance(first, Updated)
                assert isinstance(second, Completed)
                assert changes.position == second.position
            with pytest.raises(Closed):
                next(changes)

    await asyncio.to_thread(watched)
