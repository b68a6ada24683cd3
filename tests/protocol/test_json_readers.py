"""Payloads in JSON have the documents that Python's own parser gives them, whichever reads them."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.payloads import UNDECODABLE, PayloadFormat, document_of, reader_of

REFUSED = "refused"
NAMES = ("a", "b", "", "a.b", "$key", "\u00e9", "x\x00y", "\ud800", 'a"b')
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner),
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES) | st.text(), VALUES)
TEXTS = st.builds(
    lambda value, indent, ascii: json.dumps(value, indent=indent, ensure_ascii=ascii).encode(
        errors="surrogatepass"
    ),
    OBJECTS | VALUES,
    st.sampled_from([None, None, 1]),
    st.booleans(),
)
ODD_VALUES = [
    b"-0", b"-0.0", b"0e5", b"01", b"-01", b"1.", b".5", b"+1", b"-", b"1e", b"1e+", b"1e400",
    b"-1e400", b"1e-400", b"NaN", b"nan", b"-Infinity", b"Infinity", b"0x1", b"1_0",
    b"18446744073709551615", b"18446744073709551616", b"-9223372036854775809", b"9" * 60,
    b"9" * 4300, b"9" * 4301, b"-" + b"9" * 4301, b"0." + b"3" * 5000, b"9" * 5000 + b".5",
    b"9" * 5000 + b"e1", b"2.4703282292062328e-324", b"2.2250738585072011e-308",
    b"1.7976931348623159e308", b"123456789012345678901234567890.5", b"[1,]", b"[1 2]", b"[,1]",
    b'{"c":1,}', b'{"c" 1}', b'{"c":}', b"{1:2}", b"{c:1}", b'{"a":1,"a":2}', b"tru", b"truex",
    b"nul", b"True", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\ud800\\u0041"',
    b'"\\x"', b'"\\u12g4"', b'"\\u 123"', b'"\\u00"', b'"\\/\\b\\f"', b'"\x00"', b'"\x1f"',
    b'"\x7f"', b'"\n"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"',
    b'"\xe9"', "\u00e9".encode(), '"\u00e9"'.encode(), b'"', b"'a'", b"", b"/**/1", b"1//",
    b"[" * 300 + b"]" * 300, b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000,
]  # fmt: skip
AROUND = [
    b"%s",
    b'{"a":%s}',
    b'{"z":%s}',
    b'{"z":%s,"a":1}',
    b'{"a":1,"z":{"a":[%s]}}',
    b'[%s,{"a":1}]',
]
ODD = [
    *(around % value for around in AROUND for value in ODD_VALUES),
    *(around % b'{"a":1}' for around in (
        b"\xef\xbb\xbf%s", b" %s ", b"\t\r\n%s\n", b"\x0c%s", b"%s\x0b", b"%s\x00", b"%sx",
        b"%s%s" % (b"%s", b'{"a":2}'), b"\xc2\xa0%s",
    )),
    b'{"z\xff":1,"a":1}', b'{"\\u0061":1}', b'{"a":1,"\\u0061":2}', b'{"\\x":1,"a":1}',
    b'{"\\ud800":1,"a":1}', b'{"z\x01":1,"a":1}', b'{"a":1', b'{"a"', b"{", b"[", b"]", b"}",
    b'{"a":1}}', b'{"a":null}', b"{}", b"null", b"[]",
    *('{"a":"x"}'.encode(code) for code in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be",
                                            "utf-32", "utf-32-le", "utf-32-be")),
    b'{"a":1,"z":"' + b"7" * 5000 + b'"}', b'{"a":1,"z":[' + b"7," * 5000 + b"7]}",
]  # fmt: skip
MEMBERS = st.sets(st.sampled_from(NAMES), min_size=1)


def by_python(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except UNDECODABLE:
        return REFUSED


def kept(document: Any, members: set[str]) -> str:
    """The document as a filter sees it that asks for these members."""
    if type(document) is dict:
        return repr({name: document[name] for name in sorted(document) if name in members})
    return repr(document)


def check(payload: bytes, members: set[str]) -> None:
    expected = by_python(payload)
    whole = document_of(payload)
    assert repr(whole) == repr(None if expected == REFUSED else expected)
    reader = reader_of(PayloadFormat.JSON, frozenset(members))
    try:
        found = reader.one(payload)
    except UNDECODABLE:
        found = REFUSED
    assert kept(found, members) == kept(expected, members), payload
    (of_many, other), undecoded = reader.all([payload, b'{"a":1}'])
    assert undecoded == (expected == REFUSED)
    assert kept(of_many, members) == kept(None if undecoded else expected, members)
    assert kept(other, members) == kept({"a": 1}, members)


@pytest.mark.parametrize("payload", ODD, ids=range(len(ODD)))
def test_what_is_odd(payload: bytes) -> None:
    for members in ({"a"}, {"z"}, {"a", "z", "\u00e9"}, {"\ud800"}):
        check(payload, members)


@given(TEXTS, MEMBERS)
def test_any_document(payload: bytes, members: set[str]) -> None:
    check(payload, members)


@given(st.binary() | st.text().map(str.encode), MEMBERS)
def test_any_bytes(payload: bytes, members: set[str]) -> None:
    check(payload, members)


def changed(chooser: random.Random) -> Iterator[bytes]:
    """Yield payloads that are JSON but for a few bytes, and such as are JSON still."""
    payload = chooser.choice([each for each in ODD if len(each) < 6000])
    while True:
        yield payload
        at, length = chooser.randrange(len(payload) + 1), chooser.choice((0, 0, 1, 2))
        other = chooser.choice([each for each in ODD_VALUES if len(each) < 70])
        piece = chooser.choice((other, bytes([chooser.randrange(256)]), chooser.choice(_PIECES)))
        payload = payload[:at] + piece + payload[at + length :]
        if len(payload) > 6000 or chooser.random() < 0.2:
            payload = chooser.choice([each for each in ODD if len(each) < 6000])


_PIECES = (
    b'"',
    b"\\",
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b" ",
    b"\n",
    b'"a":',
    b',"a":7',
    b"\xc3\xa9",
)


def check_changed(seed: int, count: int) -> None:
    chooser = random.Random(seed)
    for _, payload in zip(range(count), changed(chooser), strict=False):
        check(payload, set(chooser.sample(["a", "z", "\u00e9", ""], chooser.randint(1, 3))))


@pytest.mark.parametrize("seed", range(4))
def test_payloads_with_changed_bytes(seed: int) -> None:
    check_changed(seed, 500)


@pytest.mark.big
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_payloads_with_changed_bytes(seed: int) -> None:
    check_changed(seed, 20_000)


def test_without_a_bound_of_digits() -> None:
    before = sys.get_int_max_str_digits()
    try:
        for bound in (0, 640):
            sys.set_int_max_str_digits(bound)
            for digits in (640, 641, 5000):
                check(b'{"a":1,"z":' + b"9" * digits + b"}", {"a"})
                check(b'{"z":1,"a":' + b"9" * digits + b"}", {"a"})
    finally:
        sys.set_int_max_str_digits(before)


def test_the_parser_of_some_members_is_made_once() -> None:
    asked = frozenset({"a"})
    assert reader_of(PayloadFormat.JSON, asked) is reader_of(PayloadFormat.JSON, frozenset({"a"}))
