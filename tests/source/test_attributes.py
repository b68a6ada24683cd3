"""Messages with a key and properties, from the application to the stores."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.source.fake_store import FakeStore
from tests.source.real_stores import SESSION, RealStores, numbered
from tests.source.support import contents, open_source

from quorate.protocol.attributes import NO_ATTRIBUTES, checked_attributes
from quorate.protocol.errors import ContentConflict, InvalidArgument, MessageTooLarge
from quorate.protocol.framing import body_of, check_batch, encode_batch, read_header, read_messages
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import BATCH_BYTES_TARGET
from quorate.protocol.times import nanoseconds_of
from quorate.source import FilePublishStore, Outgoing, SourceOptions

Stores = list[FakeStore]


async def test_each_message_has_its_own(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await source.send(b"0")
        await source.send(b"1", key=b"one")
        await source.send(b"2", properties={"colour": b"red", "size": b"\xff"})
        assert await source.send_many([b"3", Outgoing(b"4", b"four", {"a": b"b"})]) == range(3, 5)
        await source.send(b"5", b"five")
        assert (await source.publish(b"6", key=b"", properties={})).sequence == 6
        await source.publish(b"7")
        await source.publish(b"8")
    expected = [
        Outgoing(b"0"),
        Outgoing(b"1", b"one"),
        Outgoing(b"2", None, {"colour": b"red", "size": b"\xff"}),
        Outgoing(b"3"),
        Outgoing(b"4", b"four", {"a": b"b"}),
        Outgoing(b"5", b"five"),
        Outgoing(b"6", b""),
        Outgoing(b"7"),
        Outgoing(b"8"),
    ]
    for store in stores:
        assert contents(store) == expected
        frame = store.batches[-1][3]
        assert read_messages(frame, check_batch(frame)) == ([b"8"], None)


@pytest.mark.parametrize("sync", [None, False, True])
async def test_deletions_expiries_and_times(
    stores: Stores, tmp_path: Path, sync: bool | None
) -> None:
    kept = None if sync is None else FilePublishStore(tmp_path, sync)
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    before_ns = time.time_ns()
    async with await open_source(stores, publish_store=kept) as source:
        assert await source.send(b"0", expires=moment) == 0
        assert await source.delete(b"key") == 1
        assert await source.delete(key=b"", properties={"a": b"b"}) == 2
        await source.publish(b"3", expires=60)
        await source.send_many([b"4", b"5"])
        await source.commit([b"6", b"7"], b"marker")
        with pytest.raises(InvalidArgument, match="the key whose row is to be deleted"):
            await source.delete(None)
        with pytest.raises(InvalidArgument, match="not a datetime or a number of seconds"):
            await source.send(b"", expires="1h")  # type: ignore[arg-type]
    after_ns = time.time_ns()
    for store in stores:
        zero, one, two, three, *rest = contents(store)
        assert (zero, one) == (Outgoing(b"0", expires=moment), Outgoing(b"", b"key", deleted=True))
        assert two == Outgoing(b"", b"", {"a": b"b"}, deleted=True)
        assert isinstance(three.expires, datetime)
        assert before_ns <= nanoseconds_of(three.expires) - 60 * 10**9 + 999 <= after_ns
        assert rest == [Outgoing(b"%d" % number) for number in range(4, 8)]
        times = times_in(store)
        assert before_ns <= min(times) <= max(times) <= after_ns
        assert times == sorted(times)
        assert (times[4], times[6]) == (times[5], times[7]), "those of one call have one time"


async def test_the_messages_of_a_batch_have_their_own_times(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await source.publish(b"0")
        for store in stores:
            store.acknowledging.clear()
        await source.send(b"1")
        await asyncio.sleep(0)
        between: list[int] = []
        for number in range(2, 5):
            between.append(time.time_ns())
            await source.send(b"%d" % number)
        for store in stores:
            store.acknowledge_again()
    each = times_in(stores[0])[2:]
    assert all(before <= sent for before, sent in zip(between, each, strict=True))
    assert all(sent <= after for sent, after in zip(each, between[1:], strict=False))


def times_in(store: FakeStore) -> list[int]:
    """The time of each message that a store was sent, in order."""
    found: dict[int, int] = {}
    for first, last, _, frame in store.batches:
        header = read_header(frame)
        times = body_of(frame, header).read_times(header.timestamp_ns)
        found |= dict(zip(range(first, last + 1), times[first - header.first :], strict=False))
    return [found[number] for number in sorted(found)]


async def test_many_of_them_over_many_batches(stores: Stores) -> None:
    sent = [
        Outgoing(b"%d" % number, b"key %d" % (number % 7) if number % 3 else None)
        for number in range(20_000)
    ]
    async with await open_source(stores) as source:
        await source.send_many(sent[:10_000])
        for message in sent[10_000:]:
            await source.send(message.payload, message.key)
    assert contents(stores[0]) == sent
    assert len(stores[0].batches) > 4


async def test_they_count_towards_a_batch(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await source.send_many([Outgoing(b"", b"k" * 50_000)] * 40)
    assert len(contents(stores[0])) == 40
    assert max(len(frame) for *_, frame in stores[0].batches) < BATCH_BYTES_TARGET + 51_000


async def test_what_can_not_be_sent_is_refused_before_anything_is(stores: Stores) -> None:
    options = SourceOptions(message_bytes_max=20)
    async with await open_source(stores, options=options) as source:
        with pytest.raises(MessageTooLarge):
            await source.send(b"x" * 10, key=b"k" * 10)
        with pytest.raises(MessageTooLarge):
            await source.send_many([b"x", Outgoing(b"x", None, {"name": b"v" * 10})])
        with pytest.raises(InvalidArgument, match="key: is str"):
            await source.send(b"x", key="text")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="property a: is int"):
            await source.publish(b"x", properties={"a": 5})  # type: ignore[dict-item]
        with pytest.raises(InvalidArgument, match="payload"):
            await source.send("text", key=b"k")  # type: ignore[arg-type]
        assert source.next_sequence == 0


async def test_a_publish_store_keeps_them(stores: Stores, tmp_path: Path) -> None:
    source = await open_source(stores, publish_store=FilePublishStore(tmp_path))
    await source.send(b"0", key=b"zero")
    await source.flush(60)
    for store in stores:
        await store.until_held(0)
        store.deaf = True
    await source.send_many([b"1", Outgoing(b"2", b"two", {"a": b"b"})])
    await source.close(timeout=0.2)
    for store in stores:
        store.deaf = False
    async with await open_source(stores, publish_store=FilePublishStore(tmp_path)) as source:
        assert source.next_sequence == 3
        await source.flush(60)
    expected = [Outgoing(b"0", b"zero"), Outgoing(b"1"), Outgoing(b"2", b"two", {"a": b"b"})]
    for store in stores:
        await store.until_held(2)
        assert contents(store) == expected


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path / "stores")
    await made.start("abc")
    yield made
    await made.stop_all()


def put_into(path: Path, first: int, *messages: Outgoing) -> None:
    """A publish store that remembers these messages of epoch 1."""
    name = SourceName("orders", SESSION)
    attributes = [checked_attributes(each.key, each.properties) for each in messages]
    payloads = [message.payload for message in messages]
    store = FilePublishStore(path)
    store.open()
    store.claim(name)
    batch = encode_batch(name, 1, first, payloads, 0, attributes=attributes)
    store.goes_on(first + len(messages), [batch])
    store.close()


@pytest.mark.expects_log("cannot go on")
async def test_other_attributes_under_a_number_that_stores_have(
    real: RealStores, tmp_path: Path
) -> None:
    async with await real.open("abc") as source:
        await source.send_many([b"0", Outgoing(b"1", b"one"), Outgoing(b"2", b"two")])
    put_into(tmp_path / "other", 1, Outgoing(b"1", b"one"), Outgoing(b"2", b"other"))
    with pytest.raises(ContentConflict):
        await real.open("abc", publish_store=FilePublishStore(tmp_path / "other"))
    # In part known to the stores, in part new, and in other batches than before.
    put_into(tmp_path / "same", 2, Outgoing(b"2", b"two"), Outgoing(b"3", None, {"a": b"b"}))
    async with await real.open("abc", publish_store=FilePublishStore(tmp_path / "same")) as source:
        assert source.next_sequence == 4
        await source.flush(60)
        await real.until_held("abc", numbered(0, 3))
        for store in "abc":
            assert await real.contents(store) == {
                0: (b"0", NO_ATTRIBUTES),
                1: (b"1", checked_attributes(b"one")),
                2: (b"2", checked_attributes(b"two")),
                3: (b"3", checked_attributes(None, {"a": b"b"})),
            }


async def test_a_commit_has_them_and_its_marker(real: RealStores) -> None:
    rows: list[bytes | Outgoing] = [Outgoing(b"1", b"one"), b"2", Outgoing(b"3", None, {"a": b"b"})]
    async with await real.open("abc") as source:
        await source.send(b"0")
        assert await source.commit(rows, b"mark") == range(1, 4)
        with pytest.raises(InvalidArgument, match="more than a batch has"):
            await source.commit([b"", Outgoing(b"", b"k" * BATCH_BYTES_TARGET)], b"more")
    async with await real.open("abc") as source:
        assert (source.marker, source.next_sequence) == (b"mark", 4)
        await real.until_held("a", numbered(0, 3))
        held = await real.contents("a")
    assert held[1] == (b"1", checked_attributes(b"one"))
    assert held[3] == (b"3", checked_attributes(None, {"a": b"b"}))
