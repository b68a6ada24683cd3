"""SQL over rows: payloads become a table, and the statement sees nothing but that table."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest
from tests import seams

from quorate.protocol.attributes import Attributes
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.payloads import PayloadFormat
from quorate.subscriber.io.sql import RowTable, Statement
from quorate.subscriber.items import ReplayedMessage
from quorate.subscriber.rows import message_of

pytest.importorskip("duckdb", reason="the extra query is not installed")

SOURCE = SourceName("orders", 1)


def row(payload: bytes, key: bytes | None = b"k", time_ns: int = 1_000_000) -> ReplayedMessage:
    attributes = [Attributes(key)]
    return message_of(encode_batch(SOURCE, 1, 0, [payload], time_ns, attributes=attributes), "s1")


def answer(statement: str, *parts: list[bytes]) -> list[dict[str, Any]]:
    rows = RowTable()
    for part in parts:
        rows.add([row(payload) for payload in part])
    found: list[dict[str, Any]] = Statement(statement).run(rows.table()).to_pylist()
    return found


def test_sums_by_group() -> None:
    parts = [
        [json.dumps({"s": "ab"[n % 2], "q": n}).encode() for n in range(first, first + 5)]
        for first in (0, 5)
    ]
    statement = "select s, sum(q)::bigint as total from rows group by s order by s"
    assert answer(statement, *parts) == [{"s": "a", "total": 20}, {"s": "b", "total": 25}]


def test_the_facts_of_each_message() -> None:
    rows = RowTable()
    rows.add(
        [row(b'{"a": 1, "$key": 5}', b"x", 5_000_000_000), row(b"{}", None), row(b"{}", b"\xff")]
    )
    found = Statement('select a, "$key", "$time", "$source" from rows').run(rows.table())
    first, second, third = found.to_pylist()
    at = datetime.fromtimestamp(5, UTC)
    assert first == {"a": 1, "$key": "x", "$time": at, "$source": "orders/0x1"}
    assert (second["a"], second["$key"], third["$key"]) == (None, None, "\\xff")


@pytest.mark.parametrize(
    "payloads",
    [
        [b'{"a": 1}', b"no JSON", b'{"a": 3}'],
        [b'{"a": 1}', b'{\n "a": 2,\n "b": 1}', b'{"a": 3}'],
        [b'{"a": 1}', b'[{"a": 2}]', b'{"a": 3}'],
        [b'{"a": 1}', b"", b'{"a": 3}'],
        [b'{"a": 1} {"a": 7}', b'{"a": 1}', b'{"a": 3}'],
    ],
)
def test_payloads_that_are_no_object_in_a_line(payloads: list[bytes]) -> None:
    found = [each["a"] for each in answer("select a from rows", payloads)]
    assert len(found) == 3
    assert found[2] == 3


def test_payloads_in_messagepack() -> None:
    rows = RowTable(PayloadFormat.MSGPACK)
    fields = {"a": 1.5, "b": b"x\xff", "at": msgpack.Timestamp(5, 500_000_000), "big": 2**64 - 1}
    payloads = [msgpack.packb(fields), msgpack.packb({"a": float("nan"), "c": "2026-01-01"}), b"{}"]
    rows.add([row(payload) for payload in payloads])
    found = Statement('select a, b, "at", big, c from rows').run(rows.table()).to_pylist()
    assert found[0] | {"big": 0} == {"a": 1.5, "b": "x\\xff", "at": 5.5, "big": 0, "c": None}
    assert int(found[0]["big"]) == pytest.approx(2**64 - 1)
    assert found[1] == {"a": None, "b": None, "at": None, "big": None, "c": "2026-01-01"}
    assert set(found[2].values()) == {None}


def test_payloads_without_any_field() -> None:
    assert answer("select count(*) as n from rows", [b"{}", b"x"], [b""]) == [{"n": 3}]
    assert answer("select count(*) as n from rows") == [{"n": 0}]


def test_numbers_of_two_types_are_one_column_and_times_stay_texts() -> None:
    parts = [[b'{"a": 1, "t": "2026-01-01T00:00:00"}'], [b'{"a": 1.5, "t": "soon"}']]
    assert [each["t"] for each in answer("select t from rows", *parts)] == [
        "2026-01-01T00:00:00", "soon",
    ]  # fmt: skip
    assert answer("select sum(a) as a from rows", *parts) == [{"a": 2.5}]
    nested = [b'{"a": {"t": "2026-01-01 00:00:00", "l": ["2026-01-01 00:00:00"]}}']
    assert answer("select a.t as t, a.l[1] as l from rows", nested) == [
        {"t": "2026-01-01 00:00:00", "l": "2026-01-01 00:00:00"}
    ]


@pytest.mark.parametrize(
    "parts", [[[b'{"a": 1}', b'{"a": "x"}']], [[b'{"a": 1}'], [b'{"a": "x"}']]]
)
def test_a_field_of_several_types_is_an_error(parts: list[list[bytes]]) -> None:
    with pytest.raises(InvalidArgument, match="leave it out with select"):
        answer("select 1", *parts)


@pytest.mark.parametrize(
    "statement",
    [
        "select",
        "select nothing from rows",
        "select * from parts",
        "select * from read_csv('/etc/passwd')",
        "copy rows to '/tmp/rows.csv'",
        "attach '/tmp/x.db'",
        "set enable_external_access = true",
        "install httpfs",
        "",
    ],
)
def test_statements_that_cannot_be(statement: str) -> None:
    with pytest.raises(InvalidArgument, match="statement"):
        answer(statement, [b'{"a": 1}'])


def test_rows_that_are_too_many_for_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.SQL_TABLE_BYTES_MAX.replace(monkeypatch, 1_000)
    with pytest.raises(InvalidArgument, match="selects rows of more than 1,000 bytes"):
        answer("select 1", *([b'{"a": 1}'] for _ in range(100)))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InvalidArgument, match=r"pip install '.\[query\]'"):
        Statement("select 1")
