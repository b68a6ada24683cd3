"""Attributes are checked; the same are the same bytes, and come back as they were."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    checked_attributes,
    decode_attributes,
    encode_attributes,
    of_keys,
    sizes_of,
)
from quorate.protocol.errors import CorruptBatch, InvalidArgument
from quorate.protocol.times import TIME_NS_MAX
from quorate.v1 import messages_pb2 as v1

KEYS = st.none() | st.binary(max_size=300)
EXPIRIES = st.none() | st.integers(-TIME_NS_MAX, TIME_NS_MAX)
PROPERTIES = st.dictionaries(st.text(min_size=1, max_size=30), st.binary(max_size=300), max_size=8)


@given(KEYS, PROPERTIES, st.booleans(), EXPIRIES)
def test_round_trip(
    key: bytes | None, properties: dict[str, bytes], deleted: bool, expires_ns: int | None
) -> None:
    attributes = checked_attributes(key, properties, deleted, expires_ns)
    assert decode_attributes(encode_attributes(attributes)) == attributes
    assert attributes == (key, properties, deleted, expires_ns)


WITH_KEYS = KEYS.map(Attributes)
ANY = st.builds(Attributes, KEYS, PROPERTIES, st.booleans(), EXPIRIES)


@given(st.lists(WITH_KEYS) | st.lists(ANY))
def test_the_sizes_of_many_are_those_of_each(attributes: list[Attributes]) -> None:
    assert sizes_of(attributes) == [own.size for own in attributes]


@given(st.lists(st.binary(max_size=300)))
def test_attributes_of_keys_alone(keys: list[bytes]) -> None:
    made = of_keys(keys)
    assert made == [checked_attributes(key) for key in keys]
    assert all(type(own) is Attributes for own in made)


@given(KEYS, PROPERTIES, st.booleans(), EXPIRIES)
def test_the_bytes_are_what_protobuf_writes_property_by_property(
    key: bytes | None, properties: dict[str, bytes], deleted: bool, expires_ns: int | None
) -> None:
    expected = v1.Attributes(key=key).SerializeToString()
    for name in sorted(properties, key=str.encode):
        expected += v1.Attributes(properties={name: properties[name]}).SerializeToString()
    expected += v1.Attributes(deleted=deleted, expires_ns=expires_ns).SerializeToString()
    assert encode_attributes(Attributes(key, properties, deleted, expires_ns)) == expected


@given(PROPERTIES, st.randoms(use_true_random=False))
def test_the_order_in_which_properties_are_given_is_of_no_account(
    properties: dict[str, bytes], random: Random
) -> None:
    items = list(properties.items())
    random.shuffle(items)
    shuffled, given = checked_attributes(b"k", dict(items)), checked_attributes(b"k", properties)
    assert shuffled == given
    assert encode_attributes(shuffled) == encode_attributes(given)


def test_no_key_is_not_an_empty_key() -> None:
    assert checked_attributes() == checked_attributes(None, {}) == NO_ATTRIBUTES
    assert encode_attributes(NO_ATTRIBUTES) == b""
    assert decode_attributes(b"") == NO_ATTRIBUTES
    assert checked_attributes(b"") == decode_attributes(encode_attributes(Attributes(b"")))
    assert checked_attributes(b"") != NO_ATTRIBUTES


def test_the_longest_name() -> None:
    properties = {"ü" * 127 + "n": b"value"}
    attributes = checked_attributes(None, properties)
    assert decode_attributes(encode_attributes(attributes)).properties == properties


def test_what_is_like_bytes_is_copied() -> None:
    buffer = bytearray(b"before")
    properties = {"name": buffer}
    attributes = checked_attributes(memoryview(buffer), properties)  # type: ignore[arg-type]
    buffer[:] = b"after!"
    properties["other"] = buffer
    assert attributes == Attributes(b"before", {"name": b"before"})


@pytest.mark.parametrize("expires_ns", [TIME_NS_MAX + 1, -TIME_NS_MAX - 1])
def test_an_expiry_that_64_bits_do_not_hold_is_refused(expires_ns: int) -> None:
    with pytest.raises(InvalidArgument, match=r"expires: .* is not before the year 2262"):
        checked_attributes(expires_ns=expires_ns)


@pytest.mark.parametrize(
    ("key", "properties", "said"),
    [
        ("text", None, "key: is str, not bytes; encode it first"),
        (5, None, "key: is int, not bytes"),
        (None, {"name": "text"}, "property name: is str, not bytes; encode it first"),
        (None, {5: b""}, "properties: 5 is not a name"),
        (None, {"n" * 256: b""}, "has 256 bytes, more than 255; put what is long into the value"),
        (None, {"a": b"", 5: b""}, "properties: 5 is not a name"),
        (None, {"": b""}, "properties: '' is not a name"),
        (None, {"\ud800": b""}, "is not valid Unicode"),
        (None, [("name", b"")], "properties: is list, not a mapping"),
    ],
)
def test_what_can_not_be_an_attribute_is_refused(
    key: object, properties: object, said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        checked_attributes(key, properties)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoded", [b"\xff", b"\x0a\x05ab", b"\x12\x01a"])
def test_what_never_was_attributes(encoded: bytes) -> None:
    with pytest.raises(CorruptBatch, match="unreadable attributes"):
        decode_attributes(encoded)
