"""The rows of an archive that Arrow picks for a filter: every one that passes is among them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.filters.messages import Seen, passes
from tests.protocol.test_json_readers import ODD

from quorate.archive.wanted import RowTest
from quorate.archive.wanted import tests_of as row_tests_of
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import texts_of
from quorate.protocol.filters.parse import parse
from quorate.protocol.payloads import PayloadFormat, document_of

PROPERTIES = pa.map_(pa.string(), pa.binary())
Row = tuple[bytes | None, dict[str, bytes] | None, int]
KEYS = st.sampled_from([None, b"", b"a", b"b", b"ab", b"\xff", "ä".encode(), "\U0001f600".encode()])
ROWS = st.lists(
    st.tuples(
        KEYS,
        st.none() | st.dictionaries(st.sampled_from("pq"), st.sampled_from([b"a", b"b", b"\xff"])),
        st.sampled_from([0, 1, 10**9, 2 * 10**9 + 1, 1_700_000_000_123_456_789]),
    ),
    max_size=12,
)
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
TEXTS = st.sampled_from(["'a'", "'b'", "''", "'ä'", "1", "NULL"])
NUMBERS = st.sampled_from(["0", "1", "1.5", "2.000000001", "1700000000.1234567", "'a'", "1e300"])
FIELDS = st.sampled_from(["$key", "$properties.p", "$properties.q"])
COMPARISONS = (
    st.builds("{} {} {}".format, FIELDS, OPERATORS, TEXTS)
    | st.builds("{} {} {}".format, TEXTS, OPERATORS, FIELDS)
    | st.builds("$time {} {}".format, OPERATORS, NUMBERS)
    | st.builds("{} IN ({}, {})".format, FIELDS, TEXTS, TEXTS)
    | st.builds("{} BETWEEN {} AND {}".format, FIELDS, TEXTS, TEXTS)
    | st.builds("$time BETWEEN {} AND {}".format, NUMBERS, NUMBERS)
    | st.sampled_from(["price > 1", "$key IS NULL", "$key LIKE 'a%'", "$sequence > 3"])
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: (
        st.builds("({} AND {})".format, inner, inner)
        | st.builds("({} OR {})".format, inner, inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=6,
)


def table(rows: list[Row]) -> pa.Table:
    keys, properties, times = zip(*rows, strict=True) if rows else ((), (), ())
    given = [None if each is None else list(each.items()) for each in properties]
    return pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "properties": pa.array(given, PROPERTIES),
            "timestamp_ns": pa.array(times, pa.int64()),
        }
    )


def seen(row: Row) -> Seen:
    key, properties, time_ns = row
    given = properties or {}
    return Seen(
        {"price": 2},
        key=texts_of([key])[0],
        named={name: text for name in given if (text := texts_of([given[name]])[0]) is not None},
        time=time_ns / 1e9,
    )


def by_columns(text: str) -> RowTest | None:
    """The test that looks at no payload."""
    tests = row_tests_of(parse(text), PayloadFormat.MSGPACK)
    return tests[0] if tests else None


@given(FILTERS, ROWS)
def test_each_row_that_passes_is_picked(text: str, rows: list[Row]) -> None:
    test, where = by_columns(text), Filter(text)
    if test is None:
        return
    holds = test.holds(table(rows).select(sorted(test.columns))).to_pylist()
    for row, picked in zip(rows, holds, strict=True):
        assert picked or not passes(where, seen(row)), row


@pytest.mark.parametrize(
    ("text", "picked"),
    [
        ("$key = 'a'", [0]),
        ("$key >= 'a' AND $time < 1", [0]),
        ("$key IN ('a', 'c') OR $properties.p = 'x'", [0, 1, 2]),
        ("$properties.p <> 'x'", [3]),
        ("'x' = $properties.p AND price > 5", [1]),
        ("$time BETWEEN 1 AND 2", [1, 2]),
        ("$key < 'b' AND $sequence > 7", [0]),
    ],
)
def test_arrow_leaves_out_what_it_can(text: str, picked: list[int]) -> None:
    rows: list[Row] = [
        (b"a", None, 0),
        (b"b", {"p": b"x"}, 10**9),
        (b"c", {"q": b"x"}, 2 * 10**9),
        (None, {"q": b"", "p": b"y"}, 3 * 10**9),
    ]
    test = by_columns(text)
    assert test is not None
    holds: list[Any] = test.holds(table(rows)).to_pylist()
    assert [number for number, each in enumerate(holds) if each] == picked


@pytest.mark.parametrize(
    "text",
    ["price > 1", "$key = 'a' OR price > 1", "NOT $key = 'a'", "$key = name", "$sequence = 5"],
)
def test_a_filter_of_which_it_knows_nothing(text: str) -> None:
    assert by_columns(text) is None


PAYLOAD_NAMES = ("a", "b", "a b", "", "\u00e9")
PAYLOAD_TEXTS = ("", "x", "xy", "a\u00e9", "\U0001f600", "x/y", 'x"y', "true", "5")
WHOLE = [0, 1, 4, 5, 6, 9, 10, 99, 100, 101, 999, 1000, 1001, 1999, 2**31, 2**32, 2**53 + 1, 10**25]
NUMBER_TEXTS = [
    *(f"{sign}{number}{end}" for number in WHOLE for sign in ("", "-") for end in ("", ".0", ".5")),
    *("4.99999999999999999999", "999.9999999999999999", "5.00000000000000000001", "-0", "-0.0"),
    *("0.1", "-0.1", "1e3", "1E3", "10e-1", "1.5e+3", "-2e3", "1e400", "-1e400", "1e-400", "0e9"),
    *("NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1"),
]
SPACE = st.sampled_from(["", "", " ", "\t\r\n "])


def json_text(text: str, escaped: int) -> str:
    """Write a text as JSON. escaped: the place of a character that has an escape it needs not."""
    written = [json.dumps(each, ensure_ascii=False)[1:-1] for each in text]
    if escaped < len(text) and ord(text[escaped]) < 0x10000:
        written[escaped] = f"\\u{ord(text[escaped]):04x}"
    return '"' + "".join(written).replace("/", "\\/" if escaped % 2 else "/") + '"'


STRINGS = st.builds(json_text, st.sampled_from(PAYLOAD_TEXTS), st.integers(0, 9))
MEMBER_NAMES = st.builds(json_text, st.sampled_from(PAYLOAD_NAMES), st.integers(0, 9))


def members(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.builds("{0}{1}{0}:{2}{3}{0}".format, SPACE, MEMBER_NAMES, SPACE, values)
    return st.lists(member, max_size=4).map(lambda all_of_them: "{" + ",".join(all_of_them) + "}")


VALUES = st.recursive(
    st.sampled_from(NUMBER_TEXTS) | STRINGS | st.sampled_from(["true", "false", "null"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: "[" + " , ".join(values) + "]")
        | members(inner)
    ),
    max_leaves=6,
)


PAYLOADS = st.builds(
    str.encode,
    members(VALUES) | members(VALUES) | VALUES,
    st.sampled_from(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"]),
) | st.sampled_from([b"", b"{", b'{"a":5', b'{"a":5}}', b'"a":5', b'{"a":5,"\xff":1}'])
FIELD_NAMES = st.sampled_from(["a", "b", '"a b"', '"\u00e9"', "a.b", "a[0]", "a[0].b", "a.b[1]"])
NUMBERS_GIVEN = st.sampled_from(
    [*(str(each) for each in WHOLE), "0.5", "4.5", "100.5", "-1", "-5", "-5.5", "-1000", "1e300"]
)
LITERALS = (
    NUMBERS_GIVEN
    | st.sampled_from(["TRUE", "FALSE", "NULL"])
    | st.sampled_from(PAYLOAD_TEXTS).map("'{}'".format)
)
ABOUT_FIELDS = (
    st.builds("{} {} {}".format, FIELD_NAMES, OPERATORS, LITERALS)
    | st.builds("{} {} {}".format, FIELD_NAMES, OPERATORS, NUMBERS_GIVEN)
    | st.builds("{} {} {}".format, LITERALS, OPERATORS, FIELD_NAMES)
    | st.builds("{} IN ({}, {})".format, FIELD_NAMES, LITERALS, LITERALS)
    | st.builds("{} BETWEEN {} AND {}".format, FIELD_NAMES, LITERALS, LITERALS)
    | FIELD_NAMES
    | st.builds("NOT {}".format, FIELD_NAMES)
    | st.sampled_from(["$key = 'a'", "$time < 1", "a IS NULL", "a + 1 > 5", "a LIKE 'x%'"])
)
ABOUT_PAYLOADS = st.recursive(
    ABOUT_FIELDS,
    lambda inner: (
        st.builds("({} AND {})".format, inner, inner)
        | st.builds("({} OR {})".format, inner, inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=4,
)
WITH_PAYLOADS = st.lists(st.tuples(KEYS, st.sampled_from([0, 10**9]), PAYLOADS), max_size=8)


def with_payloads(rows: list[tuple[bytes | None, int, bytes]]) -> pa.Table:
    plain = table([(key, None, time_ns) for key, time_ns, _ in rows])
    return plain.append_column("payload", pa.array([row[2] for row in rows], pa.binary()))


def picked_places(text: str, rows: pa.Table) -> list[int]:
    """The places of the rows that all tests leave, as a reader of files takes one after another."""
    rows = rows.append_column("place", pa.array(range(len(rows)), pa.int64()))
    for test in row_tests_of(parse(text), PayloadFormat.JSON):
        rows = rows.filter(test.holds(rows.select(sorted(test.columns))))
    places: list[int] = rows.column("place").to_pylist()
    return places


@settings(max_examples=200)
@given(ABOUT_PAYLOADS, WITH_PAYLOADS)
def test_each_payload_that_passes_is_picked(
    text: str, rows: list[tuple[bytes | None, int, bytes]]
) -> None:
    where = Filter(text)
    passing = [
        place
        for place, (key, time_ns, payload) in enumerate(rows)
        if passes(where, Seen(document_of(payload), key=texts_of([key])[0], time=time_ns / 1e9))
    ]
    assert set(passing) <= set(picked_places(text, with_payloads(rows)))


@pytest.mark.parametrize("payload", ODD, ids=range(len(ODD)))
def test_each_odd_payload_that_passes_is_picked(payload: bytes) -> None:
    for text in (
        "a >= 1",
        "a < 1",
        "a = 1",
        "z = 'x'",
        "a = 'x'",
        "a",
        "z.a = 1",
        "a < -1",
        "z > 9",
    ):
        if passes(Filter(text), Seen(document_of(payload))):
            assert picked_places(text, with_payloads([(None, 0, payload)])) == [0], text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("price >= 1000", [2, 3, 4, 5]),
        ("price < 999", [0, 1, 4, 5]),
        ("price = 1000", [2, 4, 5]),
        ("price = 999", [1, 4, 5]),
        ("price > 1500", [3, 4, 5]),
        ("price BETWEEN 999 AND 1500", [1, 2, 4, 5]),
        ("symbol = 'IBM'", [0, 5]),
        ("symbol IN ('MSFT', 'IBM') AND price <= 998", [0, 5]),
        ("cancelled", [1, 5]),
        ("NOT cancelled", [2, 5]),
        ("$key = 'b' AND price >= 1000", [2]),
        ("$key = 'a' AND price >= 1000 OR cancelled", [1, 3, 4, 5]),
        ("price IS NULL OR price > 5", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_payloads_are_left_out_that_lack_the_bytes(text: str, left: list[int]) -> None:
    payloads = [
        b'{"symbol": "IBM", "price": 998.5, "note": "5000"}',
        b'{"symbol":"MSFT","price":999,"cancelled":true}',
        b'{"price": 1000, "cancelled": false, "symbol": "IBMX"}',
        b'{"legs": [{"price": 10000}], "old": "IBM"}',
        b'{"price": [1]}',
        b'{"\\u0070rice": 1}',
    ]
    keys = [b"a", b"a", b"b", b"a", b"a", b"a"]
    rows = with_payloads([(key, 0, each) for key, each in zip(keys, payloads, strict=True)])
    assert picked_places(text, rows) == left
    # The rows of a run are a part of the columns of its row group.
    upper = pa.concat_tables([rows, rows]).combine_chunks().slice(len(rows))
    assert picked_places(text, upper) == left


def test_payloads_that_are_no_json_are_not_looked_at() -> None:
    assert row_tests_of(parse("price >= 1000"), PayloadFormat.MSGPACK) == ()
    assert len(row_tests_of(parse("$key = 'a' AND price >= 1000"), PayloadFormat.JSON)) == 2


def test_the_names_that_no_payload_writes_plainly() -> None:
    for name in ('"\u00e9"', '"x/y"', '"x\\y"'):
        assert row_tests_of(parse(f"{name} = 5"), PayloadFormat.JSON) == ()
