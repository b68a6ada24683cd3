"""The columns of a body: the same messages come back, and no bytes do harm."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, has_any
from quorate.protocol.columns import Body, before_payloads, pack
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.limits import ATTRIBUTE_BYTES_MORE

PAYLOADS = st.one_of(st.binary(max_size=300), st.just(b""), st.just(b"equal"))
KEYS = st.one_of(st.none(), st.sampled_from([b"", b"one", b"two"]), st.binary(max_size=20))
NAMES = st.one_of(st.sampled_from(["a", "price", "ü" * 127]), st.text(min_size=1, max_size=4))
ATTRIBUTES = st.builds(Attributes, KEYS, st.dictionaries(NAMES, st.binary(max_size=9), max_size=4))
MESSAGES = st.lists(st.tuples(PAYLOADS, ATTRIBUTES), min_size=1, max_size=30)

Message = tuple[bytes, Attributes]


def packed(messages: list[Message]) -> bytes:
    return pack([payload for payload, _ in messages], [own for _, own in messages])


def read(body: bytes, count: int) -> list[Message]:
    columns = Body(body, 0, count)
    attributes = columns.read_attributes() or [NO_ATTRIBUTES] * count
    return list(zip(columns.read_payloads(), attributes, strict=True))


@given(MESSAGES)
def test_round_trip(messages: list[Message]) -> None:
    assert read(packed(messages), len(messages)) == messages


@given(MESSAGES)
def test_equal_messages_are_equal_bytes(messages: list[Message]) -> None:
    """The order in which properties are given is of no account."""
    again = [
        (bytes(payload), Attributes(key, dict(reversed(list(properties.items())))))
        for payload, (key, properties) in messages
    ]
    assert packed(again) == packed(messages)
    alone = [payload for payload, _ in messages]
    assert pack(alone) == pack(alone, [NO_ATTRIBUTES] * len(alone))


@given(MESSAGES)
def test_attributes_take_no_more_than_they_count(messages: list[Message]) -> None:
    counted = sum(len(payload) + 4 + own.size for payload, own in messages)
    assert len(packed(messages)) <= counted + 2


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
]


@pytest.mark.parametrize(("messages", "body"), GOLDEN)
def test_the_layout_is_part_of_the_format(messages: list[Message], body: str) -> None:
    assert packed(messages).hex() == body.replace(" ", "")
    assert read(bytes.fromhex(body), len(messages)) == messages


@pytest.mark.parametrize(
    ("body", "count", "problem"),
    [
        ("", 1, "ends before its columns"),
        ("04 00", 1, "columns of an unknown kind: 0x4"),
        ("00", 1, "ends before its columns"),
        ("00 03 000000", 1, "numbers of 3 bytes"),
        ("00 01 02", 1, "payloads that do not end where it ends"),
        ("00 00 616263", 2, "payloads that do not end where it ends"),
        ("00 04 01", 1, "ends in its columns"),
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
    bodies = [bytes.fromhex(body) for _, body in GOLDEN]
    refused = 0
    for _ in range(20_000):
        body = bytearray(chooser.choice(bodies))
        for _ in range(chooser.randint(1, 4)):
            body[chooser.randrange(len(body))] = chooser.choice(
                [0, 1, 2, 4, chooser.randrange(256)]
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
    assert not has_any([NO_ATTRIBUTES, NO_ATTRIBUTES])
    assert read(pack([b"x"], [Attributes(b"")]), 1) == [(b"x", Attributes(b""))]
