"""The keys of messages: equal keys are equal bytes, and a message without a key makes no row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.attributes import Attributes
from quorate.protocol.columns import Body, pack
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.framing import body_of, encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import KEY_BYTES_MAX, Keying, KeyValue, Missing

SOURCE = SourceName("orders", 1)
SCALARS = st.text(max_size=5) | st.integers(-9, 9) | st.booleans() | st.floats()


def keys_of(keying: Keying, *messages: tuple[bytes, bytes | None]) -> list[bytes | None]:
    payloads = [payload for payload, _ in messages]
    attributes = [Attributes(key, {"region": b"eu"}) for _, key in messages]
    frame = encode_batch(SOURCE, 1, 5, payloads, 0, attributes=attributes)
    header = read_header(frame)
    body = body_of(frame, header)
    return keying.keys_of(header, body.read_payloads(), body, 5, header.last)


def test_the_key_of_the_message() -> None:
    keying = Keying(["$key"], Missing.DROP)
    found = keys_of(keying, (b"x", b"a"), (b"x", b"\xff"), (b"x", None), (b"x", b""))
    assert found == [b"ka", b"k\xff", None, b"k"]
    assert keying.of(b"\xff") == b"k\xff"
    assert keying.of(["a"]) == b"ka"


def test_a_missing_key_may_be_null() -> None:
    keying = Keying(["$key"], Missing.NULL)
    found = keys_of(keying, (b"x", None), (b"x", b"[null]"), (b"x", b""))
    assert len(set(found)) == 3
    assert None not in found
    assert keying.of([None]) == found[0]


def test_fields_of_the_payload() -> None:
    keying = Keying(["order.id", "$properties.region"], Missing.DROP)
    found = keys_of(
        keying,
        (b'{"order": {"id": 7}}', None),
        (b'{"order": {"id": 7.0}, "more": 1}', None),
        (b'{"order": {"id": "7"}}', None),
        (b'{"order": {"id": [7]}}', None),
        (b'{"order": {"id": null}}', None),
        (b'{"order": {"id": NaN}}', None),
        (b"no JSON", None),
        (b"[" * 100_000, None),
    )
    assert found[0] == found[1] == keying.of([7, "eu"]) == b'j[7,"eu"]'
    assert found[2] == keying.of(["7", "eu"])
    assert found[3:] == [None] * 5


@pytest.mark.parametrize("key", [b"k" * KEY_BYTES_MAX, b"k" * (KEY_BYTES_MAX + 1)])
def test_a_key_that_is_too_long(key: bytes) -> None:
    fits = len(key) <= KEY_BYTES_MAX
    raw, fields = Keying(["$key"], Missing.DROP), Keying(["id"], Missing.NULL)
    assert (keys_of(raw, (b"", key)) != [None]) == fits
    payload = json.dumps({"id": key[4:].decode()}).encode()
    assert (keys_of(fields, (payload, None)) != [None]) == fits
    if not fits:
        with pytest.raises(InvalidArgument, match="more than 65,536 bytes"):
            raw.of(key)


def test_what_is_asked_for_has_the_fields_of_the_keys() -> None:
    fields = Keying(["a", "b"], Missing.DROP)
    with pytest.raises(InvalidArgument, match=r"has 1 value, .* has 2: a, b; give them together"):
        fields.of(["a"])
    with pytest.raises(InvalidArgument, match="is bytes"):
        fields.of(b"a")


@given(st.lists(st.tuples(SCALARS | st.none(), SCALARS), min_size=1, max_size=5))
def test_keys_are_equal_if_their_values_are(rows: list[tuple[Any, Any]]) -> None:
    keying = Keying(["a", "b"], Missing.NULL)
    payloads = [json.dumps(dict(zip("ab", values, strict=True))).encode() for values in rows]
    found = keys_of(keying, *((payload, None) for payload in payloads))

    def kind(value: KeyValue) -> object:
        number = type(value) in (int, float)
        if value is None or (number and value != value) or value in (float("inf"), float("-inf")):
            return None  # JSON has no other word for these.
        return (float if number else type(value), value)

    alike = [tuple(map(kind, values)) for values in rows]
    for one, key in zip(alike, found, strict=True):
        for other, other_key in zip(alike, found, strict=True):
            assert (key == other_key) == (one == other)
    assert [keying.of(values) for values in rows] == found


def test_rows_expire_after_the_time_of_their_message() -> None:
    keying = Keying(["$key"], Missing.DROP, 1.5)
    messages = [
        Attributes(b"a"),
        Attributes(b"a", {}, expires_ns=7),
        Attributes(b"a", {}, deleted=True),
        Attributes(b"a"),
    ]
    body = Body(pack([b""] * len(messages), messages), 0, len(messages))
    times = [10, 10, 10, 2**63 - 2]
    assert keying.expiries_of(body, times) == [1_500_000_010, 7, None, 2**63 - 1]
    assert Keying(["$key"], Missing.DROP).expiries_of(body, times) == [None, 7, None, None]
    assert keying.text != Keying(["$key"], Missing.DROP).text, "they are other rows"
