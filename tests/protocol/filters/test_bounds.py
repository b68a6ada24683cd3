"""Bounds of filters: what is outside never passes."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as some

from quorate.protocol.filters.bounds import NO_BOUNDS, Bounds, Interval, bounds_of
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import passing
from quorate.protocol.framing import body_of, encode_batch, read_header
from quorate.protocol.identity import SourceName


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("price > 3", NO_BOUNDS),
        ("$topic = 'a'", Bounds(frozenset("a"))),
        ("'a' = $topic", Bounds(frozenset("a"))),
        ("$topic IN ('a', 'b') AND $topic = 'b' AND price > 3", Bounds(frozenset("b"))),
        ("$sequence >= 10 AND 20 > $sequence", Bounds(sequence=Interval(10, 20))),
        ("$sequence = 7", Bounds(sequence=Interval(7, 7))),
        ("$time BETWEEN 5 AND 6.5", Bounds(time=Interval(5, 6.5))),
        ("$time > 5 AND (price > 3 OR $sequence = 2)", Bounds(time=Interval(5, inf))),
        ("$sequence != 7", NO_BOUNDS),
        ("$topic LIKE 'a%'", NO_BOUNDS),
        ("$topic IN ('a', name)", NO_BOUNDS),
        ("NOT $sequence = 7", NO_BOUNDS),
        ("$sequence = 1 OR $sequence = 2", NO_BOUNDS),
        ("$sequence > '7'", NO_BOUNDS),
    ],
)
def test_they_are_those_of_comparisons_that_must_be_true(text: str, bounds: Bounds) -> None:
    assert bounds_of(text) == bounds


OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
COMPARISONS = some.one_of(
    some.builds(
        "{} {} {}".format,
        some.sampled_from(("$sequence", "$time")),
        some.sampled_from(OPERATORS),
        some.sampled_from((0, 3, 4.5, 9, 12)),
    ),
    some.builds(
        "{} {} {}".format,
        some.sampled_from((0, 3, 4.5, 9, 12)),
        some.sampled_from(OPERATORS),
        some.sampled_from(("$sequence", "$time")),
    ),
    some.builds("$topic = '{}'".format, some.sampled_from("ab")),
)
FILTERS = some.recursive(
    COMPARISONS,
    lambda inner: some.one_of(
        some.builds("({} AND {})".format, inner, inner),
        some.builds("({} OR {})".format, inner, inner),
        some.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


@given(FILTERS, some.sampled_from("ab"), some.sampled_from((0, 3, 5, 9)))
def test_what_passes_is_inside(text: str, topic: str, seconds: int) -> None:
    frame = encode_batch(SourceName(topic, 1), 1, 0, [b""] * 12, seconds * 10**9)
    header, bounds = read_header(frame), bounds_of(text)
    body = body_of(frame, header)
    for number in passing(Filter(text), header, body.read_payloads(), body, 0, 11):
        assert bounds.has_topic(topic)
        assert bounds.sequence.meets(number, number)
        assert bounds.time.meets(seconds, seconds)
