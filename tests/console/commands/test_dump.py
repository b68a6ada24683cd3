"""`quorate store dump`: what a stopped store has can be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.store.support import ORDERS, TRADES, Client, batch, payload, running
from typer.testing import CliRunner, Result

from quorate.console.commands.dump import _text
from quorate.console.group.repair import prospect_of_leaving
from quorate.console.main import app
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.wire import source_to_wire
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.rocksdb import RocksStorage
from quorate.v1 import store_pb2 as store_v1

RECEIVER = store_v1.RegisterReceiverRequest(
    source=source_to_wire(ORDERS),
    session_id=0x20,
    instance=b"r",
    epoch=1,
    protocol_version=PROTOCOL_VERSION,
)


def dump(directory: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["store", "dump", str(directory), *options])


@pytest.fixture
async def directory(tmp_path: Path) -> Path:
    """A store of two sources and a receiver, stopped."""
    path = tmp_path / "data"
    async with running(path) as node, Client(node.address) as client:
        stream = await client.stream()
        for first in range(0, 40, 10):
            await stream.batch(batch(first, first + 9, key=b"k"))
        await stream.durable(39)
        await client.call("RegisterReceiver", RECEIVER)
        await (await client.stream(source=TRADES)).append(0, 9, source=TRADES)
    return path


def test_sources_with_ranges_and_receivers_with_positions(directory: Path) -> None:
    result = dump(directory, "-o", "json")
    assert result.exit_code == 0, result.stderr
    shown = json.loads(result.stdout)
    assert shown["store"] == "s1"
    orders, trades = shown["sources"]
    assert (orders["topic"], orders["session_id"]) == ("orders", f"{ORDERS.session_id:#x}")
    assert (orders["held"], orders["holes"]) == (["[0, 39]"], [])
    assert trades["held"] == ["[0, 9]"]
    (receiver,) = shown["receivers"]
    assert (receiver["topic"], receiver["acknowledged_upto"]) == ("orders", -1)
    lines = dump(directory, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["source", "source", "receiver"]
    table = dump(directory).stdout
    assert "[0, 39]" in table
    assert "Receivers" in table


async def test_what_is_held_in_several_epochs_is_one_range(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with running(path) as node, Client(node.address) as client:
        await (await client.stream()).append(0, 9)
        await client.promise(2)
        await client.begin(Lineage((Term(1, 0), Term(2, 10))))
        await (await client.open(2)).append(10, 19, epoch=2)
        status = await client.status()
    (source,) = json.loads(dump(path, "-o", "json").stdout)["sources"]
    assert (source["epoch"], source["held"]) == (2, ["[0, 19]"])
    status.limbo = True
    store = StoreAddress("s1", node.address)
    _, said = prospect_of_leaving({store: status}, store, None).lines
    assert said == f"  {ORDERS}: s1 has [0, 19]"


def test_messages_from_a_number_on_so_many(directory: Path) -> None:
    options = ("--topic", "orders", "--from", "15", "--count", "3")
    result = dump(directory, *options, "-o", "json")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [row["sequence"] for row in rows] == [15, 16, 17]
    assert (rows[0]["key"], rows[0]["payload"]) == ("k", "message 15")
    table = dump(directory, *options).stdout
    assert "message 17" in table
    assert "message 18" not in table


def test_all_messages_and_those_with_some_bytes(directory: Path) -> None:
    lines = dump(directory, "--count", "0", "-o", "jsonl").stdout.splitlines()
    assert len(lines) == 50
    found = json.loads(dump(directory, "--grep", "age 7", "-o", "json").stdout)
    assert [(row["topic"], row["sequence"]) for row in found] == [("orders", 7), ("trades", 7)]
    by_key = json.loads(dump(directory, "--grep", "k", "--count", "0", "-o", "json").stdout)
    assert len(by_key) == 40
    assert dump(directory, "--grep", "nowhere").stdout == "Messages: none\n"


def test_of_one_session(directory: Path) -> None:
    session = f"{TRADES.session_id:#x}"
    (source,) = json.loads(dump(directory, "--session", session, "-o", "json").stdout)["sources"]
    assert source["topic"] == "trades"
    unknown = dump(directory, "--session", "0x99")
    assert unknown.exit_code == 2
    assert f"it has {ORDERS}, {TRADES}" in unknown.stderr


def test_bytes_that_are_no_text_are_escaped() -> None:
    assert _text("grün\n".encode() + b"\xff\x1b[2J") == "grün\\n\\xff\\x1b[2J"


def test_what_can_not_be_read_is_named(directory: Path) -> None:
    storage = RocksStorage(directory / "rocksdb", create=False)
    (key, value), *_ = (
        row for row in storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 9) if payload(25) in row[1]
    )
    storage.write((Write(Table.JOURNAL, key, value.replace(payload(25), b"_" * 10)),))
    storage.sync()
    storage.close()
    result = dump(directory, "--topic", "orders", "--messages", "-o", "jsonl")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 30
    assert f"[20, 29] of {ORDERS} cannot be read" in result.stderr


async def test_a_store_that_runs_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path):
        result = dump(tmp_path)
    assert result.exit_code != 0
    assert "is in use" in result.stderr
