"""docs/state.md says what is: its configuration is read, and each program runs against stores."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.documents import Document
from tests.source.real_stores import RealStores

from quorate.client import State, connect
from quorate.source import SourceOptions
from quorate.store.configuration import load

PAGE = Document("state")
TEXT, CODE, TOML = PAGE.text, PAGE.blocks("python"), PAGE.block("toml")
ORDERS = [
    {"id": 1, "status": "open", "price": 5},
    {"id": 2, "status": "open", "price": 7},
    {"id": 3, "status": "open", "price": 9},
    {"id": 3, "status": "done", "price": 9},
    {"id": 4, "status": "open", "price": 7},
]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[str]:
    made = RealStores(tmp_path)
    made.settings = {name: {"topic": tomllib.loads(TOML)["topic"]} for name in "abc"}
    await made.start("abc")
    named = made.named("abc")
    async with connect(named) as client:
        quick = SourceOptions(registration_interval=0.3)
        async with client.source("orders", session_id=1, options=quick) as source:
            for order in ORDERS:
                await source.send(json.dumps(order).encode(), key=str(order["id"]).encode())
            await source.flush()
    yield named
    await made.stop_all()


async def test_the_programs(stores: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await PAGE.defined("write_and_read")(stores, b"9", b"{}") == b"{}"
    table = await PAGE.defined("follow")(stores, 5)
    assert table[b"3"] == ORDERS[3]
    found = await PAGE.defined("open_orders")(stores)
    assert [order["id"] for order in found] == [2, 4, 1]
    assert capsys.readouterr().out.startswith("3 of 5 orders, at [")
    assert await PAGE.defined("remove_done")(stores) == 1


async def test_the_program_with_sql(stores: str) -> None:
    pytest.importorskip("duckdb", reason="the extra query is not installed")
    assert await PAGE.defined("totals")(stores) == [
        {"status": "done", "orders": 1, "highest": 9},
        {"status": "open", "orders": 3, "highest": 7},
    ]


async def test_the_program_that_watches(stores: str) -> None:
    watching = asyncio.create_task(PAGE.defined("open_until_empty")(stores))
    quick = SourceOptions(registration_interval=0.3)
    async with connect(stores) as client, client.source("orders", session_id=2, options=quick) as s:
        for key in (b"1", b"2", b"4"):
            await s.delete(key)
        while not watching.done():  # it may begin after the deletions
            await s.publish(json.dumps({"id": 7, "status": "open"}).encode(), b"7")
            await s.delete(b"7")
            await s.flush()
    left = [json.loads(payload)["id"] for payload in await watching]
    assert left
    assert set(left) <= {1, 2, 4, 7}


def test_each_program_is_run() -> None:
    names = {name for code in CODE for name in re.findall(r"^(?:async )?def (\w+)", code, re.M)}
    assert names == {
        "open_orders",
        "write_and_read",
        "follow",
        "open_until_empty",
        "remove_done",
        "totals",
    }


def test_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "store.toml"
    path.write_text('name = "s1"\ndata_directory = "/data"\n' + TOML)
    configuration = load(path)
    assert configuration.keying_of("orders")
    positions = configuration.keying_of("positions-eu")
    assert positions is not None
    assert positions.text == '["account", "instrument.id", "null"]'


def test_the_methods_that_the_table_lists() -> None:
    section = TEXT[TEXT.index("| method |") :].split("\n\n")[0]
    named = re.findall(r"^\| `(\w+)\(", section, re.M)
    wanted = {"get", "query", "batches", "count", "query_and_subscribe", "watch", "sql", "delete"}
    assert sorted(named) == sorted(wanted)
    assert all(hasattr(State, name) for name in named)


def test_the_commands_are_those_that_the_command_has() -> None:
    from typer.main import get_command

    from quorate.console.commands.state import state

    known = get_command(state).commands  # type: ignore[attr-defined]
    console = PAGE.block("console")
    for line in console.splitlines():
        if not line.startswith("$ "):
            continue  # it is the output
        _, _, _, name, *arguments = shlex.split(line)
        options = {each for parameter in known[name].params for each in parameter.opts}
        assert {each for each in arguments if each.startswith("--")} <= options
