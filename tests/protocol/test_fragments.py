"""Large batches survive being cut and put together, and nothing that happened on the way goes
unseen."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, checked_attributes
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.fragments import (
    Assembly,
    FragmentReading,
    LargeBatch,
    encode_large,
    fragments_of,
    header_of,
    same_messages,
    split,
)
from quorate.protocol.framing import check_batch, encode_batch, read_messages
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import (
    BATCH_BYTES_MAX,
    FRAGMENT_BYTES,
    MESSAGE_BYTES_MAX,
    MESSAGE_BYTES_USUAL,
    SESSION_ID_MAX,
    TOPIC_BYTES_MAX,
    WHOLE_BATCH_BYTES_MAX,
)

SOURCE = SourceName("orders", 0x10)
PAYLOAD = random.Random(1).randbytes(3 * MESSAGE_BYTES_USUAL)
ATTRIBUTES = checked_attributes(b"key", {"kind": b"map"})
MUCH = checked_attributes(None, {"scan": random.Random(2).randbytes(MESSAGE_BYTES_USUAL)})
AMOUNTS = ["none", "few", "much"]


def large(
    payload: bytes = PAYLOAD, attributes: Attributes = NO_ATTRIBUTES, epoch: int = 1
) -> LargeBatch:
    return encode_large(SOURCE, epoch, 7, payload, 99, attributes)


def assembled(batch: LargeBatch) -> LargeBatch:
    assembly = Assembly("on the wire")
    for at, data in fragments_of(batch):
        assert not assembly.is_whole
        assembly.take(at, batch.size, data)
    assert assembly.is_whole
    return assembly.batch()


@pytest.mark.parametrize("attributes", [NO_ATTRIBUTES, ATTRIBUTES, MUCH], ids=AMOUNTS)
def test_it_has_the_bytes_of_any_other_batch(attributes: Attributes) -> None:
    batch = large(attributes=attributes)
    listed = [attributes] if any(attributes) else ()
    frame = encode_batch(SOURCE, 1, 7, [PAYLOAD], 99, attributes=listed)
    assert batch.joined() == frame
    assert batch.header == check_batch(frame)
    assert len(batch) == len(frame)
    assert b"".join(data for _, data in fragments_of(batch)) == frame


@pytest.mark.parametrize("attributes", [NO_ATTRIBUTES, ATTRIBUTES, MUCH], ids=AMOUNTS)
@pytest.mark.parametrize("make", [lambda batch: batch, assembled], ids=["made here", "assembled"])
def test_its_message_comes_out_as_it_went_in(
    attributes: Attributes, make: Callable[[LargeBatch], LargeBatch]
) -> None:
    assert make(large(attributes=attributes)).message() == (PAYLOAD, attributes)


def test_a_payload_that_was_never_copied_is_handed_out_as_it_is() -> None:
    assert large().message()[0] is PAYLOAD


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_the_last_fragment_may_have_any_size(over: int) -> None:
    around = large(PAYLOAD[:2_000_000]).size - 2_000_000
    batch = large(PAYLOAD[: 4 * FRAGMENT_BYTES - around + over])
    assert batch.size == 4 * FRAGMENT_BYTES + over
    sizes = [len(data) for _, data in fragments_of(batch)]
    assert sizes[:3] == [FRAGMENT_BYTES] * 3
    assert sizes[3:] == ([FRAGMENT_BYTES, 1] if over == 1 else [FRAGMENT_BYTES + over])
    assert assembled(batch).joined() == batch.joined()


def test_the_largest_message_makes_a_batch_within_the_bounds() -> None:
    source = SourceName("t" * TOPIC_BYTES_MAX, SESSION_ID_MAX)
    key = checked_attributes(b"k", None)
    batch = encode_large(source, 2**63, 2**62, bytes(MESSAGE_BYTES_MAX - key.size), 0, key)
    assert batch.size <= BATCH_BYTES_MAX


def test_in_another_epoch_it_is_the_same_message() -> None:
    for batch in (large(attributes=ATTRIBUTES), assembled(large(attributes=ATTRIBUTES))):
        other = batch.in_epoch(5)
        assert other.header.epoch == header_of(other).epoch == 5
        assert check_batch(other.joined()).epoch == 5
        assert other.message() == batch.message()
        assert other.parts[-1] is batch.parts[-1]


def test_a_batch_from_a_disk_becomes_one_in_parts() -> None:
    frame = large().joined()
    batch = split(frame)
    assert (batch.joined(), batch.header) == (frame, large().header)
    with pytest.raises(CorruptBatch):
        split(frame[:-1] + b"?")


def flipped_in_the_head(fragments: list[tuple[int, int, bytes]]) -> None:
    at, size, data = fragments[0]
    fragments[0] = at, size, data[:60] + bytes([data[60] ^ 1]) + data[61:]


def flipped_in_the_body(fragments: list[tuple[int, int, bytes]]) -> None:
    at, size, data = fragments[-1]
    fragments[-1] = at, size, bytes([data[0] ^ 1]) + data[1:]


def one_is_missing(fragments: list[tuple[int, int, bytes]]) -> None:
    del fragments[2]


def the_first_is_missing(fragments: list[tuple[int, int, bytes]]) -> None:
    del fragments[0]


def one_comes_twice(fragments: list[tuple[int, int, bytes]]) -> None:
    fragments.insert(2, fragments[2])


def two_are_exchanged(fragments: list[tuple[int, int, bytes]]) -> None:
    fragments[2:4] = reversed(fragments[2:4])


def one_is_short(fragments: list[tuple[int, int, bytes]]) -> None:
    at, size, data = fragments[1]
    fragments[1] = at, size, data[:-1]


def one_is_empty(fragments: list[tuple[int, int, bytes]]) -> None:
    at, size, _ = fragments[1]
    fragments[1] = at, size, b""


def the_size_changes(fragments: list[tuple[int, int, bytes]]) -> None:
    at, size, data = fragments[1]
    fragments[1] = at, size + 1, data


def the_size_is_a_lie(fragments: list[tuple[int, int, bytes]]) -> None:
    fragments[:] = [(at, BATCH_BYTES_MAX, data) for at, _, data in fragments]


def the_size_is_beyond_all_bounds(fragments: list[tuple[int, int, bytes]]) -> None:
    fragments[:] = [(at, BATCH_BYTES_MAX + 1, data) for at, _, data in fragments]


def a_whole_batch_comes_in_fragments(fragments: list[tuple[int, int, bytes]]) -> None:
    frame = encode_batch(SOURCE, 1, 7, [b"x" * FRAGMENT_BYTES], 99)
    fragments[:] = [
        (at, len(frame), frame[at : at + FRAGMENT_BYTES])
        for at in range(0, len(frame), FRAGMENT_BYTES)
    ]


def it_has_two_messages(fragments: list[tuple[int, int, bytes]]) -> None:
    frame = encode_batch(SOURCE, 1, 7, [b"x" * WHOLE_BATCH_BYTES_MAX, b"y"], 99)
    fragments[:] = [
        (at, len(frame), frame[at : at + FRAGMENT_BYTES])
        for at in range(0, len(frame), FRAGMENT_BYTES)
    ]


@pytest.mark.parametrize("reading", [FragmentReading, Assembly])
@pytest.mark.parametrize(
    "way",
    [
        flipped_in_the_head,
        flipped_in_the_body,
        one_is_missing,
        the_first_is_missing,
        one_comes_twice,
        two_are_exchanged,
        one_is_short,
        one_is_empty,
        the_size_changes,
        the_size_is_a_lie,
        the_size_is_beyond_all_bounds,
        a_whole_batch_comes_in_fragments,
        it_has_two_messages,
    ],
)
def test_what_went_wrong_on_the_way_is_seen(
    way: Callable[[list[tuple[int, int, bytes]]], None], reading: type[FragmentReading]
) -> None:
    batch = large()
    fragments = [(at, batch.size, data) for at, data in fragments_of(batch)]
    way(fragments)

    def take_all() -> None:
        read = reading("on the wire")
        for fragment in fragments:
            read.take(*fragment)

    with pytest.raises(CorruptBatch):
        take_all()


def test_an_announced_size_costs_no_memory() -> None:
    batch = large()
    assembly = Assembly("on the wire")
    assembly.take(0, batch.size, batch.fragment(0))
    assert assembly._body.getbuffer().nbytes < FRAGMENT_BYTES


def test_a_body_that_is_no_message_is_refused() -> None:
    for body in (
        b"",
        b"\0",
        b"\0\1\5ab",
        b"?" * 9,
        b"\1\2",
        b"\1\xff\xff\xff\xff\xff\xff",
        b"\2\1\1a",
    ):
        batch = large()
        broken = LargeBatch(batch.header, (batch.parts[0], body), len(batch.parts[0]) + len(body))
        with pytest.raises(CorruptBatch):
            broken.message()


def test_which_batches_have_the_same_messages() -> None:
    made, came = large(attributes=ATTRIBUTES), assembled(large(attributes=ATTRIBUTES, epoch=3))
    other = large(PAYLOAD[:-1] + b"?", ATTRIBUTES)
    for one in (made, came):
        for two in (made, came):
            assert same_messages(one, two)
        for two in (other, assembled(other), large(), large(PAYLOAD[1:], ATTRIBUTES)):
            assert not same_messages(one, two)
            assert not same_messages(two, one)
    assert same_messages(encode_large(SOURCE, 1, 8, PAYLOAD, 99), other)
    small = encode_batch(SOURCE, 1, 6, [b"6", b"7"], 99)
    assert not same_messages(small, made)
    assert same_messages(made, encode_batch(SOURCE, 1, 8, [b"8"], 99))
    assert same_messages(small, small)
    frame = made.joined()
    assert read_messages(frame, check_batch(frame)) == ([PAYLOAD], [ATTRIBUTES])
