"""Large batches into a store, fragment by fragment, and out of it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.store.large import COUNT, fetched, fragments_in, frames, frames_of, large, send
from tests.store.support import ORDERS, TRADES, Client, Stream, batch, payload, running

from quorate.protocol.answers import Corrupt, Piece
from quorate.protocol.errors import (
    ConfigurationInvalid,
    ContentConflict,
    CorruptBatch,
    InvalidArgument,
    MessageTooLarge,
    OutOfOrder,
    QuorateError,
)
from quorate.protocol.fragments import encode_large
from quorate.protocol.framing import encode_batch
from quorate.protocol.limits import FRAGMENT_BYTES, MESSAGE_BYTES_MAX, MESSAGE_BYTES_USUAL
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.wire import source_to_wire
from quorate.store.node import StoreNode
from quorate.store.storage.interface import (
    Reads,
    Table,
    Write,
)
from quorate.store.storage.large_batches import fragment_key
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


def reads_of(node: StoreNode) -> Reads:
    assert node._engine is not None
    return node._engine.reads


async def fragments_left(node: StoreNode, count: int) -> None:
    """Return once so many fragments are on the disk. A call that ends removes its own soon."""
    async with asyncio.timeout(20):
        while True:
            if fragments_in(reads_of(node)) == count:
                return
            await asyncio.sleep(0.02)


async def test_it_comes_out_as_it_went_in_also_after_a_restart(tmp_path: Path) -> None:
    sent = [large(10), large(11)]
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        assert stream.opened.message_bytes_max == MESSAGE_BYTES_MAX
        await stream.append(0, 9)
        for each in sent:
            await send(stream, each)
        await stream.append(12, 19)
        await stream.close()
        assert frames_of(await fetched(client)) == [each.joined() for each in sent]
    async with running(tmp_path) as node, Client(node.address) as client:
        answers = await fetched(client, 5, 15)
        assert frames_of(answers) == [each.joined() for each in sent]
        ranges = [(each.first, each.last) for each in answers if isinstance(each, Piece)]
        assert ranges == [(5, 9), (12, 15)]
        (source,) = (await client.status()).sources
        around = len(batch(0, 9)) + len(batch(12, 19))
        assert source.journal_bytes == around + sum(each.size for each in sent)
        found = await client.call(
            "Locate",
            store_v1.LocateRequest(
                source=source_to_wire(ORDERS), time_ns=1_700_000_000_000_000_001, protocol_version=1
            ),
        )
        assert found.sequence == 20


async def test_fragments_of_two_sources_take_turns(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders, trades = await client.stream(), await client.stream(source=TRADES)
        one, two = large(0), large(0, TRADES)
        for mine, theirs in zip(frames(one)[:-1], frames(two)[:-1], strict=True):
            await orders.send(mine)
            await trades.send(theirs)
        for stream in (orders, trades):
            while (await stream.read()).fragment_taken.upto < FRAGMENT_BYTES * (COUNT - 1):
                pass
        # Neither is whole; the rest of one must not wait for the rest of the other.
        await trades.send(frames(two)[-1])
        await trades.durable(0)
        await trades.append(1, 9, source=TRADES)
        await orders.send(frames(one)[-1])
        await orders.durable(0)
        assert frames_of(await fetched(client)) == [one.joined()]
        assert frames_of(await fetched(client, source=TRADES)) == [two.joined()]


async def test_a_small_batch_of_another_source_is_acknowledged_between_two_fragments(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders, trades = await client.stream(), await client.stream(source=TRADES)
        for number, frame in enumerate(frames(large(0))):
            await orders.send(frame)
            assert orders.acknowledged_upto < 0
            await trades.append(number, number, source=TRADES)
        await orders.durable(0)


async def test_a_source_is_told_how_far_its_fragments_are_written(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        sent = large(0)
        for frame in frames(sent)[:-1]:
            await stream.send(frame)
            taken = (await stream.read()).fragment_taken
            assert (taken.sequence, taken.upto) == (0, frame.fragment.at + FRAGMENT_BYTES)


async def test_other_frames_may_come_between(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await stream.append(0, 9)
        for frame in frames(large(10)):
            await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=9))
            await stream.send(frame)
        await stream.durable(10)
        (source,) = (await client.status()).sources
        assert source.stable_upto == 9


def flipped(sent: list[v1.Frame]) -> None:
    data = bytearray(sent[2].fragment.data)
    data[7] ^= 1
    sent[2].fragment.data = bytes(data)


def left_out(sent: list[v1.Frame]) -> None:
    del sent[2]


def without_a_beginning(sent: list[v1.Frame]) -> None:
    del sent[0]


def of_another_source(sent: list[v1.Frame]) -> None:
    sent[:] = frames(large(0, TRADES))


def of_another_epoch(sent: list[v1.Frame]) -> None:
    sent[:] = frames(large(0, epoch=2))


def too_far(sent: list[v1.Frame]) -> None:
    sent[:] = frames(large(5))


@pytest.mark.expects_log("batch on the wire is corrupt")
@pytest.mark.parametrize(
    ("way", "error"),
    [
        (flipped, CorruptBatch),
        (left_out, CorruptBatch),
        (without_a_beginning, InvalidArgument),
        (of_another_source, InvalidArgument),
        (of_another_epoch, InvalidArgument),
        (too_far, OutOfOrder),
    ],
)
async def test_what_is_wrong_ends_the_stream_and_leaves_nothing(
    tmp_path: Path, way: Callable[[list[v1.Frame]], None], error: type[QuorateError]
) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        sent = frames(large(0))
        way(sent)
        for frame in sent:
            await stream.send(frame)
        assert isinstance(await stream.ended(), error)
        stream = await client.open()
        assert stream.next_sequence == 0
        await send(stream, large(0))
        await stream.durable(0)
        await fragments_left(node, COUNT)
        assert frames_of(await fetched(client)) == [large(0).joined()]


async def test_what_broke_off_is_removed(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        for frame in frames(large(0))[:3]:
            await stream.send(frame)
        while (await stream.read()).fragment_taken.upto < 3 * FRAGMENT_BYTES:
            pass
        assert fragments_in(reads_of(node)) == 3
        # The source begins it anew: what came before counts no more.
        await send(stream, large(0, salt=1))
        await fragments_left(node, COUNT)
        for frame in frames(large(1))[:3]:
            await stream.send(frame)
        await stream.close()
        again = await client.open()
        await again.append(1, 1)
        await fragments_left(node, COUNT)
        assert frames_of(await fetched(client)) == [large(0, salt=1).joined()]


async def sized(stream: Stream, size: int) -> BaseException | None:
    """Send a message of so many bytes; return what ended the stream, if anything did."""
    sent = encode_large(ORDERS, 1, 0, bytes(size), 0)
    try:
        await send(stream, sent)
    except QuorateError as error:
        return error
    return None


async def test_a_message_above_the_limit_of_the_store_is_refused(tmp_path: Path) -> None:
    limit = 3 * MESSAGE_BYTES_USUAL
    async with (
        running(tmp_path, message_bytes_max=limit) as node,
        Client(node.address) as client,
    ):
        stream = await client.stream()
        assert stream.opened.message_bytes_max == limit
        refused = await sized(stream, limit + 100)
        assert isinstance(refused, MessageTooLarge)
        assert refused.setting == "message_bytes_max of store s1"
        assert f"the limit is {limit:,} (message_bytes_max of store s1)" in str(refused)
        assert str(refused).startswith(f"Message 0 of {ORDERS} has ")
        assert "goes on with its other stores. Raise the limit of this store." in str(refused)
        assert await sized(await client.open(), limit) is None


async def test_the_limit_holds_for_a_batch_that_comes_as_a_whole(tmp_path: Path) -> None:
    async with (
        running(tmp_path, message_bytes_max=MESSAGE_BYTES_USUAL) as node,
        Client(node.address) as client,
    ):
        stream = await client.stream()
        await stream.batch(encode_batch(ORDERS, 1, 0, [bytes(MESSAGE_BYTES_USUAL + 100)], 0))
        assert isinstance(await stream.ended(), MessageTooLarge)
        stream = await client.open()
        await stream.batch(encode_batch(ORDERS, 1, 0, [bytes(MESSAGE_BYTES_USUAL)], 0))
        await stream.durable(0)


@pytest.mark.parametrize("value", [MESSAGE_BYTES_USUAL - 1, MESSAGE_BYTES_MAX + 1])
async def test_no_limit_is_below_what_sources_use_or_above_what_receivers_take(
    tmp_path: Path, value: int
) -> None:
    with pytest.raises(ConfigurationInvalid, match="message_bytes_max"):
        async with running(tmp_path, message_bytes_max=value):
            pass


async def test_what_the_store_holds_already_is_acknowledged_and_not_kept_twice(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await send(stream, large(0))
        again = await client.open(retained_from=0)
        again.next_sequence = 0
        for frame in frames(large(0)):
            await again.send(frame)
        await again.append(1, 9)
        await fragments_left(node, COUNT)
        assert frames_of(await fetched(client)) == [large(0).joined()]


@pytest.mark.expects_log("holds other content")
@pytest.mark.parametrize("held", [large(0, salt=1), large(0, count=4), None])
async def test_other_content_under_a_number_is_a_conflict(tmp_path: Path, held: object) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        if held is None:
            await stream.append(0, 0)
        else:
            await send(stream, held)  # type: ignore[arg-type]
        again = await client.open(retained_from=0)
        for frame in frames(large(0)):
            await again.send(frame)
        assert isinstance(await again.ended(), ContentConflict)
        with pytest.raises(ContentConflict):
            await client.open()
        await client.promise(2, b"another", take_over=True)
        await client.begin(Lineage((Term(1, 0), Term(2, 1))), instance=b"another")
        await (await client.open(2, b"another")).append(1, 9, 2)
        kept = len(frames(held)) if held is not None else 0  # type: ignore[arg-type]
        await fragments_left(node, kept)


@pytest.mark.expects_log("cannot be read|no peer could give it")
@pytest.mark.parametrize("spoilt", ["first", "last", "missing"])
async def test_a_bad_batch_is_never_served(tmp_path: Path, spoilt: str) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await send(stream, large(0))
        await send(stream, large(1))
        engine = node._engine
        assert engine is not None
        ((group, _), *_) = (
            (int.from_bytes(key[:8], "big"), key)
            for key, _ in engine.reads.scan(Table.FRAGMENTS, b"", b"\xff" * 12, 1)
        )
        key = fragment_key(group, {"first": 0, "last": COUNT - 1, "missing": 2}[spoilt])
        value = engine.reads.get(Table.FRAGMENTS, [key])[0]
        assert value is not None
        bad = None if spoilt == "missing" else value[:-1] + bytes([value[-1] ^ 1])
        await engine.writer.durable(engine.writer.submit([Write(Table.FRAGMENTS, key, bad)]))
        answers = await fetched(client)
        assert frames_of(answers) == [large(1).joined()]
        assert not [each for each in answers if isinstance(each, Corrupt)]
        missing = [each for each in answers if isinstance(each, v1.Missing)]
        assert [(each.first, each.why) for each in missing] == [(0, v1.LOOKUP_UNKNOWN)]
        (source,) = (await client.status()).sources
        assert [(each.first, each.last) for each in source.unreadable] == [(0, 0)]


async def test_small_batches_are_as_they_were(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await stream.append(0, 9)
        assert fragments_in(reads_of(node)) == 0
        assert (await client.fetch()).messages == {n: payload(n) for n in range(10)}
