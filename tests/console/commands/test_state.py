"""`quorate state` as a user has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from tests.console.command import QUORATE, Ran, quorate
from tests.source.real_stores import RealStores

from quorate.client import connect
from quorate.console.commands.state_queries import plain
from quorate.source import SourceOptions

pytestmark = pytest.mark.processes


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[str]:
    made = RealStores(tmp_path)
    topics = ({"pattern": "orders", "keys": "$key"}, {"pattern": "pairs", "keys": ["a", "b"]})
    made.settings = {name: {"topic": topics} for name in "abc"}
    await made.start("abc")
    named = made.named("abc")
    quick = SourceOptions(registration_interval=0.3)
    async with connect(named) as client:
        async with client.source("orders", session_id=1, options=quick) as source:
            for key, price in (("x", 1), ("y", 2), ("x", 3)):
                await source.send(json.dumps({"price": price}).encode(), key=key.encode())
            await source.flush()
        async with client.source("pairs", session_id=1, options=quick) as source:
            await source.publish(b'{"a": "p", "b": 2, "c": 3}')
    yield named
    await made.stop_all()


async def state(stores: str, *arguments: str) -> Ran:
    """Run `quorate state`."""
    return await quorate("state", *arguments, "--stores", stores)


async def test_changes_are_watched_as_lines(stores: str) -> None:
    code, out, _ = await state(stores, "watch", "orders", "--where", "price > 2", "-n", "1")
    assert code == 0
    assert out.split()[1:] == ["x", '{"price":', "3}"]
    code, out, _ = await state(stores, "watch", "pairs", "-n", "1", "-o", "jsonl")
    change = json.loads(out)
    assert (change["change"], change["key"]) == ("updated", ["p", 2])
    assert change["row"]["payload"] == '{"a": "p", "b": 2, "c": 3}'


async def test_what_leaves_is_printed(stores: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*QUORATE, "state", "watch", "orders", "-n", "3", "-o", "jsonl", "--stores", stores),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    changes = [json.loads(await process.stdout.readline()) for _ in range(3)]
    assert changes[2]["change"] == "completed"
    code, out, err = await state(stores, "delete", "orders", "x", "z")
    assert (code, out) == (1, "")
    assert "1 deleted in orders." in err
    assert "No row has the key z." in err
    left = json.loads(await process.stdout.readline())
    assert (left["change"], left["key"], left["reason"]) == ("left", "x", "deleted")
    assert await process.wait() == 0


async def test_rows_are_deleted_by_a_condition(stores: str) -> None:
    code, out, _ = await state(
        stores, "delete", "orders", "--where", "price > 1", "--session-id", "7", "-o", "json"
    )
    assert (code, json.loads(out)["deleted"]) == (0, 2)
    code, _, err = await state(stores, "delete", "orders")
    assert code == 2
    assert "give keys, or --where with a condition, and not both" in err
    code, _, err = await state(stores, "delete", "orders", "x", "--where", "price = 1")
    assert code == 2


async def test_sql_is_answered(stores: str) -> None:
    pytest.importorskip("duckdb", reason="the extra query is not installed")
    statement = "select count(*) as n, sum(price) as total, avg(price) as mean from rows"
    code, out, _ = await state(stores, "sql", "orders", statement, "-o", "jsonl")
    assert (code, json.loads(out)) == (0, {"n": 2, "total": 5, "mean": 2.5})
    code, out, err = await state(stores, "sql", "orders", 'select "$key" as id from rows')
    assert code == 0
    assert out.split()[:2] == ["Answer", "id"]
    assert "2 rows; position: [" in err
    code, _, err = await state(stores, "sql", "orders", "select nothing from rows")
    assert code == 2
    assert "nothing" in err


def test_values_of_an_answer_are_plain() -> None:
    for value in (1, 1.5, "a", None, True):
        assert plain(value) is value
    assert plain(Decimal("7")) == 7
    assert plain(Decimal("7.5")) == 7.5
    assert plain(b"\xff") == "\\xff"
    assert plain({"a": [b"x", Decimal(1)]}) == {"a": ["x", 1]}
    assert plain(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00+00:00"
    assert plain(date(2026, 1, 2)) == "2026-01-02"


async def test_the_past_is_printed(stores: str) -> None:
    code, out, _ = await state(stores, "count", "orders", "--as-of", "-1h")
    assert (code, out) == (0, "0\n")


async def test_rows_are_got_queried_and_counted(stores: str) -> None:
    code, out, err = await state(stores, "query", "orders", "--order-by", "-price")
    assert code == 0
    assert out.index('{"price": 3}') < out.index('{"price": 2}')
    assert "2 rows; position: [" in err
    code, out, _ = await state(
        stores, "query", "orders", "--where", "price = 2", "--select", "price", "-o", "jsonl"
    )
    assert (code, json.loads(out)["payload"]) == (0, '{"price":2}')
    _, _, err = await state(stores, "query", "orders", "--limit", "1")
    assert "1 row; position: [" in err
    code, out, _ = await state(stores, "get", "orders", "x", "y", "-o", "json")
    assert [row["key"] for row in json.loads(out)] == ["x", "y"]
    code, out, _ = await state(stores, "get", "pairs", '["p", 2]', "-o", "jsonl")
    assert (code, json.loads(out)["sequence"]) == (0, 0)
    code, out, _ = await state(stores, "count", "orders")
    assert (code, out) == (0, "2\n")
    code, out, _ = await state(stores, "count", "orders", "--where", "price > 2", "-o", "json")
    assert json.loads(out) == {"topic": "orders", "rows": 1}


async def test_the_status_says_how_far_rows_are(stores: str) -> None:
    _, out, _ = await quorate("status", "--stores", stores, "-o", "json")
    rows = {each["topic"]: each["rows"] for each in json.loads(out)["sources"]}
    assert set(rows["orders"]) == set("abc")
    assert all(each["left_out"] == 0 for each in rows["pairs"].values())
    assert {each["lacks_upto"] for each in rows["orders"].values()} == {-1}


async def test_what_fails_says_why(stores: str) -> None:
    code, out, err = await state(stores, "get", "orders", "x", "z")
    assert code == 1
    assert "x" in out
    assert "No row has the key z." in err
    code, _, err = await state(stores, "query", "trades", "--timeout", "1")
    assert code == 1
    assert "names no keys" in err
    code, _, err = await state(stores, "query", "orders", "--where", "price >")
    assert code == 2
    assert "expected" in err
    code, _, err = await state(stores, "get", "pairs", "[1")
    assert code == 2
    assert "no array in JSON" in err
