"""The meaning of filters, also over arrays, objects and odd values.

The rows of test_against_sqlite have none of these.
"""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.filters.messages import Seen, passes, truth_of
from tests.protocol.filters.random_filters import Writer

from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.values import TEXT_LENGTH_MAX, Truth

ORDER = {
    "symbol": "IBM",
    "price": 101.5,
    "cancelled": False,
    "tags": ["new", "big"],
    "legs": [{"id": 1, "side": "buy"}, {"id": 2}],
    "account": {"id": "x-7", "odd name": 1},
    "empty": [],
    "text": "",
    "null": None,
}


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("symbol IN ('IBM', 'MSFT') AND price > 100 AND NOT cancelled", True),
        # Fields by path.
        ("account.id = 'x-7'", True),
        ('account."odd name" = 1', True),
        ("legs[1].id = 2", True),
        ("legs[2].id IS NULL", True),
        ("symbol.length IS NULL", True),
        ("account.nothing.more IS NULL", True),
        # Of an array a condition holds if it does for any element.
        ("tags = 'big'", True),
        ("tags != 'big'", True),
        ("tags LIKE 'n%'", True),
        ("tags IN ('small', 'new')", True),
        ("legs.id > 1", True),
        ("legs.id BETWEEN 2 AND 2", True),
        ("legs.side = 'sell'", None),
        ("2 = legs.id", True),
        ("empty = 1", False),
        ("empty + 1 IS NULL", True),
        ("legs.id + 1 = 2", True),
        ("ARRAY_COUNT(tags) = 2 AND ARRAY_SUM(legs.id) = 3 AND ARRAY_MAX(legs.id) = 2", True),
        ("ARRAY_COUNT(price) IS NULL", True),
        # NULL, and what has no sense.
        ("null = 1", None),
        ("missing != 1", None),
        ("NOT missing = 1", None),
        ("missing IS NULL AND text IS NOT NULL", True),
        ("price / 0 > 1", None),
        ("price % 0 > 1", None),
        ("symbol > 5", None),
        ("symbol + 1 = 2", None),
        ("account = account", None),
        ("price", None),
        ("cancelled", False),
        ("cancelled = FALSE", True),
        ("NOT price", None),
        ("price BETWEEN 200 AND missing", False),
        ("missing > 1 OR price > 1", True),
        ("missing > 1 AND price < 1", False),
        ("price IN (1, missing)", None),
        ("price IN (1, 'x')", None),
        # Arithmetic.
        ("7 / 2 = 3 AND -7 / 2 = -3 AND -5 % 3 = -2 AND 7.0 / 2 = 3.5", True),
        ("5 MOD 3 = 2", True),
        ("1 + 2 * 3 = 7", True),
        ("9e300 * 9e300 IS NULL", True),
        # Texts.
        ("symbol BEGINS WITH ('X', 'IB') AND symbol ENDS WITH 'M'", True),
        ("symbol NOT BEGINS WITH 'IB'", False),
        ("price BEGINS WITH '1'", None),
        ("symbol LIKE '_B_' AND symbol LIKE '%B%' AND symbol NOT LIKE 'ib_'", True),
        ("account.id LIKE 'x!-_' ESCAPE '!'", True),
        ("'50%' LIKE '50!%' ESCAPE '!'", True),
        ("symbol MATCHES 'B.$' AND NOT symbol MATCHES '^B'", True),
        ("UPPER('ab') = 'AB' AND TRIM(' a ') = 'a' AND INSTR(symbol, 'BM') = 2", True),
        ("SUBSTR(symbol, -2) = 'BM' AND LEFT(symbol, 1) = 'I' AND RIGHT(symbol, 2) = 'BM'", True),
        ("SUBSTR(symbol, 2, 1) = 'B' AND REVERSE(symbol) = 'MBI' AND RIGHT(symbol, 0) = ''", True),
        ("CONCAT(symbol, '-', account.id) = 'IBM-x-7' AND CONCAT(symbol, 1) IS NULL", True),
        ("IF(price > 100, 'dear', 'cheap') = 'dear'", True),
        ("GREATEST(1, price) = 101.5 AND LEAST('b', 'a') = 'a' AND LEAST(1, 'a') IS NULL", True),
        ("ROUND(2.5) = 3 AND ROUND(-2.5) = -3 AND ROUND(1.25, 1) = 1.3", True),
        ("SQRT(-1) IS NULL AND LN(0) IS NULL AND POWER(10, 400) IS NULL AND SIGN(-3) = -1", True),
        ("REGEXP_MATCH(symbol, '^I.M$') AND REGEXP_MATCH(price, 'x') IS NULL", True),
        ("REGEXP_REPLACE(symbol, '', '-') = '-I-B-M-'", True),
        ("REGEXP_REPLACE(price, 'x', 'y') IS NULL", True),
        (r"REGEXP_REPLACE(symbol, '(B)', '\1') = 'I\1M'", True),
        ("STREQUAL_I(symbol, 'ibm') AND INSTR_I(symbol, 'x') = 0", True),
        ("STREQUAL_I(symbol, missing) IS NULL", True),
        ("CRC32('Zürich') = 3540756798 AND MD5(missing) IS NULL", True),
        ("STRFTIME('%Y-%m-%dT%H:%M:%S', $time) = '2023-11-14T22:13:20'", True),
        ("STRPTIME('14.11.2023 22:13', '%d.%m.%Y %H:%M') = 1699999980", True),
        ("STRPTIME('1969-12-31', '%Y-%m-%d') = -86400", True),
        ("STRFTIME('%099999999d', 0) IS NULL AND STRFTIME('%c', 0) IS NULL", True),
        ("STRFTIME('%Y', 1e300) IS NULL AND STRPTIME('x', '%Y') IS NULL", True),
        ("WIDTH_BUCKET(-1, 0, 10, 5) = 0 AND WIDTH_BUCKET(10, 0, 10, 5) = 6", True),
        ("WIDTH_BUCKET(1, 10, 0, 5) IS NULL AND WIDTH_BUCKET(1, 0, 9, 0) IS NULL", True),
        ("ASIN(2) IS NULL AND ATAN2(1, 0) > 1.57", True),
        ("price IS NOT NAN AND NOT missing IS NAN AND NOT symbol IS NAN", True),
        # What the message is.
        ("$topic = 'orders' AND $session = 16 AND $sequence BETWEEN 5 AND 9 AND $epoch = 2", True),
        ("$key = 'IBM' AND $size < 1000 AND $time > 1600000000", True),
        ("NOT $deleted AND $expires - $time = 60", True),
        ("$deleted = TRUE OR $expires IS NULL", False),
        ("$properties.desk = 'london' AND $properties.floor IS NULL", True),
    ],
)
def test_what_a_filter_means(text: str, truth: Truth) -> None:
    assert truth_of(Filter(text), Seen(ORDER)) is truth
    assert passes(Filter(text), Seen(ORDER)) is (truth is True)


