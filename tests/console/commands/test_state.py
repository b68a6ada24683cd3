"""`quorate state` as a user has it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores

from quorate.client import connect
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


async def state(stores: str, *arguments: str) -> tuple[int | None, str, str]:
    """Exit code, stdout and stderr of the command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "state", *arguments, "--stores", stores),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_rows_are_got_queried_and_counted(stores: str) -> None:
    code, out, err = await state(stores, "query", "orders", "--order-by", "-price")
    assert code == 0
    assert out.index('{"price": 3}') < out.index('{"price": 2}')
    assert "2 rows; position: [" in err
    code, out, _ = await state(
        stores, "query", "orders", "--where", "price = 2", "--select", "price", "-o", "jsonl"
    )
    assert (code, json.loads(out)["payload"]) == (0, '{"price":2}')
    code, out, _ = await state(stores, "get", "orders", "x", "y", "-o", "json")
    assert [row["key"] for row in json.loads(out)] == ["x", "y"]
    code, out, _ = await state(stores, "get", "pairs", '["p", 2]', "-o", "jsonl")
    assert (code, json.loads(out)["sequence"]) == (0, 0)
    code, out, _ = await state(stores, "count", "orders")
    assert (code, out) == (0, "2\n")
    code, out, _ = await state(stores, "count", "orders", "--where", "price > 2", "-o", "json")
    assert json.loads(out) == {"topic": "orders", "rows": 1}


async def test_the_status_says_how_far_rows_are(stores: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "status", "--stores", stores, "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
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
