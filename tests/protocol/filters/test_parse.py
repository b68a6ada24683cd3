"""The filters that are refused, and the texts of the refusals."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.errors import InvalidFilter
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.parse import DEPTH_MAX, LENGTH_MAX


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("", 0, "the end was not expected here; expected"),
        ("price >", 7, "expected"),
        ("a = = 3", 4, "'=' was not expected here"),
        ("a b", 2, "a comparison such as ="),
        ("a IN ()", 6, "')' was not expected here"),
        ("name LIKE 3", 10, "expected a text in single quotes"),
        ("name = 'open", 7, '"\'" was not expected'),
        ("a = 1 AND $user = 2", 10, "a message has no $user; it has $topic"),
        ("$topic.x = 1", 0, "a message has no $topic.x"),
        ("a = 1 OR nope(1)", 9, "there is no function NOPE; there are ABS"),
        ("UUID7() = 'x'", 0, "the function UUID7 is not supported: no part of a message"),
        ("TOPIC_NAME() = 'x'", 0, "the function TOPIC_NAME is not supported: use $topic"),
        ("a = 1 AND SUM(a) > 3", 10, "the function SUM is not supported: a filter is about one"),
        ("REGEXP_MATCH(a, b)", 0, "all arguments of REGEXP_MATCH but the first are texts"),
        ("REGEXP_MATCH(a)", 0, "REGEXP_MATCH takes 2, not 1 arguments"),
        ("REGEXP_REPLACE(a, 'x', 3) = 'y'", 0, "all arguments of REGEXP_REPLACE but the first"),
        ("REGEXP_REPLACE(a, '(', 'y') = 'y'", 0, "is not a regular expression of RE2: missing )"),
        ("LENGTH() = 1", 0, "LENGTH takes 1, not 0 arguments"),
        ("CONCAT() = 'a'", 0, "CONCAT takes at least 1"),
        ("a LIKE 'x' ESCAPE 'ab'", 18, "ESCAPE takes one character"),
        ("a LIKE 'x!' ESCAPE '!'", 0, "ends with its escape"),
        ("a MATCHES '('", 0, "is not a regular expression of RE2: missing )"),
        ("a MATCHES '(?=x)'", 0, "RE2 has neither lookaround"),
    ],
)
def test_a_refusal_says_where_and_what_was_expected(text: str, position: int, says: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        Filter(text)
    assert caught.value.position == position
    assert says in caught.value.detail
    assert f"after {position} characters" in str(caught.value)


def test_what_is_too_long_or_too_deep_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="16,384 are the most"):
        Filter("a" * (LENGTH_MAX + 1))
    Filter("(" * 1000 + "a = 1" + ")" * 1000)
    deep = "NOT " * (DEPTH_MAX - 2) + "a = 1"
    Filter(deep)
    for text in (f"NOT NOT {deep}", "-" * 5000 + "1 = 1", "1" + "+1" * 5000 + " = 1"):
        with pytest.raises(InvalidFilter, match="nested deeper than 100 levels"):
            Filter(text)


def test_words_are_read_in_any_case_and_fields_are_not() -> None:
    assert Filter("a between 1 and 2 or b is not null").needs_document
    assert not Filter("$KEY = 'x' and $Properties.desk like 'l%'").needs_document


@given(st.text(alphabet="ab1'\"().,$[]%<>=!+-*/ ANDORNTILKE", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidFilter):
        Filter(text)
