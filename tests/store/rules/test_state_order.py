"""The order of rows: by several fields, up and down, with what is missing at the end."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.messages import BatchMessages
from quorate.protocol.framing import body_of, encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.payloads import PayloadFormat, reader_of
from quorate.store.rules.state_order import FIELDS_MAX, Ordering, Sorted

VALUES = st.none() | st.integers(-3, 3) | st.sampled_from(["a", "b", "ä", 1.5, True, False])


def shown(documents: list[Any]) -> BatchMessages:
    payloads = [json.dumps(each).encode() for each in documents]
    frame = encode_batch(SourceName("orders", 1), 1, 0, payloads, 0)
    header = read_header(frame)
    body = body_of(frame, header)
    return BatchMessages(header, payloads, body, reader_of(PayloadFormat.JSON))


def ordered(documents: list[Any], *fields: str, limit: int = 100) -> list[Any]:
    ordering = Ordering(fields)
    if not documents:
        return []
    ranks = ordering.ranks(shown(documents), range(len(documents)))
    rows = [Sorted(each, b"%05d" % at) for at, each in enumerate(ranks)]
    return [documents[int(row.row_key)] for row in ordering.best(rows, limit)]


def test_by_several_fields() -> None:
    documents = [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}, {"a": 1, "b": "y"}, {"b": "z"}, 7]
    assert ordered(documents, "a", "-b") == [documents[at] for at in (2, 0, 1, 3, 4)]
    assert ordered(documents, "-a", "b") == [documents[at] for at in (1, 0, 2, 3, 4)]


def test_numbers_texts_truths_and_what_is_missing() -> None:
    given: tuple[Any, ...] = (None, True, "b", 2, False, "a", 1.5, [], [0], {})
    documents: list[Any] = [{"a": each} for each in given]
    values = [each["a"] for each in ordered(documents, "a")]
    assert values == [[0], 1.5, 2, "a", "b", False, True, None, [], {}]
    descending = [each["a"] for each in ordered(documents, " -a")]
    assert descending == [True, False, "b", "a", 2, 1.5, [0], None, [], {}]


@hypothesis.given(st.lists(st.tuples(VALUES, VALUES), max_size=12), st.integers(1, 12))
def test_the_best_are_the_first_of_all(values: list[tuple[Any, Any]], limit: int) -> None:
    documents = [{"a": a, "b": b, "at": at} for at, (a, b) in enumerate(values)]
    whole = ordered(documents, "-a", "b")
    assert ordered(documents, "-a", "b", limit=limit) == whole[:limit]


@pytest.mark.parametrize("fields", [["a b"], ["a +"], ["--a"], [""], ["a"] * (FIELDS_MAX + 1)])
def test_what_is_no_field(fields: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        Ordering(fields)
