"""Bounds of filters: what is outside never passes."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as some

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.filters.bounds import NO_BOUNDS, Bounds, Interval, bounds_of
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import passing
from quorate.protocol.framing import body_of, encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.times import times_of


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
        ("$topic IN ('a', 3) AND $topic = 'z'", Bounds(frozenset())),
        ("$key = 'a' AND $properties.desk = 'x'", NO_BOUNDS),
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
    some.builds(
        "{} = '{}'".format,
        some.sampled_from(("$topic", "$key", "$properties.p")),
        some.sampled_from("ab"),
    ),
    some.builds("$key IN ('{}', 'c')".format, some.sampled_from("ab")),
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


@given(FILTERS, some.sampled_from("ab"), some.lists(some.sampled_from((0, 3, 5, 9)), min_size=1))
def test_what_passes_is_inside(text: str, topic: str, seconds: list[int]) -> None:
    times, count = times_of([each * 10**9 for each in seconds]), len(seconds)
    own = [Attributes(b"ab"[n % 2 : n % 2 + 1], {"p": b"a"}) for n in range(count)]
    frame = encode_batch(
        SourceName(topic, 1), 1, 0, [b""] * count, times.least_ns, b"", own, times.later
    )
    header, bounds = read_header(frame), bounds_of(text)
    body = body_of(frame, header)
    for number in passing(Filter(text), header, body.read_payloads(), body, 0, count - 1):
        assert bounds.has_topic(topic)
        assert bounds.sequence.meets(number, number)
        assert bounds.time.meets(seconds[number], seconds[number])


def test_each_message_has_its_own_time_and_expiry() -> None:
    own = [Attributes(b"k", deleted=True), Attributes(expires_ns=9 * 10**9), NO_ATTRIBUTES]
    frame = encode_batch(
        SourceName("a", 1), 1, 0, [b""] * 3, 10**9, b"", own, [0, 2 * 10**9, 10**9]
    )
    header = read_header(frame)
    body = body_of(frame, header)

    def found(text: str) -> list[int]:
        return passing(Filter(text), header, body.read_payloads(), body, 0, 2)

    assert found("$time >= 2") == [1, 2]
    assert found("$time = 1") == [0]
    assert found("$deleted") == [0]
    assert found("$expires < 10") == [1]
    assert found("$expires IS NULL") == [0, 2]
