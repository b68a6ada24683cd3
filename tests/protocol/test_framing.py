"""Batches survive the trip unchanged, and nothing that happened to them on it goes unseen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import seams

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, checked_attributes
from quorate.protocol.columns import pack
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import (
    HEADER_BYTES,
    body_of,
    check_batch,
    checked_head,
    cut,
    encode_batch,
    read_contents,
    read_header,
    read_messages,
    read_payloads,
    same_content,
    unchecked_head,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import BATCH_MESSAGES_MAX
from quorate.protocol.times import times_of

NOW_NS = 1_790_000_000_000_000_000
SOURCE = SourceName("orders", 0x10)

# Lengths around every change in the size of a length's encoding.
EDGES = [0, 1, 2, 127, 128, 129, 255, 256, 257, 16_383, 16_384, 65_535, 65_536, 70_000, 2_097_152]


def batch(first: int, payloads: list[bytes], epoch: int = 1) -> bytes:
    return encode_batch(SOURCE, epoch, first, payloads, 7)


@given(
    topic=st.text(min_size=1, max_size=60),
    session_id=st.integers(1, 2**64 - 1),
    epoch=st.integers(0, 2**64 - 1),
    first=st.integers(0, 2**63 - 100),
    payloads=st.lists(st.binary(max_size=300), min_size=1, max_size=20),
    timestamp_ns=st.integers(-(2**63), 2**63 - 1),
    marker=st.binary(max_size=40),
)
def test_round_trip(
    topic: str,
    session_id: int,
    epoch: int,
    first: int,
    payloads: list[bytes],
    timestamp_ns: int,
    marker: bytes,
) -> None:
    source = SourceName(topic, session_id)
    frame = encode_batch(source, epoch, first, payloads, timestamp_ns, marker)
    header = check_batch(frame)
    assert header == read_header(frame)
    assert (header.source, header.epoch, header.timestamp_ns) == (source, epoch, timestamp_ns)
    assert (header.first, header.last) == (first, first + len(payloads) - 1)
    assert header.marker == marker
    assert read_payloads(frame, header) == payloads


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=30))
def test_the_body_is_the_columns_of_its_messages(payloads: list[bytes]) -> None:
    frame = batch(0, payloads)
    assert frame[read_header(frame).body_at :] == pack(payloads)


@pytest.mark.parametrize("length", EDGES)
def test_lengths_at_the_edges_of_their_encoding(length: int) -> None:
    payloads = [b"x" * length, b"", b"y" * length]
    frame = batch(3, payloads)
    header = check_batch(frame)
    width = 1 if length < 256 else 2 if length < 65_536 else 4
    ends = b"".join(payloads)
    lengths = b"".join(len(each).to_bytes(width, "little") for each in payloads)
    said = bytes((width,)) + lengths if length else b"\0"
    assert frame[header.body_at :] == b"\0" + said + ends
    assert read_payloads(frame, header) == payloads


ATTRIBUTES = st.builds(
    checked_attributes,
    st.none() | st.binary(max_size=40),
    st.dictionaries(st.text(min_size=1, max_size=8), st.binary(max_size=20), max_size=3),
    st.booleans(),
    st.none() | st.integers(-2, 2),
)
MESSAGES = st.lists(st.tuples(st.binary(max_size=40), ATTRIBUTES), min_size=1, max_size=12)
Contents = list[tuple[bytes, Attributes]]


def sealed(first: int, messages: Contents, epoch: int = 1, marker: bytes = b"") -> bytes:
    payloads = [payload for payload, _ in messages]
    attributes = [attributes for _, attributes in messages]
    return encode_batch(SOURCE, epoch, first, payloads, 7, marker, attributes)


@given(MESSAGES)
def test_attributes_round_trip(messages: Contents) -> None:
    frame = sealed(3, messages)
    header = check_batch(frame)
    payloads, attributes = read_messages(frame, header)
    assert payloads == read_payloads(frame, header) == [payload for payload, _ in messages]
    some = any(attributes != NO_ATTRIBUTES for _, attributes in messages)
    assert attributes == ([attributes for _, attributes in messages] if some else None)
    assert read_contents(frame, header, header.first, header.last) == messages


@given(MESSAGES)
def test_a_body_with_attributes_has_them_in_front(messages: Contents) -> None:
    frame = sealed(0, messages)
    payloads = [payload for payload, _ in messages]
    attributes = [attributes for _, attributes in messages]
    assert frame[read_header(frame).body_at :] == pack(payloads, attributes)
    plain = batch(0, payloads)
    assert frame.endswith(plain[read_header(plain).body_at + 1 :]), "behind the kinds of columns"


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=12))
def test_a_batch_in_which_no_message_has_attributes_is_as_if_there_were_none(
    payloads: list[bytes],
) -> None:
    assert sealed(0, [(payload, NO_ATTRIBUTES) for payload in payloads]) == batch(0, payloads)


@pytest.mark.parametrize("length", EDGES[:-1])
def test_attributes_of_any_length(length: int) -> None:
    messages = [
        (b"a", Attributes(b"x" * length, {"name": b"z" * length})),
        (b"", NO_ATTRIBUTES),
        (b"c", Attributes(b"y", {"name": b""})),
    ]
    frame = sealed(0, messages)
    assert read_contents(frame, check_batch(frame), 0, 2) == messages


@given(MESSAGES, st.data())
def test_a_part_of_a_batch_has_what_its_messages_had(
    messages: Contents, data: st.DataObject
) -> None:
    frame = sealed(5, messages, marker=b"mark")
    header = check_batch(frame)
    first = data.draw(st.integers(header.first, header.last))
    last = data.draw(st.integers(first, header.last))
    part = cut(frame, header, first, last, 9)
    expected = messages[first - 5 : last - 4]
    assert part == sealed(first, expected, 9, b"mark" if last == header.last else b"")
    assert read_contents(frame, header, first, last) == expected
    assert same_content(frame, part)


@given(st.lists(st.integers(NOW_NS - 500, NOW_NS + 500), min_size=1, max_size=12), st.data())
def test_a_part_of_a_batch_has_the_times_of_its_messages(
    each: list[int], data: st.DataObject
) -> None:
    payloads = [b"%d" % number for number in range(len(each))]

    def timed(first: int, count: int) -> bytes:
        times = times_of(each[first : first + count])
        return encode_batch(
            SOURCE, 9, first, payloads[first : first + count], times.least_ns, later=times.later
        )

    first = data.draw(st.integers(0, len(each) - 1))
    count = data.draw(st.integers(1, len(each) - first))
    whole = timed(0, len(each))
    part = cut(whole, check_batch(whole), first, first + count - 1, 9)
    assert part == timed(first, count)
    header = check_batch(part)
    assert header.timestamp_ns == min(each[first : first + count])
    body = body_of(part, header)
    assert list(body.read_times(header.timestamp_ns)) == each[first : first + count]
    assert same_content(whole, part)


def test_short_and_long_payloads_mix() -> None:
    payloads = [b"a" * length for length in EDGES[:-1]]
    frame = batch(0, payloads)
    assert read_payloads(frame, check_batch(frame)) == payloads


def test_every_flipped_bit_is_found() -> None:
    frame = batch(5, [b"first", b"", b"third message"])
    for at in range(len(frame) * 8):
        flipped = bytearray(frame)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptBatch):
            check_batch(bytes(flipped))


def test_every_truncation_and_anything_appended_is_found() -> None:
    frame = batch(5, [b"first", b"second"])
    for length in range(len(frame)):
        with pytest.raises(CorruptBatch):
            read_header(frame[:length])
    with pytest.raises(CorruptBatch):
        read_header(frame + b"\0")


@given(st.binary(max_size=200))
def test_what_never_was_a_batch_is_never_taken_for_one(noise: bytes) -> None:
    with pytest.raises(CorruptBatch):
        check_batch(noise)
    with pytest.raises(CorruptBatch):
        check_batch(b"QRB2" + noise)


def test_a_batch_without_messages_is_none() -> None:
    with seams.PACK_IN_FRAMING.replaced(lambda *_: b"\0\0"):
        frame = encode_batch(SOURCE, 1, 0, [], 0)
    with pytest.raises(CorruptBatch, match="no messages"):
        check_batch(frame)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x0a\x01a\x0a\x01b",
        pack([b"a"]),
        pack([b"a", b"b"])[:-1],
        pack([b"a", b"bc", b""]),
        pack([b"a"], [Attributes(b"key")]),
        pack([b"a", b"b"], [Attributes(b"key"), Attributes(None, {"name": b"value"})])[:-3],
    ],
)
def test_a_sealed_body_that_is_no_list_of_messages(body: bytes) -> None:
    """The checksum is right: what wrote it was wrong."""
    with seams.PACK_IN_FRAMING.replaced(lambda *_: body):
        frame = encode_batch(SOURCE, 1, 0, [b"a", b"b"], 0)
    header = check_batch(frame)
    for read in (read_payloads, read_messages):
        with pytest.raises(CorruptBatch):
            read(frame, header)


@pytest.mark.parametrize("count", [BATCH_MESSAGES_MAX + 1, 2**32 - 1])
def test_a_number_of_messages_that_no_batch_has_makes_no_memory(count: int) -> None:
    body = pack([b"", b""])
    head = unchecked_head(SOURCE, 1, 0, count, 7, b"", len(body))
    frame = checked_head(head, (body,)) + body
    with pytest.raises(CorruptBatch, match="more than a batch may have"):
        read_payloads(frame, check_batch(frame))


def test_the_error_says_where() -> None:
    with pytest.raises(CorruptBatch, match="from store A is corrupt"):
        check_batch(b"", "from store A")


@pytest.mark.parametrize("first", range(13))
@pytest.mark.parametrize("count", [1, 2, 4])
def test_same_content_compares_the_overlap_alone(first: int, count: int) -> None:
    stored = batch(4, [b"%d" % number for number in range(4, 9)])
    again = [b"%d" % number for number in range(first, first + count)]
    assert same_content(stored, batch(first, again, epoch=2))
    assert same_content(batch(first, again, epoch=2), stored)
    for at, number in enumerate(range(first, first + count)):
        other = batch(first, [*again[:at], b"other", *again[at + 1 :]])
        assert same_content(stored, other) == (not 4 <= number <= 8)
        assert same_content(other, stored) == (not 4 <= number <= 8)


def test_other_attributes_are_other_content() -> None:
    def keyed(*keys: bytes | None) -> bytes:
        return sealed(0, [(b"same", checked_attributes(key)) for key in keys])

    stored = keyed(b"a", None, b"c")
    assert same_content(
        stored, sealed(1, [(b"same", NO_ATTRIBUTES), (b"same", checked_attributes(b"c"))])
    )
    for other in (keyed(b"a", b"", b"c"), keyed(None, None, b"c"), keyed(None, None, None)):
        assert not same_content(stored, other)
        assert not same_content(other, stored)
    assert same_content(stored, batch(1, [b"same"]))


def test_the_size_of_a_header_is_part_of_the_format() -> None:
    assert HEADER_BYTES == 52
    assert encode_batch(SOURCE, 1, 0, [b"a"], 7, b"mark").hex() == (
        "51524232"  # magic
        "0936e917"  # crc32c
        "1000000000000000"  # session ID
        "0100000000000000"  # epoch
        "0000000000000000"  # first sequence number
        "01000000"  # messages
        "0700000000000000"  # time
        "0600"  # bytes of the topic
        "0400"  # bytes of the marker
        "03000000"  # bytes of the body
        "6f7264657273"  # topic
        "6d61726b"  # marker
        "000061"  # body
    )


def test_how_attributes_are_written_is_part_of_the_format() -> None:
    attributes = checked_attributes(b"k", {"b": b"", "a": b"1"})
    frame = sealed(0, [(b"p", attributes), (b"q", NO_ATTRIBUTES)])
    assert frame[read_header(frame).body_at :].hex() == (
        "03"  # keys and properties
        "01" "0100" "01" "0001" "6b"  # keys: of one message, the first
        "02"  # names
        "0161" "01" "0100" "01" "0001" "31"  # property a
        "0162" "01" "0100" "01" "0000"  # property b
        "00" "7071"  # payloads
    )  # fmt: skip
