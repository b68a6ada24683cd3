"""Large batches from peers and from archives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import seams
from tests.store.large import COUNT, fetched, fragments_in, frames, frames_of, large, send
from tests.store.rpc.test_restore import opening
from tests.store.support import Client, batch, running
from tests.store.tasks.test_repair import Stores

from quorate.protocol.errors import ContentConflict, QuorateError
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.wire import lineage_to_wire
from quorate.store.node import StoreNode
from quorate.store.storage.interface import Table, Write
from quorate.transport.failures import failure_from_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

SENT = [large(10), large(11), large(12)]
FRAMES = [each.joined() for each in SENT]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 0.02)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    async with (
        running(tmp_path / "s1", "s1") as one,
        running(tmp_path / "s2", "s2", message_bytes_max=2**20) as two,
        Client(one.address) as client,
        Client(two.address) as second,
    ):
        yield Stores([one, two], [client, second])


def fragments_at(node: StoreNode) -> int:
    assert node._engine is not None
    return fragments_in(node._engine.reads)


async def filled(client: Client, addresses: list[str], upto: int = 13) -> None:
    """Ten messages, and large ones behind them."""
    stream = await client.stream(stores=addresses)
    await stream.batch(batch(0, 9), 9)
    for each in SENT[: upto - 10]:
        await send(stream, each, each.header.first)
    last = 9 + len(SENT[: upto - 10])
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=last))
    await stream.close()


async def has_all(client: Client) -> None:
    async with asyncio.timeout(60):
        while True:
            if frames_of(await fetched(client)) == FRAMES:
                return
            await asyncio.sleep(0.02)


async def test_a_store_takes_from_peers_also_what_it_takes_from_no_source(stores: Stores) -> None:
    await filled(stores.one, stores.addresses)
    await filled(stores.two, stores.addresses, upto=10)
    await has_all(stores.two)
    assert fragments_at(stores.nodes[1]) == 3 * COUNT
    (source,) = (await stores.two.status()).sources
    assert (list(source.holes), source.held[0].last) == ([], 12)


@pytest.mark.expects_log("cannot be read")
async def test_a_corrupt_one_is_replaced_by_a_peer(stores: Stores) -> None:
    await filled(stores.one, stores.addresses)
    await filled(stores.two, stores.addresses, upto=10)
    await has_all(stores.two)
    engine = stores.nodes[1]._engine
    assert engine is not None
    ((key, value), *_) = engine.reads.scan(Table.FRAGMENTS, b"", b"\xff" * 12, 1)
    number = engine.writer.submit([Write(Table.FRAGMENTS, key, value[:-1] + b"?")])
    await engine.writer.durable(number)
    assert frames_of(await fetched(stores.two)) == FRAMES[1:]
    await has_all(stores.two)


@pytest.mark.expects_log("is corrupt|could not|no peer")
async def test_a_peer_with_a_corrupt_one_gives_the_others(stores: Stores) -> None:
    await filled(stores.one, stores.addresses)
    engine = stores.nodes[0]._engine
    assert engine is not None
    rows = engine.reads.scan(Table.FRAGMENTS, b"", b"\xff" * 12, 2 * COUNT)
    key, value = rows[COUNT + 1]
    number = engine.writer.submit([Write(Table.FRAGMENTS, key, value[:-1] + b"?")])
    await engine.writer.durable(number)
    await filled(stores.two, stores.addresses, upto=10)
    async with asyncio.timeout(60):
        while True:
            if frames_of(await fetched(stores.two)) == [FRAMES[0], FRAMES[2]]:
                break
            await asyncio.sleep(0.02)
    async with asyncio.timeout(20):
        while True:
            # What broke off is removed.
            if fragments_at(stores.nodes[1]) == 2 * COUNT:
                break
            await asyncio.sleep(0.02)


async def test_two_copies_are_compared(stores: Stores) -> None:
    for client, node in zip((stores.one, stores.two), stores.nodes, strict=True):
        assert node._engine is not None
        node._engine.core.streams.message_bytes_max = 2**26
        await filled(client, stores.addresses)
    request = store_v1.RepairRequest(thorough=True, protocol_version=1)
    async with asyncio.timeout(60):
        said = [each async for each in stores.one.stub.Repair(request)]
    assert said[-1].complete
    assert said[-1].divergent == 0


@pytest.mark.expects_log("hold other content")
async def test_two_that_differ_are_reported(stores: Stores) -> None:
    for client, node, salt in zip((stores.one, stores.two), stores.nodes, (0, 1), strict=True):
        assert node._engine is not None
        node._engine.core.streams.message_bytes_max = 2**26
        stream = await client.stream(stores=stores.addresses)
        await send(stream, large(0), 0)
        await send(stream, large(1, salt=salt), 1)
        await send(stream, large(2), 2)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=2))
        await stream.close()
    request = store_v1.RepairRequest(thorough=True, protocol_version=1)
    async with asyncio.timeout(60):
        said = [each async for each in stores.one.stub.Repair(request)]
    assert said[-1].divergent == 1


# From an archive.


async def restored(client: Client, sent: list[v1.Frame], last: int = 12) -> store_v1.RestoreDone:
    lineage = lineage_to_wire(Lineage((Term(1, 0),)))

    async def requests() -> AsyncIterator[store_v1.RestoreRequest]:
        yield store_v1.RestoreRequest(open=opening(lineage=lineage, last=last))
        yield store_v1.RestoreRequest(batch=batch(0, 9))
        for frame in sent:
            yield store_v1.RestoreRequest(fragment=frame.fragment)

    async for response in client.stub.Restore(requests()):
        match response.WhichOneof("kind"):
            case "failed":
                raise failure_from_wire(response.failed, client.address)
            case "done":
                done: store_v1.RestoreDone = response.done
                return done
    raise AssertionError


def all_frames() -> list[v1.Frame]:
    return [frame for each in SENT for frame in frames(each)]


async def test_an_archive_gives_large_batches_back(tmp_path: Path) -> None:
    async with running(tmp_path, message_bytes_max=2**20) as node, Client(node.address) as client:
        done = await restored(client, all_frames())
        assert (done.written, done.held_already, list(done.lacking)) == (13, 0, [])
        assert frames_of(await fetched(client)) == FRAMES
        again = await restored(client, all_frames())
        assert (again.written, again.held_already) == (0, 13)
        assert fragments_at(node) == 3 * COUNT


async def test_a_restore_that_breaks_off_leaves_no_fragment(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        done = await restored(client, all_frames()[:-2])
        assert done.written == 12
        assert [(each.first, each.last) for each in done.lacking] == [(12, 12)]
        assert frames_of(await fetched(client)) == FRAMES[:-1]
        assert node._engine is not None
        await node._engine.writer.durable(node._engine.writer.submit(()))
        assert fragments_at(node) == 2 * COUNT


@pytest.mark.expects_log("holds other content")
async def test_a_restore_overwrites_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await restored(client, all_frames())
        sent = [frame for each in (*SENT[:2], large(12, salt=5)) for frame in frames(each)]
        with pytest.raises(QuorateError) as caught:
            await restored(client, sent)
        assert isinstance(caught.value, ContentConflict)
        assert (caught.value.first, caught.value.last) == (12, 12)
        assert frames_of(await fetched(client)) == FRAMES
