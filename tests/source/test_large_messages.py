"""Messages above the usual size: sent in fragments, kept, sent again, refused with the reason."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.source.fake_store import FakeStore
from tests.source.real_stores import Crash, RealStores, crash
from tests.source.support import open_source
from tests.store.support import running

from quorate.protocol.attributes import NO_ATTRIBUTES
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.fragments import Assembly, LargeBatch, encode_large
from quorate.protocol.framing import check_batch, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import (
    FRAGMENT_BYTES,
    MESSAGE_BYTES_MAX,
    MESSAGE_BYTES_USUAL,
)
from quorate.source import (
    FilePublishStore,
    Outgoing,
    Source,
    SourceOptions,
    StoreReturned,
)
from quorate.source.blocking import Source as BlockingSource
from quorate.source.io.live_stream import _Receiver
from quorate.v1 import messages_pb2 as m

pytestmark = pytest.mark.long

LARGE = SourceOptions(
    message_bytes_max=MESSAGE_BYTES_MAX,
    registration_interval=0.3,
    retention_bytes_max=4 * MESSAGE_BYTES_MAX,
)
NAMES = ["a", "b", "c"]
MIDDLE = 24 * 2**20
"""Bytes of a message in the middle of which something ends."""


def content(size: int, seed: int = 1) -> bytes:
    """Bytes that no two parts share."""
    return random.Random(seed).randbytes(size)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealStores]:
    stores = RealStores(tmp_path / "stores")
    await stores.start(NAMES)
    yield stores
    await stores.stop_all()


async def test_the_largest_message_is_stable_and_every_store_serves_it(real: RealStores) -> None:
    payload = content(MESSAGE_BYTES_MAX)
    async with await real.open("abc", options=LARGE) as source:
        await source.send(b"before")
        receipt = await source.publish(payload)
        assert (receipt.sequence, len(receipt.stores)) == (1, 2)
        await source.publish(b"after")
        await real.until_held(NAMES, {0: b"before", 1: payload, 2: b"after"})


async def test_messages_of_all_sizes_that_gather_keep_their_order(real: RealStores) -> None:
    sizes = [5, 2 * 2**20, 100, 2**20, 2**20 + 1, 3 * 2**20 + 7, 300_000, 5]
    payloads = [content(size, seed) for seed, size in enumerate(sizes)]
    async with await real.open("abc", options=LARGE) as source:
        numbers = await asyncio.gather(*map(source.send, payloads))
        numbers += [*await source.send_many(payloads)]
        await source.send(payloads[1], key=b"k", properties={"p": content(2**20)})
        await source.flush()
        assert numbers == list(range(16))
        sent = [*payloads, *payloads, payloads[1]]
        await real.until_held(["a"], dict(enumerate(sent)))
        held = await real.contents("a")
        assert held[16][1]


async def test_other_sources_go_on_while_a_large_message_travels(real: RealStores) -> None:
    async with (
        await real.open("abc", options=LARGE) as large,
        await real.open("abc", session_id=0x77) as small,
    ):
        sending = asyncio.create_task(large.publish(content(MESSAGE_BYTES_MAX)))
        while not large.next_sequence:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        published = 0
        while not sending.done():
            await small.publish(b"quick")
            published += not sending.done()
        await sending
        # Each of them was stable before the large message, which was sent before them.
        assert published >= 10


@pytest.mark.expects_log("store c does not take")
async def test_a_store_that_restarts_in_the_middle_gets_the_whole_message(
    real: RealStores,
) -> None:
    payload = content(MIDDLE)
    told = Crash()
    async with await real.open("abc", options=LARGE, on_event=told) as source:
        cursor = source._core.streams.cursors["c"]
        sending = asyncio.create_task(source.publish(payload))
        while cursor.fragment_at < 10 * FRAGMENT_BYTES:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        await real.stop(["c"])
        assert source._core.streams.cursors["c"].next_sequence == 0
        await sending
        await real.start(["c"])
        # Repair by the other stores may be quicker than the source.
        await told.until(StoreReturned, 1)
        await real.until_held(["c"], {0: payload})


async def test_a_source_that_dies_in_the_middle_sends_it_again(
    real: RealStores, tmp_path: Path
) -> None:
    payload = content(MIDDLE)
    path = tmp_path / "publish"
    source = await real.open("abc", options=LARGE, publish_store=FilePublishStore(path))
    await source.send(b"before")
    assert await source.send(payload, key=b"k") == 1
    while source._core.streams.cursors["a"].fragment_at < 10 * FRAGMENT_BYTES:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await crash(source)
    source._engine.publish_store.close()
    again = await real.open("abc", publish_store=FilePublishStore(path))
    async with again:
        assert again.next_sequence == 2
        await again.flush()
        await again.publish(b"after")
        await real.until_held(NAMES, {0: b"before", 1: payload, 2: b"after"})


async def test_a_new_epoch_keeps_a_large_message_that_some_store_has(real: RealStores) -> None:
    payload = content(5 * 2**20)
    source = await real.open("abc", options=LARGE)
    await source.publish(payload)
    await crash(source)
    async with await real.open("abc") as again:
        assert again.next_sequence == 1
        await real.until_held(NAMES, {0: payload})


async def test_the_option_and_its_maximum_are_named(stores: list[FakeStore]) -> None:
    with pytest.raises(InvalidArgument, match="message_bytes_max: 67,108,865 is more than the 67,"):
        SourceOptions(message_bytes_max=MESSAGE_BYTES_MAX + 1)
    async with await open_source(stores) as source:
        with pytest.raises(
            MessageTooLarge, match=r"limit is 1,048,576 \(SourceOptions.message_bytes_max\)"
        ):
            await source.send(bytes(MESSAGE_BYTES_USUAL + 1))
        assert source.next_sequence == 0


async def test_the_lower_limit_of_a_store_applies(tmp_path: Path) -> None:
    async with running(tmp_path, message_bytes_max=2 * MESSAGE_BYTES_USUAL) as node:
        stores = f"s1={node.address}"
        async with await Source.open("orders", stores=stores, options=LARGE) as source:
            await source.publish(bytes(2 * MESSAGE_BYTES_USUAL))
            for message in (bytes(2 * MESSAGE_BYTES_USUAL + 1), bytes(MESSAGE_BYTES_MAX)):
                with pytest.raises(MessageTooLarge) as raised:
                    await source.send(message)
                assert raised.value.setting == "message_bytes_max of store s1"
                assert raised.value.limit == 2 * MESSAGE_BYTES_USUAL
                with pytest.raises(MessageTooLarge):
                    await source.send_many([b"", message])
            assert source.next_sequence == 1


async def test_a_blocking_source_sends_large_messages(real: RealStores, tmp_path: Path) -> None:
    payload = content(3 * 2**20)

    def send() -> None:
        with BlockingSource.open(
            "orders",
            stores=real.named("abc"),
            session_id=0x10,
            options=LARGE,
            publish_store=FilePublishStore(tmp_path / "publish"),
        ) as source:
            assert source.send(payload) == 0
            assert source.send(payload, key=b"k") == 1
            assert source.send_many([b"small", payload]) == range(2, 4)
            source.publish(b"end")

    await asyncio.to_thread(send)
    await real.until_held(["a", "b"], {0: payload, 1: payload, 2: b"small", 3: payload, 4: b"end"})


# -- the publish store ----------------------------------------------------------------------


@pytest.mark.parametrize("sync", [False, True])
async def test_a_send_that_is_broken_off_keeps_nothing(
    stores: list[FakeStore], tmp_path: Path, sync: bool
) -> None:
    kept = FilePublishStore(tmp_path, sync)
    source = await open_source(stores, options=LARGE, publish_store=kept)
    sending = asyncio.create_task(source.send(content(MESSAGE_BYTES_MAX)))
    await asyncio.sleep(0)
    while kept.tail.next == 0:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert source.next_sequence == 0
    assert await source.send(b"small") == 0
    for store in stores:
        await store.until_held(0)
    await crash(source)
    kept.close()
    found = FilePublishStore(tmp_path).open()
    assert found.next_sequence == 1


async def test_small_and_large_messages_share_a_publish_store(
    stores: list[FakeStore], tmp_path: Path
) -> None:
    for store in stores:
        store.acknowledging.clear()
    sent = [b"0", content(2**20 + 1), b"2", content(2 * 2**20), b"4"]
    source = await open_source(
        stores,
        options=LARGE,
        publish_store=FilePublishStore(tmp_path),
    )
    await source.send(sent[0])
    await source.send(sent[1])
    await source.send(sent[2])
    await source.send_many([Outgoing(sent[3], b"key"), sent[4]])
    await crash(source)
    source._engine.publish_store.close()
    kept = FilePublishStore(tmp_path)
    found = kept.open()
    kept.close()
    assert found.next_sequence == 5
    batches = [each for each in found.batches if isinstance(each, LargeBatch)]
    assert [(each.header.first, each.message()[0]) for each in batches] == [(3, sent[3])]
    whole = [each for each in found.batches if isinstance(each, bytes)]
    payloads = [payload for each in whole for payload in read_payloads(each, check_batch(each))]
    assert payloads == [sent[0], sent[1], sent[2], sent[4]]


def test_the_file_of_a_large_message_goes_once_it_is_stable(tmp_path: Path) -> None:
    store = FilePublishStore(tmp_path)
    store.open()
    store.claim(SourceName("orders", 0x10))
    store.goes_on(0, ())
    store.keep_all(0, (b"small",), (), (7,))
    for _ in store.keep_large(1, content(5 * 2**20), NO_ATTRIBUTES, 7):
        pass
    store.keep_all(2, (b"small",), (), (7,))
    assert store.bytes_on_disk > 5 * 2**20
    store.settle(1)
    assert store.bytes_on_disk < 2 * 2**20
    store.close()
    assert FilePublishStore(tmp_path).open().next_sequence == 3


# -- the live stream ------------------------------------------------------------------------


def fragments(receiver: _Receiver) -> list[m.Frame]:
    frames = []
    while (frame := receiver.take(-1)) is not None:
        frames.append(m.Frame.FromString(frame))
    return frames


def test_a_large_batch_that_was_begun_is_sent_to_its_end() -> None:
    name = SourceName("orders", 0x10)
    first = encode_large(name, 1, 0, content(3 * 2**20), 0)
    second = encode_large(name, 1, 1, content(3 * 2**20, 2), 0)
    receiver = _Receiver(0x20, "somewhere", False, 2**20)
    assert receiver.put(first, -1) == 0
    begun = receiver.take(-1)
    assert begun is not None
    assert receiver.put(second, -1) == 0, "the one that was begun does not wait"
    assert receiver.put(b"x" * 100, -1) == 1
    frames = [m.Frame.FromString(begun), *fragments(receiver)[:-1]]
    assembly = Assembly("here")
    for frame in frames:
        assembly.take(frame.fragment.at, frame.fragment.size, frame.fragment.data)
    assert assembly.batch().message() == (content(3 * 2**20), NO_ATTRIBUTES)
