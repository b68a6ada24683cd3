"""The rows of an archive that Arrow picks for a filter: every one that passes is among them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.filters.messages import Seen, passes

from quorate.archive.wanted import test_of as row_test_of
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import texts_of
from quorate.protocol.filters.parse import parse

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


@given(FILTERS, ROWS)
def test_each_row_that_passes_is_picked(text: str, rows: list[Row]) -> None:
    test, where = row_test_of(parse(text)), Filter(text)
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
    test = row_test_of(parse(text))
    assert test is not None
    holds: list[Any] = test.holds(table(rows)).to_pylist()
    assert [number for number, each in enumerate(holds) if each] == picked


@pytest.mark.parametrize(
    "text",
    ["price > 1", "$key = 'a' OR price > 1", "NOT $key = 'a'", "$key = name", "$sequence = 5"],
)
def test_a_filter_of_which_it_knows_nothing(text: str) -> None:
    assert row_test_of(parse(text)) is None
