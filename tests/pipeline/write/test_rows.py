"""From Spark's columns to rows: which are taken, which refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from quorate.pipeline.rules.chunks import Rows
from quorate.pipeline.write.rows import (
    check_columns,
    rows_by_topic,
)
from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, checked_attributes
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.limits import MESSAGE_BYTES_USUAL

PROPERTIES = pa.map_(pa.string(), pa.binary())


def taken(batch: pa.RecordBatch, topic: str = "") -> list[tuple[str, list[Any]]]:
    return [(name, [*_each(rows)]) for name, rows in rows_by_topic(batch, topic)]


def _each(rows: Rows) -> Iterator[tuple[bytes, bytes | None, Mapping[str, bytes]]]:
    attributes = rows.attributes or [NO_ATTRIBUTES] * len(rows)
    for payload, own in zip(rows.payloads, attributes, strict=True):
        yield payload, own.key, own.properties


@pytest.mark.parametrize(
    "columns",
    [
        [("topic", "string"), ("payload", "binary")],
        [("value", "string"), ("topic", "string")],
        [
            ("key", "string"),
            ("properties", "map<string,string>"),
            ("topic", "string"),
            ("payload", "binary"),
        ],
        [
            ("payload", "binary"),
            ("key", "binary"),
            ("properties", "map<string,binary>"),
            ("topic", "string"),
        ],
    ],
)
def test_columns_that_can_be_written(columns: list[tuple[str, str]]) -> None:
    check_columns(columns, "")


def test_an_empty_key_is_kept() -> None:
    batch = pa.record_batch({"payload": pa.array([b"x"]), "key": pa.array([b""])})
    assert taken(batch, "t") == [("t", [(b"x", b"", {})])]


def test_the_option_makes_up_for_the_column() -> None:
    check_columns([("payload", "binary")], "orders")


def test_every_problem_is_named() -> None:
    columns = [
        ("payload", "int"),
        ("value", "binary"),
        ("key", "array<int>"),
        ("properties", "map<string,int>"),
        ("sequence", "bigint"),
        ("key", "binary"),
    ]
    with pytest.raises(InvalidArgument) as raised:
        check_columns(columns, "")
    said = str(raised.value)
    for problem in (
        "there are 2 columns key",
        "payload and value mean the same",
        "no topic",
        "payload is int; cast it to binary or string",
        "key is array<int>",
        "properties is map<string,int>",
        "sequence is not written",
    ):
        assert problem in said


def test_no_payload_is_named() -> None:
    with pytest.raises(InvalidArgument, match="there is no payload or value"):
        check_columns([("topic", "string")], "")


def test_rows_of_one_topic_stay_as_they_are() -> None:
    batch = pa.record_batch({"topic": ["t"] * 3, "payload": [b"2", b"1", b"3"]})
    assert list(rows_by_topic(batch, "")) == [("t", Rows([b"2", b"1", b"3"]))]


def test_rows_of_several_topics_keep_their_order_in_each() -> None:
    batch = pa.record_batch(
        {
            "topic": ["b", "a", "b", "c", "a", "b"],
            "payload": [b"0", b"1", b"2", b"3", b"4", b"5"],
            "key": [b"k", None, None, None, b"l", None],
            "properties": pa.array([None, [("n", b"v")], [], None, None, None], PROPERTIES),
        }
    )
    assert taken(batch) == [
        ("b", [(b"0", b"k", {}), (b"2", None, {}), (b"5", None, {})]),
        ("a", [(b"1", None, {"n": b"v"}), (b"4", b"l", {})]),
        ("c", [(b"3", None, {})]),
    ]
    assert taken(batch.slice(1, 2)) == [
        ("a", [(b"1", None, {"n": b"v"})]),
        ("b", [(b"2", None, {})]),
    ]


def test_many_topics_in_one_batch() -> None:
    names = [f"t{number % 97}" for number in range(5000)]
    batch = pa.record_batch({"topic": names, "value": [b"%d" % n for n in range(5000)]})
    found = {name: [int(payload) for payload, _, _ in rows] for name, rows in taken(batch)}
    assert found == {f"t{m}": list(range(m, 5000, 97)) for m in range(97)}


def test_the_option_wins_over_the_column() -> None:
    batch = pa.record_batch({"topic": ["a", "b"], "payload": [b"1", b"2"]})
    assert [name for name, _ in taken(batch, "all")] == ["all"]


def test_text_is_written_as_utf8() -> None:
    batch = pa.record_batch(
        {
            "value": ["ä", ""],
            "key": ["ö", None],
            "properties": pa.array([[("n", "ü")], None], type=pa.map_(pa.string(), pa.string())),
        }
    )
    assert taken(batch, "t") == [
        ("t", [("ä".encode(), "ö".encode(), {"n": "ü".encode()}), (b"", None, {})])
    ]


def test_columns_of_nothing_cost_nothing() -> None:
    batch = pa.record_batch(
        {
            "payload": [b"1", b"2"],
            "key": pa.array([None, None], pa.binary()),
            "properties": pa.array([None, []], PROPERTIES),
        }
    )
    [(_, rows)] = rows_by_topic(batch, "t")
    assert rows.attributes == []


def test_an_empty_batch_has_no_rows() -> None:
    batch = pa.record_batch({"topic": pa.array([], pa.string()), "payload": pa.array([], "binary")})
    assert taken(batch) == []
    assert taken(batch, "t") == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"topic": ["t", None], "payload": [b"1", b"2"]}, "column topic: is null"),
        ({"topic": ["t", "t"], "payload": [b"1", None]}, "column payload: is null"),
        ({"topic": ["t", "t"], "value": ["1", None]}, "column value: is null"),
        ({"topic": ["t", ""], "payload": [b"1", b"2"]}, "topic"),
        (
            {
                "topic": ["t"],
                "payload": [b"1"],
                "properties": pa.array([[("n", None)]], PROPERTIES),
            },
            "column properties: n is null",
        ),
    ],
)
def test_values_that_can_not_be_written_are_named(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        taken(pa.record_batch(columns))


@pytest.mark.parametrize("over", [0, 1])
def test_a_message_that_is_too_large_is_named(over: int) -> None:
    room = MESSAGE_BYTES_USUAL - checked_attributes(b"k").size
    batch = pa.record_batch({"payload": [b"x" * (room + over)], "key": [b"k"]})
    if over:
        with pytest.raises(MessageTooLarge):
            taken(batch, "t")
    else:
        assert len(taken(batch, "t")) == 1


def test_deletions_and_expiries() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "payload": pa.array([b"", b"x", b"y"]),
            "key": pa.array([b"k", b"k", None]),
            "deleted": pa.array([True, False, None]),
            "expires": pa.array([None, moment, None], pa.timestamp("us", tz="UTC")),
        }
    )
    ((_, rows),) = rows_by_topic(batch, "t")
    assert rows.attributes == [
        Attributes(b"k", deleted=True),
        Attributes(b"k", expires_ns=int(moment.timestamp()) * 10**9),
        NO_ATTRIBUTES,
    ]


def test_the_columns_of_deletions_and_expiries_are_checked() -> None:
    columns = [("payload", "binary"), ("deleted", "boolean"), ("expires", "timestamp")]
    check_columns(columns, "t")
    with pytest.raises(InvalidArgument, match="expires is bigint; cast it to timestamp"):
        check_columns([("payload", "binary"), ("expires", "bigint")], "t")
