"""Vectors: as Spark keeps them, and the ranges between two of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.pipeline.errors import OffsetsBehind
from quorate.pipeline.rules.offsets import (
    forward,
    from_json,
    latest,
    limited,
    limited_by_bytes,
    to_json,
)
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName

A, B, C = SourceName("a", 1), SourceName("a/b", 2), SourceName("c", 2**64 - 2)

vectors = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 1000))


def test_a_vector_is_the_same_text_however_it_came_about() -> None:
    assert json.dumps(to_json({A: 1, B: 2, C: 3})) == json.dumps(to_json({C: 3, B: 2, A: 1}))
    assert to_json({B: 7}) == {"a/b/0x2": 7}


@given(vectors)
def test_a_vector_comes_back_as_it_was(vector: dict[SourceName, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(vector)))) == vector


@pytest.mark.parametrize("entries", [{"a/1": -1}, {"a/1": "7"}, {"a/1": True}, {"a": 1}])
def test_what_is_no_vector_is_refused(entries: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        from_json(entries)


def test_a_source_that_the_start_does_not_name_is_read_from_its_beginning() -> None:
    assert forward({A: 5}, {A: 9, B: 3, C: 0}) == {A: (5, 9), B: (0, 3)}


def test_going_back_is_an_error() -> None:
    with pytest.raises(OffsetsBehind, match="at 5, but its end is now said to be 4"):
        forward({A: 5}, {A: 4})


def test_a_source_that_is_gone_or_behind_stays_where_it_was() -> None:
    assert latest({A: 5, B: 2}, {B: 1, C: 3}) == {A: 5, B: 2, C: 3}


@given(vectors, vectors, st.integers(1, 2000))
def test_a_limit_is_kept_and_used_up(
    start: dict[SourceName, int], more: dict[SourceName, int], messages_max: int
) -> None:
    end = latest(start, more)
    reached = limited(start, end, messages_max)
    backlog = sum(until - first for first, until in forward(start, end).values())
    assert reached.keys() == end.keys()
    assert all(start.get(source, 0) <= reached[source] <= end[source] for source in end)
    read = sum(until - first for first, until in forward(start, reached).values())
    assert read == min(backlog, messages_max)


def test_a_limit_is_shared_out_in_proportion() -> None:
    assert limited({}, {A: 900, B: 90, C: 10}, 100) == {A: 90, B: 9, C: 1}


def test_a_limit_in_bytes() -> None:
    end = {A: 100, B: 100}
    assert limited_by_bytes({}, end, {A: 10.0, B: 30.0}, 4000) == end
    assert limited_by_bytes({}, end, {A: 10.0, B: 30.0}, 400) == {A: 10, B: 10}
    # Something is read, however little is let through.
    assert sum(limited_by_bytes({}, end, {A: 10.0, B: 30.0}, 1).values()) == 1
