"""The columns of a body: the same messages come back, and no bytes do harm."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, has_any
from quorate.protocol.columns import Body, before_payload, before_payloads, key_of_one, pack
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.limits import ATTRIBUTE_BYTES_MORE, MESSAGE_BYTES_MORE
from quorate.protocol.times import TIME_NS_MAX, times_of

NOW = 1_790_000_000_123_456_789
PAYLOADS = st.one_of(st.binary(max_size=300), st.just(b""), st.just(b"equal"))
KEYS = st.one_of(st.none(), st.sampled_from([b"", b"one", b"two"]), st.binary(max_size=20))
NAMES = st.one_of(st.sampled_from(["a", "price", "ü" * 127]), st.text(min_size=1, max_size=4))
EXPIRIES = st.one_of(st.none(), st.sampled_from([0, NOW]), st.integers(-TIME_NS_MAX, TIME_NS_MAX))
ATTRIBUTES = st.builds(
    Attributes,
    KEYS,
    st.dictionaries(NAMES, st.binary(max_size=9), max_size=4),
    st.booleans(),
    EXPIRIES,
)
MESSAGES = st.lists(st.tuples(PAYLOADS, ATTRIBUTES), min_size=1, max_size=30)
TIMES = st.one_of(st.just(NOW), st.integers(NOW - 300, NOW + 300), st.integers(0, TIME_NS_MAX))

Message = tuple[bytes, Attributes]


def packed(messages: list[Message], later: Sequence[int] = ()) -> bytes:
    return pack([payload for payload, _ in messages], [own for _, own in messages], later)


def read(body: bytes, count: int) -> list[Message]:
    columns = Body(body, 0, count)
    assert len(columns.read_times(0)) == count
    attributes = columns.read_attributes() or [NO_ATTRIBUTES] * count
    return list(zip(columns.read_payloads(), attributes, strict=True))


def read_times(body: bytes, count: int, timestamp_ns: int = 0) -> Sequence[int]:
    return Body(body, 0, count).read_times(timestamp_ns)


@given(MESSAGES)
def test_round_trip(messages: list[Message]) -> None:
    assert read(packed(messages), len(messages)) == messages


@given(MESSAGES, st.data())
def test_the_payloads_of_some_messages(messages: list[Message], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(messages) - 1), unique=True).map(sorted))
    columns = Body(b"before" + packed(messages), 6, len(messages))
    assert columns.read_payloads_of(rows) == [messages[row][0] for row in rows]


@given(PAYLOADS, ATTRIBUTES, st.sampled_from([0, 1, 127, 128, 255, 256, 20_000]))
def test_one_message_alone_has_the_same_body(payload: bytes, own: Attributes, size: int) -> None:
    own = own._replace(deleted=False, properties={**own.properties, "long": b"x" * size})
    for each in (own, own._replace(properties={}), own._replace(key=b"k" * size, properties={})):
        before = before_payload(each.key, each.properties, each.expires_ns)
        assert before + payload == pack([payload], [each])
        assert key_of_one(before + payload) == each.key


@given(st.lists(st.tuples(TIMES, PAYLOADS, ATTRIBUTES), min_size=1, max_size=30))
def test_times_come_back_in_any_order(messages: list[tuple[int, bytes, Attributes]]) -> None:
    """The time of a batch is the least, so a clock that was set back harms nothing."""
    each = [time_ns for time_ns, _, _ in messages]
    times = times_of(each)
    body = packed([(payload, own) for _, payload, own in messages], times.later)
    assert list(read_times(body, len(messages), times.least_ns)) == each
    assert times.least_ns == min(each)


@given(MESSAGES)
def test_equal_messages_are_equal_bytes(messages: list[Message]) -> None:
    """The order in which properties are given is of no account."""
    again = [
        (bytes(payload), own._replace(properties=dict(reversed(list(own.properties.items())))))
        for payload, own in messages
    ]
    assert packed(again) == packed(messages)
    alone = [payload for payload, _ in messages]
    assert pack(alone) == pack(alone, [NO_ATTRIBUTES] * len(alone))


@given(MESSAGES)
def test_attributes_take_no_more_than_they_count(messages: list[Message]) -> None:
    counted = sum(len(payload) + MESSAGE_BYTES_MORE + own.size for payload, own in messages)
    later = [1 << 62] * len(messages)
    assert len(packed(messages, later)) <= counted + 3


def test_no_number_of_names_makes_a_batch_large() -> None:
    """Each message has properties that no other one has."""
    messages = [
        (b"", Attributes(None, {f"{number}-{each}": b"" for each in range(20)}))
        for number in range(100)
    ]
    assert len(packed(messages)) <= sum(own.size for _, own in messages) + 100
    assert read(packed(messages), 100) == messages


def test_one_message_is_small() -> None:
    """A body of one message has about the bytes that protobuf takes: 5 a value, and 2."""
    own = Attributes(b"k" * 20, {"price": b"12345678", "symbol": b"IBM"})
    values = 100 + 20 + len("price") + 8 + len("symbol") + 3
    assert len(pack([bytes(100)])) == 100 + 2
    assert len(pack([bytes(100)], (), times_of([NOW]).later)) == 100 + 2
    assert len(pack([b""], [Attributes(deleted=True)])) == 2 + 1
    assert len(pack([bytes(100)], [Attributes(expires_ns=NOW)])) == 100 + 2 + 8 + 4
    assert len(pack([bytes(100)], [own])) <= values + 2 + 5 * 3


def test_each_distinct_value_is_there_once() -> None:
    key = b"a key of thirty-two bytes, or so"
    body = pack([b"12"] * 4096, [Attributes(key)] * 4096)
    assert body.count(key) == 1
    assert len(body) < 4096 * 3 + 100


GOLDEN = [
    ([(b"payload", NO_ATTRIBUTES)], "00 00 7061796c6f6164"),
    ([(b"ab", NO_ATTRIBUTES), (b"cd", NO_ATTRIBUTES)], "00 00 61626364"),
    ([(b"a", NO_ATTRIBUTES), (b"", NO_ATTRIBUTES), (b"bc", NO_ATTRIBUTES)], "00 01 010002 616263"),
    # Two messages of three have a key, the same one; places are not said of one that each has.
    (
        [(b"1", Attributes(b"k")), (b"2", NO_ATTRIBUTES), (b"3", Attributes(b"k"))],
        "01  02 01 0002 01 01 0000 00 01 6b  00 313233",
    ),
    (
        [(b"1", Attributes(b"k", {"n": b"v", "m": b""})), (b"2", Attributes(b"", {"m": b"w"}))],
        "03  02 02 01 0100 6b  02  01 6d 02 02 01 0001 77  01 6e 01 01 00 01 00 01 76  00 3132",
    ),
    ([(bytes(256), NO_ATTRIBUTES), (b"", NO_ATTRIBUTES)], "00 02 00010000 " + "00" * 256),
    ([(b"", Attributes(b"k", deleted=True)), (b"p", NO_ATTRIBUTES)],
     "09  01 01 00 01 00 01 6b  0100  01 0001 70"),
    # Two messages of three expire, at the same time.
    ([(b"1", Attributes(expires_ns=1)), (b"2", NO_ATTRIBUTES), (b"3", Attributes(expires_ns=1))],
     "10  02 01 0002 01 01 0000 00 08 0100000000000000  00 313233"),
]  # fmt: skip

GOLDEN_TIMES = [
    ([NOW, NOW], "00 00 3132"),
    ([NOW, NOW + 255], "04 01 00ff 00 3132"),
    ([NOW + 256, NOW], "04 02 00010000 00 3132"),
    ([NOW, NOW + (1 << 16)], "04 04 0000000000000100 00 3132"),
    ([NOW, NOW + (1 << 32)], "04 08 0000000000000000 0000000001000000 00 3132"),
]


@pytest.mark.parametrize(("messages", "body"), GOLDEN)
def test_the_layout_is_part_of_the_format(messages: list[Message], body: str) -> None:
    assert packed(messages).hex() == body.replace(" ", "")
    assert read(bytes.fromhex(body), len(messages)) == messages


@pytest.mark.parametrize(("each", "body"), GOLDEN_TIMES)
def test_the_layout_of_times_is_part_of_the_format(each: list[int], body: str) -> None:
    times = times_of(each)
    assert pack([b"1", b"2"], (), times.later).hex() == body.replace(" ", "")
    assert list(read_times(bytes.fromhex(body), 2, times.least_ns)) == each


def test_a_time_beyond_what_64_bits_have_is_found() -> None:
    body = pack([b"1", b"2"], (), [0, 5])
    assert list(read_times(body, 2, TIME_NS_MAX - 5)) == [TIME_NS_MAX - 5, TIME_NS_MAX]
    with pytest.raises(CorruptBatch, match="beyond the year 2262"):
        read_times(body, 2, TIME_NS_MAX - 4)


@pytest.mark.parametrize(
    ("body", "count", "problem"),
    [
        ("", 1, "ends before its columns"),
        ("20 00", 1, "columns of an unknown kind: 0x20"),
        ("04", 1, "ends before its columns"),
        ("04 00", 1, "times of 0 bytes"),
        ("04 03 000000", 1, "times of 3 bytes"),
        ("04 08 00", 1, "ends in its columns"),
        ("08 00", 2, "ends in its columns"),
        ("08 02 00", 1, "unknown flags"),
        ("08 0080 00", 2, "unknown flags"),
        ("10 01 01 00 07 00000000000000 00", 1, "an expiry that is not of 8 bytes"),
        ("10 02 02 01 0709" + "00" * 16 + "00", 2, "an expiry that is not of 8 bytes"),
        ("10 02 02 00 07 " + "00" * 14 + "00", 2, "an expiry that is not of 8 bytes"),
        ("10 02", 1, "a column with 2 values, not 1 to 1"),
        ("00", 1, "ends before its columns"),
        ("00 03 000000", 1, "numbers of 3 bytes"),
        ("00 01 02", 1, "payloads that do not end where it ends"),
        ("00 00 616263", 2, "payloads that do not end where it ends"),
        ("00 04 01", 1, "ends in its columns"),
        ("00 08 0000000000000000", 1, "numbers of 8 bytes"),
        ("01 00", 1, "a column with 0 values"),
        ("01 02", 1, "a column with 2 values, not 1 to 1"),
        ("01 ffffffffffff", 1, "a number that does not end"),
        ("01 01 00", 2, "whose messages are not in order"),
        ("01 01 01 02", 2, "whose messages are not in order"),
        ("01 02 01 0100", 3, "whose messages are not in order"),
        ("01 02 01 0101", 3, "whose messages are not in order"),
        ("01 02 01 01 0001 00 00 00", 2, "a value that is not there"),
        ("01 01 01 00 05 61", 1, "ends in its columns"),
        ("02 01 00 01 01 00 00 00", 1, "twice, or without a name"),
        ("02 01 01 ff 01 01 00 00 00", 1, "name is not text"),
        ("02 02 01 61 01 01 00 00 01 61 01 01 00 00 00", 1, "twice, or without a name"),
        ("02 01 8002 " + "61" * 256, 1, "name of a property with 256 bytes"),
    ],
)
def test_what_is_wrong_is_said(body: str, count: int, problem: str) -> None:
    with pytest.raises(CorruptBatch, match=problem):
        Body(bytes.fromhex(body), 0, count)


def test_no_bytes_do_harm() -> None:
    """By seed: damaged bodies are refused, or read as some messages of the number that is said."""
    chooser = random.Random(1)
    bodies = [bytes.fromhex(body) for _, body in [*GOLDEN, *GOLDEN_TIMES]]
    refused = 0
    for _ in range(20_000):
        body = bytearray(chooser.choice(bodies))
        for _ in range(chooser.randint(1, 4)):
            body[chooser.randrange(len(body))] = chooser.choice(
                [0, 1, 2, 4, 8, 16, chooser.randrange(256)]
            )
        del body[chooser.randrange(len(body) + 1) or len(body) :]
        count = chooser.randint(1, 5)
        try:
            assert len(read(bytes(body), count)) == count
        except CorruptBatch:
            refused += 1
    assert 1_000 < refused < 20_000


@given(st.binary(max_size=60), st.integers(1, 5))
def test_any_bytes_are_messages_or_corrupt(body: bytes, count: int) -> None:
    try:
        messages = read(body, count)
    except CorruptBatch:
        return
    assert len(messages) == count


def test_a_body_may_be_anywhere_and_its_payload_elsewhere() -> None:
    own = Attributes(b"key", {"name": b"value"})
    whole = pack([b"payload"], [own])
    assert Body(b"before" + whole, 6, 1).read_payloads() == [b"payload"]
    before = b"".join(before_payloads([7], [own]))
    columns = Body(before, 0, 1, len(whole))
    assert columns.read_attributes() == [own]
    assert (columns.payloads.at, columns.payloads.end) == (len(before), len(whole))


def test_what_attributes_count() -> None:
    assert NO_ATTRIBUTES.size == 0
    own = Attributes(b"key", {"ü": b"value"})
    assert own.size == 3 + 2 + 5 + 2 * ATTRIBUTE_BYTES_MORE
    assert own._replace(deleted=True, expires_ns=NOW).size == own.size + 8 + ATTRIBUTE_BYTES_MORE


def test_small_bodies_do_not_become_large() -> None:
    """Columns cannot stand for more bytes than a batch may count."""
    key = bytes(100_000)
    shared = b"".join((b"\1", b"\x80\x20", b"\1", b"\1", bytes(4096), b"\0", b"\xa0\x8d\x06", key))
    with pytest.raises(CorruptBatch, match="more bytes than a batch may have"):
        Body(shared + b"\0", 0, 4096)
    columns = b"\x80\x20" + b"\x80\x20" + b"\0\0"
    many = b"\2\x88\x27" + b"".join(b"\4" + b"%04d" % number + columns for number in range(5000))
    with pytest.raises(CorruptBatch, match="more bytes than a batch may have"):
        Body(many + b"\0", 0, 4096)
    assert len(many) < 60_000


def test_as_many_names_as_messages_are_packed_in_one_pass() -> None:
    """A mapping is asked for its items once, whatever names others have."""

    class Counted(dict[str, bytes]):
        asked = 0

        def items(self) -> Any:
            Counted.asked += 1
            return super().items()

        def get(self, *_: Any) -> Any:
            raise AssertionError("each name is looked for in each message")

    own = [Attributes(None, Counted({f"{number}": b""})) for number in range(1000)]
    pack([b""] * 1000, own)
    assert Counted.asked == 1000


def test_an_empty_key_is_a_key() -> None:
    assert has_any([NO_ATTRIBUTES, Attributes(b"")])
    assert not has_any([NO_ATTRIBUTES, Attributes(None, {})])
    assert has_any([Attributes(deleted=True)])
    assert has_any([Attributes(expires_ns=0)])
    assert read(pack([b"x"], [Attributes(b"")]), 1) == [(b"x", Attributes(b""))]
