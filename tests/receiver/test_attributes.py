"""Keys and properties, as a receiver hands them over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests import seams
from tests.receiver.real_peers import Stores, receiver, source

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, checked_attributes
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.receiver import Message, blocking
from quorate.receiver.message import DeliveredBatch
from quorate.receiver.protocol.consumed import Consumption
from quorate.receiver.protocol.stream import BatchPart
from quorate.source import Outgoing
from quorate.source import blocking as blocking_source

NAME = SourceName("orders", 7)


def delivered(*messages: tuple[bytes, Attributes]) -> DeliveredBatch:
    payloads = [payload for payload, _ in messages]
    attributes = [attributes for _, attributes in messages]
    frame = encode_batch(NAME, 1, 10, payloads, 99, attributes=attributes)
    header = read_header(frame)
    piece = BatchPart(header.first, header.last, header, frame, retransmitted=False)
    return DeliveredBatch(piece, Consumption(0), lambda *_: None)


def content(message: Message) -> tuple[bytes, bytes | None, dict[str, bytes]]:
    return message.payload, message.key, dict(message.properties)


def test_each_message_has_its_own() -> None:
    batch = delivered(
        (b"a", checked_attributes(b"key", {"name": b"value"})),
        (b"b", NO_ATTRIBUTES),
        (b"c", checked_attributes(b"")),
    )
    expected = [(b"a", b"key", {"name": b"value"}), (b"b", None, {}), (b"c", b"", {})]
    assert [content(message) for message in batch.messages()] == expected
    assert [content(message) for message in batch._part(11, 12).messages()] == expected[1:]
    assert batch._part(10, 11).attributes_of(10) == Attributes(b"key", {"name": b"value"})


def test_each_message_has_its_own_time_and_expiry() -> None:
    own = [Attributes(b"k", deleted=True), Attributes(expires_ns=5_000), NO_ATTRIBUTES]
    frame = encode_batch(NAME, 1, 10, [b""] * 3, 2_000, b"", own, [0, 9_000, 500])
    header = read_header(frame)
    piece = BatchPart(header.first, header.last, header, frame, retransmitted=False)
    batch = DeliveredBatch(piece, Consumption(0), lambda *_: None)

    def facts(batch: DeliveredBatch) -> list[tuple[int, bool, datetime | None]]:
        return [(each.timestamp_ns, each.deleted, each.expires) for each in batch.messages()]

    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expires = epoch + timedelta(microseconds=5)
    expected = [(2_000, True, None), (11_000, False, expires), (2_500, False, None)]
    assert facts(batch) == expected
    assert facts(batch._part(11, 12)) == expected[1:]
    assert batch.timestamp_ns == 2_000
    assert next(each.time for each in batch.messages()) == epoch + timedelta(microseconds=2)


def test_a_batch_without() -> None:
    batch = delivered((b"a", NO_ATTRIBUTES), (b"b", NO_ATTRIBUTES))
    assert [content(message) for message in batch.messages()] == [
        (b"a", None, {}),
        (b"b", None, {}),
    ]


def test_what_an_application_does_to_properties_stays_with_it() -> None:
    (message,) = delivered((b"a", checked_attributes(None, {"name": b"value"}))).messages()
    dict.update(message.properties, {"name": b"other"})
    assert message.properties == {"name": b"value"}


def test_only_who_asks_decodes() -> None:
    (message,) = delivered((b"a", checked_attributes(b"key", {"name": b"value"}))).messages()

    def read(*_: object) -> None:
        raise CorruptBatch("in memory", "it has unreadable attributes")

    with seams.BODY_READ_KEYS.replaced(read), seams.BODY_READ_PROPERTIES.replaced(read):
        assert message.payload == b"a"
        with pytest.raises(CorruptBatch, match="unreadable attributes"):
            _ = message.key
        with pytest.raises(CorruptBatch, match="unreadable attributes"):
            _ = message.properties
    with seams.BODY_READ_PROPERTIES.replaced(read):
        assert message.key == b"key"


def test_what_an_application_does_to_no_properties_stays_with_it() -> None:
    batch = delivered((b"a", NO_ATTRIBUTES), (b"b", checked_attributes(b"key")))
    for message in batch.messages():
        dict.update(message.properties, {"name": b"other"})
        assert message.properties == {}
    for number in (10, 11):
        dict.update(batch.attributes_of(number).properties, {"name": b"other"})
        assert batch.attributes_of(number).properties == {}
    assert checked_attributes(b"key") == Attributes(b"key")


SENT = [
    Outgoing(b"%d" % n, b"%d" % (n % 3) if n % 2 else None, {"n": b"%d" % n} if n % 5 else {})
    for n in range(2000)
]


@pytest.mark.parametrize("delivery", ["live", "stable"])
async def test_from_the_stores_and_live(stores: Stores, delivery: str) -> None:
    got: list[Outgoing] = []
    async with await source(stores) as sending:
        await sending.send_many(SENT[:1000])
        await sending.flush()
        async with await receiver(stores, delivery=delivery) as one, asyncio.timeout(30):
            async for message in one:
                got.append(Outgoing(message.payload, message.key, message.properties))
                if len(got) == 1000:
                    await sending.send_many(SENT[1000:])
                if len(got) == len(SENT):
                    break
    assert got == SENT


def blocking_round_trip(stores: str) -> list[Outgoing]:
    with blocking_source.Source.open("orders", session_id=0x10, stores=stores) as sending:
        sending.send(b"0", b"key", {"name": b"value"})
        sending.send(b"1")
        sending.send_many([b"2", Outgoing(b"3", b"three")])
        sending.commit([Outgoing(b"4", None, {"a": b"b"})], b"marker")
        sending.publish(b"5", key=b"five")
    got: list[Outgoing] = []
    with blocking.Receiver.open("orders", stores=stores) as one:
        for message in one:
            got.append(Outgoing(message.payload, message.key, message.properties))
            if len(got) == 6:
                break
    return got


async def test_without_asyncio(stores: Stores) -> None:
    assert await asyncio.to_thread(blocking_round_trip, stores.addresses) == [
        Outgoing(b"0", b"key", {"name": b"value"}),
        Outgoing(b"1"),
        Outgoing(b"2"),
        Outgoing(b"3", b"three"),
        Outgoing(b"4", None, {"a": b"b"}),
        Outgoing(b"5", b"five"),
    ]
