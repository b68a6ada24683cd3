"""Stores that help each other out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests import seams
from tests.store.support import Client, Fetched, batch, payload, running

from quorate.protocol import delays
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.store.node import StoreNode
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.v1 import messages_pb2 as v1


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.DELAYS_OF_REPAIR.replace(monkeypatch, delays.with_longest(delays.REPAIR, 0.05))


class Stores:
    """Two stores that know of each other through their sources' information."""

    def __init__(self, nodes: list[StoreNode], clients: list[Client]) -> None:
        self.nodes = nodes
        self.one, self.two = clients
        self.addresses = [node.address for node in nodes]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(running(tmp_path / name, name)) for name in ("s1", "s2")
        ]
        clients = [await stack.enter_async_context(Client(node.address)) for node in nodes]
        yield Stores(nodes, clients)


async def fetched_until(client: Client, last: int) -> Fetched:
    """What a store holds once it has all of [0, last]."""
    async with asyncio.timeout(60):
        while True:
            fetched = await client.fetch()
            if len(fetched.messages) > last:
                return fetched
            await asyncio.sleep(0.02)


async def fill(client: Client, addresses: list[str], last: int, stable_upto: int) -> None:
    """Everything up to last, in a stream that then ends."""
    stream = await client.stream(stores=addresses)
    for first in range(0, last + 1, 10):
        await stream.batch(batch(first, min(first + 9, last)), stable_upto)
    await stream.durable(last)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=stable_upto))
    await stream.close()


async def test_a_hole_is_filled_while_the_source_streams(stores: Stores) -> None:
    await fill(stores.one, stores.addresses, 99, 99)
    await stores.two.promise()
    await stores.two.begin()
    stream = await stores.two.open(retained_from=80, stable_upto=79, stores=stores.addresses)
    await stream.append(80, 99)
    fetched = await fetched_until(stores.two, 99)
    assert fetched.messages == {n: payload(n) for n in range(100)}
    (source,) = (await stores.two.status()).sources
    assert (list(source.holes), source.live) == ([], True)
    assert [(item.first, item.last) for item in source.held] == [(0, 99)]


async def test_the_end_of_a_stream_is_filled_once_its_source_is_gone(stores: Stores) -> None:
    await fill(stores.two, stores.addresses, 19, NOTHING)
    await fill(stores.one, stores.addresses, 99, 74)
    fetched = await fetched_until(stores.two, 74)
    assert fetched.messages == {n: payload(n) for n in range(75)}, "and nothing above"
    assert fetched.stable_upto == 74
    # The source comes back with what was not stable.
    stream = await stores.two.open(retained_from=0)
    assert stream.next_sequence == 75
    await stream.batch(batch(70, 79))
    await stream.append(80, 99)
    assert (await stores.two.fetch()).messages == {n: payload(n) for n in range(100)}


@pytest.mark.expects_log("cannot be read")
async def test_a_corrupt_batch_is_replaced(stores: Stores) -> None:
    for client in (stores.one, stores.two):
        await fill(client, stores.addresses, 99, 99)
    engine = stores.nodes[0]._engine
    assert engine is not None
    rows = engine.reads.scan(Table.JOURNAL, b"", b"\xff" * 8, 99)
    key, value = rows[5]
    damaged = value.replace(payload(55), b"_" * len(payload(55)))
    number = engine.writer.submit([Write(Table.JOURNAL, key, damaged)])
    await engine.writer.durable(number)
    fetched = await stores.one.fetch()
    assert fetched.missing == [(50, 59, v1.LOOKUP_UNKNOWN)]
    fetched = await fetched_until(stores.one, 99)
    assert fetched.messages == {n: payload(n) for n in range(100)}


@pytest.mark.expects_log("another lineage")
async def test_a_peer_of_another_lineage_is_not_followed(stores: Stores) -> None:
    await fill(stores.one, stores.addresses, 49, 49)
    await fill(stores.two, stores.addresses, 9, 9)
    await fetched_until(stores.two, 49)
    # Epoch 2 went on at store one alone.
    await stores.one.promise(2)
    await stores.one.begin(Lineage((Term(1, 0), Term(2, 50))))
    stream = await stores.one.open(2, stores=stores.addresses)
    await stream.append(50, 59, epoch=2)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=59))
    await stream.close()
    for _ in range(10):
        await asyncio.sleep(0.03)
        assert (await stores.two.fetch()).high == 49
    # Once store two has begun it, the rest is filled.
    await stores.two.promise(2)
    await stores.two.begin(Lineage((Term(1, 0), Term(2, 50))))
    assert (await fetched_until(stores.two, 59)).stable_upto == 59


@pytest.mark.expects_log("no peer could give it")
async def test_repair_goes_on_after_a_restart_and_with_peers_away(tmp_path: Path) -> None:
    async with running(tmp_path / "s1", "s1") as one, Client(one.address) as client:
        await fill(client, [one.address, "127.0.0.1:1"], 99, 99)
        address = one.address
        async with running(tmp_path / "s2", "s2") as two, Client(two.address) as second:
            await second.promise()
            await second.begin()
            stream = await second.open(
                retained_from=50, stable_upto=49, stores=["127.0.0.1:1", "s2", "127.0.0.1:2"]
            )
            await stream.append(50, 59)
            await stream.close()
            stream = await second.open(
                retained_from=60, stable_upto=59, stores=["127.0.0.1:1", address]
            )
            await stream.close()
        async with running(tmp_path / "s2", "s2") as two, Client(two.address) as second:
            fetched = await fetched_until(second, 99)
            assert fetched.messages == {n: payload(n) for n in range(100)}