def test_the_number_that_is_none() -> None:
    document = json.loads('{"a": NaN, "b": [NaN], "c": 1}')
    assert passes(Filter("a IS NAN AND b IS NAN AND c IS NOT NAN"), Seen(document))


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("a MATCHES 'é'", True),
        ("a LIKE 'x_y%'", True),
        ("REGEXP_REPLACE(a, 'é', 'z') = 'x?yz'", True),
        ("LENGTH(MD5(a)) = 32", True),
        ("STRFTIME(a, 1) = 'x'", None),
    ],
)
def test_a_half_of_a_character_does_no_harm(text: str, truth: Truth) -> None:
    document = json.loads('{"a": "x\\ud800yé"}')
    assert truth_of(Filter(text), Seen(document)) is truth


def test_an_array_becomes_a_text() -> None:
    document = {"legs": ["x", 1.5, None, True], "wide": ["y" + "x" * (TEXT_LENGTH_MAX - 1), "z"]}
    assert passes(Filter("ARRAY_TO_STRING(legs, '-') = 'x-1.5-null-true'"), Seen(document))
    assert passes(Filter("ARRAY_TO_STRING(wide) IS NULL"), Seen(document))
    assert passes(Filter("REGEXP_REPLACE(wide, 'y', 'yy') IS NULL"), Seen(document))


@pytest.mark.parametrize("document", [None, 5, "text", [1, 2], True])
def test_a_payload_without_fields_has_only_null(document: Any) -> None:
    assert passes(Filter("a IS NULL"), Seen(document))
    assert truth_of(Filter("a.b = 1"), Seen(document)) is None


def test_what_would_grow_without_end_is_null() -> None:
    numbers = Seen({"n": 10**70, "a": "a" * 1000})
    assert passes(Filter("n * n IS NULL AND n + n > n"), numbers)
    doubled = "REPLACE(a, 'a', CONCAT(a, a))"
    assert passes(Filter(f"LENGTH({doubled}) IS NULL"), numbers)
    assert passes(Filter("LENGTH(CONCAT(a, a)) = 2000"), numbers)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcxyst"), inner),
    max_leaves=10,
)


@given(_JSON, st.integers(0, 1 << 32))
def test_no_payload_makes_a_filter_fail(document: Any, seed: int) -> None:
    text = Writer(random.Random(seed)).condition(3)
    truth_of(Filter(text), Seen(document))


def test_a_number_that_is_none_compares_with_nothing() -> None:
    seen = Seen({"n": math.nan})
    assert [truth_of(Filter(f"n {operator} 1"), seen) for operator in ("=", "!=", "<")] == [
        None
    ] * 3
