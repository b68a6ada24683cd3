"""The formats of payloads: what becomes a document, what is refused, and within which bounds."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.filters.messages import Seen, passes, truth_of

from quorate.protocol.attributes import Attributes
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import passing
from quorate.protocol.filters.projection import Projection
from quorate.protocol.framing import body_of, encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import Keying, Missing, key_of_row
from quorate.protocol.payloads import DECODERS, UNDECODABLE, PayloadFormat, as_json, document_of

MSGPACK = PayloadFormat.MSGPACK
SOURCE = SourceName("orders", 1)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abc"), VALUES)
PATHS = st.sampled_from(["a", "b", "c.a", "a[0]", "a[1].b", "b[0]", "c"])


@given(VALUES)
def test_both_formats_give_the_same_document(value: Any) -> None:
    of_json = document_of(json.dumps(value).encode())
    assert repr(document_of(msgpack.packb(value), MSGPACK)) == repr(of_json)


@given(VALUES)
def test_a_payload_as_json_is_a_line_of_the_same_document(value: Any) -> None:
    for payload, form in (
        (json.dumps(value, indent=1).encode(), PayloadFormat.JSON),
        (msgpack.packb(value), MSGPACK),
    ):
        line = as_json(payload, form)
        assert b"\n" not in line
        if "Infinity" not in line.decode() and form is PayloadFormat.JSON:
            assert json.loads(line) == value


def test_values_that_json_has_not() -> None:
    payload = msgpack.packb(
        {
            "bytes": b"a\xff",
            "at": msgpack.Timestamp(5, 500_000_000),
            "other": msgpack.ExtType(3, b"x"),
            "nan": float("nan"),
            b"named": 1,
        }
    )
    document = document_of(payload, MSGPACK)
    assert document.pop("nan") != document.get("nan")
    assert document == {"bytes": b"a\xff", "at": 5.5, "other": None, b"named": 1}
    assert json.loads(as_json(payload, MSGPACK)) == {
        "bytes": "a\\xff", "at": 5.5, "other": None, "nan": None, "named": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("where", "truth"),
    [
        ("bytes = 'a'", None),
        ("bytes LIKE 'a'", None),
        ("bytes IS NULL", False),
        ("other IS NULL", True),
        ("at = 5.5", True),
        ("nan IS NAN", True),
        ("CONCAT(bytes, 'x') = 'x'", None),
        ("ARRAY_TO_STRING(list) = 'a,null,{}'", True),
    ],
)
def test_a_filter_meets_them_without_harm(where: str, truth: bool | None) -> None:
    payload = msgpack.packb(
        {
            "bytes": b"a",
            "at": msgpack.Timestamp(5, 500_000_000),
            "other": msgpack.ExtType(3, b"x"),
            "nan": float("nan"),
            "list": ["a", b"b", {b"c": 1}],
        }
    )
    assert truth_of(Filter(where), Seen(document_of(payload, MSGPACK))) is truth


def test_of_a_name_that_comes_twice_the_last_counts_in_both_formats() -> None:
    packed = b"\x82\xa1a\x01\xa1a\x02"
    assert document_of(packed, MSGPACK) == document_of(b'{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",  # no value begins with it
        b"\x81",  # a map without what it says it has
        b"\x81\x01\x02",  # a map with a number as a name
        b"\x81\x90\x02",  # a map with an array as a name
        b"\x01\x02",  # two values
        b"\xa1\xff",  # a text that is no UTF-8
        b"\xd6\xff\x00",  # half a timestamp
        b"\xd4\xff\x00",  # a timestamp of a length that there is not
        b"\x91" * 5_000 + b"\x01",
        b"\xdd\xff\xff\xff\xff" * 1_000,
        b"\xdf\xff\xff\xff\xff" * 1_000,
        b"\xc6\xff\xff\xff\xff",
    ],
)
def test_what_is_no_messagepack_is_refused(payload: bytes) -> None:
    with pytest.raises(UNDECODABLE):
        DECODERS[MSGPACK](payload)
    assert document_of(payload, MSGPACK) is None
    assert Projection("a").of(payload, MSGPACK) == payload


def test_a_short_payload_gets_no_room_for_parts_that_it_has_not() -> None:
    size = 100_000
    payload = (b"\xdd" + (size - 1).to_bytes(4, "big")) * 500 + bytes(size)
    tracemalloc.start()
    try:
        assert document_of(payload, MSGPACK) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * len(payload), "500 arrays of this length would take 400 MB"


@pytest.mark.parametrize("where", ["a = 1", "a > 1", "NOT a IN (1)", "ARRAY_TO_STRING(a) = 'x'"])
@pytest.mark.parametrize("form", PayloadFormat)
def test_a_document_that_is_nested_deep_does_not_pass(where: str, form: PayloadFormat) -> None:
    for depth in (400, 700, 900, 5_000):
        payload = {
            PayloadFormat.JSON: b'{"a": ' + b"[" * depth + b"]" * depth + b"}",
            MSGPACK: b"\x81\xa1a" + b"\x91" * depth + b"\xc0",
        }[form]
        document = document_of(payload, form)
        assert passes(Filter(where), Seen(document)) is False
        assert truth_of(Filter(where), Seen(document)) in (None, False)


def test_a_filter_counts_what_is_not_of_the_format() -> None:
    payloads = [msgpack.packb({"a": 1}), b'{"a": 1}', msgpack.packb({"a": 2}), b"\xc1"]
    frame = encode_batch(SOURCE, 1, 0, payloads, 0)
    header = read_header(frame)
    body = body_of(frame, header)
    packed, text = Filter("a >= 1"), Filter("a >= 1")
    assert passing(packed, header, payloads, body, 0, 3, MSGPACK) == [0, 2]
    assert packed.undecoded == 2
    assert passing(text, header, payloads, body, 0, 3) == [1]
    assert text.undecoded == 3


def test_fields_of_payloads_are_keys() -> None:
    keying = Keying(["order.id", "leg"], Missing.DROP, None, MSGPACK)
    payloads = [
        msgpack.packb({"order": {"id": 7}, "leg": "a"}),
        msgpack.packb({"order": {"id": 7.0}, "leg": "a", "more": 1}),
        msgpack.packb({"order": {"id": b"7"}, "leg": "a"}),
        msgpack.packb({"order": {"id": float("nan")}, "leg": "a"}),
        b'{"order": {"id": 7}, "leg": "a"}',
    ]
    frame = encode_batch(SOURCE, 1, 0, payloads, 0, attributes=[Attributes(b"k")] * 5)
    header = read_header(frame)
    keys = keying.keys_of(header, payloads, body_of(frame, header), 0, 4)
    assert keys[0] == keys[1]
    assert keys[0] is not None
    assert key_of_row(keys[0]) == (7, "a")
    assert keys[2:] == [None, None, None]


def test_the_format_makes_other_rows_only_if_a_field_of_payloads_is_a_key() -> None:
    def text(key: str, form: PayloadFormat) -> str:
        return Keying([key], Missing.DROP, None, form).text

    assert text("id", MSGPACK) != text("id", PayloadFormat.JSON)
    assert text("$key", MSGPACK) == text("$key", PayloadFormat.JSON)
    assert text("id", PayloadFormat.JSON) == '["id", "drop"]', "rows that stores have stay"


# -- select ------------------------------------------------------------------------------------


@given(DOCUMENTS, st.lists(PATHS, min_size=1, max_size=3), st.booleans())
def test_select_leaves_the_same_of_both_formats(
    document: dict[str, Any], paths: list[str], leaves_out: bool
) -> None:
    select = Projection([f"-{path}" if leaves_out else path for path in paths])
    left = select.of(msgpack.packb(document), MSGPACK)
    assert len(left) <= len(msgpack.packb(document))
    expected = document_of(select.of(json.dumps(document).encode()))
    assert repr(document_of(left, MSGPACK)) == repr(expected)


def test_what_is_left_has_the_bytes_that_it_had() -> None:
    # 1 as a number of 64 bits, 1.5 as one of 32, and a length that takes more bytes than it needs.
    one, half = b"\xcf" + (1).to_bytes(8, "big"), b"\xca\x3f\xc0\x00\x00"
    other = b"\xd4\x03x"
    payload = (
        b"\xdf\x00\x00\x00\x04" + b"\xa1a" + one + b"\xa1b" + half + b"\xa1c" + other + b"\xa1d\x00"
    )
    assert Projection("-d").of(payload, MSGPACK) == (
        b"\x83" + b"\xa1a" + one + b"\xa1b" + half + b"\xa1c" + other
    )
    assert Projection("c").of(payload, MSGPACK) == b"\x81\xa1c" + other
    assert Projection("x").of(payload, MSGPACK) == b"\x80"


@pytest.mark.parametrize("value", [[{"a": 1}], "a", 1, None])
def test_what_is_no_map_stays_as_it_is(value: Any) -> None:
    payload = msgpack.packb(value)
    assert Projection("a").of(payload, MSGPACK) == payload
