"""What is left of payloads of which some fields are kept, or left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.filters.messages import Seen, truth_of

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.evaluate import Filter, value_at
from quorate.protocol.filters.parse import DEPTH_MAX, LENGTH_MAX, parse_fields
from quorate.protocol.filters.projection import Projection

ORDER = (
    '{"id": 7, "price": 1.10, "order": {"id": 3, "notes": "a, b"}, '
    '"legs": [{"price": 1, "size": 2}, {"price": 3, "size": 4}, 5], "x y": true}'
)


def left(fields: str | list[str], payload: str) -> str:
    return Projection(fields).of(payload.encode()).decode()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("id", '{"id":7}'),
        ("price, id", '{"id":7,"price":1.10}'),
        ("order.id", '{"order":{"id":3}}'),
        ("order, order.id", '{"order":{"id": 3, "notes": "a, b"}}'),
        ("order.id, order", '{"order":{"id": 3, "notes": "a, b"}}'),
        ("legs[1]", '{"legs":[{"price": 3, "size": 4}]}'),
        ("legs[1].price", '{"legs":[{"price":3}]}'),
        ("legs.price", '{"legs":[{"price":1},{"price":3}]}'),
        ("legs.price, legs[1].size, legs[2]", '{"legs":[{"price":1},{"price":3,"size":4},5]}'),
        ('"x y"', '{"x y":true}'),
        ("-order, -legs", '{"id":7,"price":1.10,"x y":true}'),
        ('-order.notes, -legs.size, -"x y"',
         '{"id":7,"price":1.10,"order":{"id":3},"legs":[{"price":1},{"price":3},5]}'),
        ("-legs[0], -id, -price, -order", '{"legs":[{"price": 3, "size": 4},5],"x y":true}'),
    ],
)  # fmt: skip
def test_what_is_left_has_the_bytes_that_it_had(fields: str, expected: str) -> None:
    assert left(fields, ORDER) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("color", "{}"),
        ("id.part", "{}"),
        ("order.color", '{"order":{}}'),
        ("legs[9]", '{"legs":[]}'),
        ("-color", '{"id":7,"order":{}}'),
        ("-id.part", '{"id":7,"order":{}}'),
    ],
)
def test_a_field_that_is_missing_leaves_nothing(fields: str, expected: str) -> None:
    payload = '{"id":7,"order":{},"legs":[]}'
    assert left(f"{fields}, -legs" if fields[0] == "-" else fields, payload) == expected


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00\xff", b"plain", b"7", b'"id"', b"null", b'[{"id": 1, "x": 2}]', b'{"id": 1} x',
     b'{"id": 1,}', b'{"id": 1', b'{"id" 1}', b'{id: 1}', b'{"id": [1}', b'{"x": 01}',
     b'{7: 1}', b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"],
)  # fmt: skip
def test_what_is_no_json_object_stays_as_it_is(payload: bytes) -> None:
    assert Projection("id").of(payload) == payload
    assert Projection("-id").of(payload) == payload


def test_names_are_compared_as_they_are_read() -> None:
    assert left('"é"', '{"\\u00e9": 1, "e": 2}') == '{"\\u00e9":1}'
    # Of fields with one name all are kept, so that a reader sees the same one.
    assert left("a", '{"a": 1, "b": 2, "a": 3}') == '{"a":1,"a":3}'
    assert left("in, and, NOT", '{"in": 1, "and": 2, "not": 3}') == '{"in":1,"and":2}'


def test_a_list_is_the_text_with_commas() -> None:
    assert left(["order.id", '"x y"'], ORDER) == left('order.id, "x y"', ORDER)
    again = Projection(Projection(["-order.id", "-legs[0]"]).text)
    assert again.of(ORDER.encode()) == Projection("-order.id, -legs[0]").of(ORDER.encode())


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("", "'' cannot be read after 0 characters: the end was not expected"),
        ([], "names no field; give a list"),
        (["id", ""], "'' cannot be read"),
        ("id,", "after 3 characters: the end was not expected here; expected -, a field"),
        ("id price", "'price' was not expected here"),
        ("legs[x]", "after 5 characters: 'x' was not expected here; expected an index"),
        ("$key", "'\\$' was not expected"),
        ("+id", "'\\+' was not expected"),
        ("id, -price", "fields to keep and fields to leave out"),
        (["-id", "id"], "fields to keep and fields to leave out"),
        ([7], "7 is no text"),
        (7, "7 names no field"),
        ("a" * (LENGTH_MAX + 1), "16,384 are the most"),
        (["a" * LENGTH_MAX, "b"], "more than 16,384 characters"),
        (".".join("a" * (DEPTH_MAX + 1)), "more than 100 steps"),
    ],
)
def test_a_refusal_names_the_text_and_the_place(fields: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        Projection(fields)


VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet='ab"\\é,}'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=12,
)
PATHS = st.tuples(
    st.sampled_from("abc"), st.lists(st.sampled_from([".a", ".b", "[0]", "[1]"]), max_size=3)
).map(lambda path: path[0] + "".join(path[1]))


@given(
    st.dictionaries(st.sampled_from("abc"), VALUES),
    st.lists(PATHS, min_size=1, max_size=3),
    st.sampled_from([None, 1]),
)
def test_what_is_kept_and_what_is_left_out_make_the_whole(
    document: dict[str, Any], paths: list[str], indent: int | None
) -> None:
    payload = json.dumps(document, indent=indent).encode()
    kept = Projection(paths).of(payload)
    rest = Projection([f"-{path}" for path in paths]).of(payload)
    assert len(kept) <= len(payload)
    assert len(rest) <= len(payload)
    assert sorted(_leaves(json.loads(kept)) + _leaves(json.loads(rest))) == sorted(
        _leaves(document)
    )


def _leaves(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        within = value.values() if isinstance(value, dict) else value
        return [leaf for each in within for leaf in _leaves(each)]
    return [json.dumps(value)]


@given(st.dictionaries(st.sampled_from("abc"), VALUES), PATHS.filter(lambda path: "[" not in path))
def test_a_field_that_is_kept_is_what_a_filter_sees(document: dict[str, Any], path: str) -> None:
    kept = json.loads(Projection(path).of(json.dumps(document).encode()))
    test = Filter(f"{path} IS NOT NULL AND {path} = {path}")
    assert truth_of(test, Seen(kept)) is truth_of(test, Seen(document))


@given(
    st.dictionaries(st.sampled_from("abc"), VALUES),
    st.lists(PATHS, min_size=1, max_size=3),
    PATHS,
    st.booleans(),
)
def test_a_field_that_it_says_it_keeps_is_where_it_was(
    document: dict[str, Any], paths: list[str], path: str, leaves_out: bool
) -> None:
    select = Projection([f"-{each}" if leaves_out else each for each in paths])
    (named,) = parse_fields(path)
    before = value_at(document, named.path)
    if select.keeps(named.path) and type(before) not in (dict, list):
        after = json.loads(select.of(json.dumps(document).encode()))
        assert value_at(after, named.path) == before


@pytest.mark.parametrize(
    ("fields", "path", "keeps"),
    [
        ("a", "a", True),
        ("a", "a.b[1]", True),
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.b", "a", False),
        ("a[1]", "a[1]", False),
        ("-a", "b", True),
        ("-a.b", "a.c", True),
        ("-a", "a.b", False),
        ("-a[0]", "a[1]", False),
        ("-a.b", "a[1].c", True),
    ],
)
def test_whether_it_keeps_a_field(fields: str, path: str, keeps: bool) -> None:
    assert Projection(fields).keeps(parse_fields(path)[0].path) is keeps
