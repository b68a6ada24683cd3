"""`quorate store aside`: messages that no stream has any more can be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.store.support import ORDERS, TRADES, Client, batch, payload, running
from typer.testing import CliRunner, Result

from quorate.console.commands.aside import _print_ranges
from quorate.console.main import app
from quorate.console.ui.output import Output
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.reader import (
    SetAside,
    StoredBatch,
)
from quorate.store.storage.rocksdb import RocksStorage

pytestmark = pytest.mark.expects_log("messages aside")

# Epoch 2 keeps nothing from 15 on, in the middle of a batch, and epoch 4 nothing from 17 on.
LINEAGES = (
    Lineage((Term(1, 0), Term(2, 15))),
    Lineage((Term(1, 0), Term(2, 15), Term(4, 17))),
)


def aside(directory: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["store", "aside", str(directory), *options])


@pytest.fixture
async def directory(tmp_path: Path) -> Path:
    """Of a store that has set aside twice of one source, and nothing of another."""
    path = tmp_path / "data"
    async with running(path) as node, Client(node.address) as client:
        stream = await client.stream()
        for first in range(0, 40, 10):
            await stream.batch(batch(first, first + 9, key=b"k"))
        await stream.durable(39)
        await stream.close()
        await client.promise(2)
        await client.begin(LINEAGES[0])
        stream = await client.open(2, retained_from=15)
        await stream.batch(batch(15, 19, epoch=2))
        await stream.durable(19)
        await stream.close()
        await client.promise(4)
        await client.begin(LINEAGES[1])
        await (await client.stream(source=TRADES)).append(0, 9, source=TRADES)
    return path


def test_ranges_by_source_and_epoch(directory: Path) -> None:
    result = aside(directory, "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == [
        {
            "topic": "orders",
            "session_id": "0x10",
            "epoch": epoch,
            "first": first,
            "last": last,
            "messages": last - first + 1,
            "bytes": sum(len(payload(number)) for number in range(first, last + 1)),
            "unreadable": 0,
        }
        for epoch, first, last in ((1, 15, 39), (2, 17, 19))
    ]
    lines = aside(directory, "-o", "jsonl").stdout.splitlines()
    assert list(map(json.loads, lines)) == json.loads(result.stdout)
    shown = aside(directory).stdout
    assert "Set aside" in shown
    assert "17" in shown


def test_the_messages_themselves(directory: Path) -> None:
    result = aside(directory, "--messages")
    assert result.exit_code == 0, result.stderr
    numbers = [*range(15, 40), *range(17, 20)]
    assert result.stdout_bytes.splitlines() == list(map(payload, numbers))
    rows = json.loads(aside(directory, "--messages", "-o", "json").stdout)
    assert [row["sequence"] for row in rows] == numbers
    assert [row["epoch"] for row in rows] == [1] * 25 + [2] * 3
    assert rows[0] == {
        "topic": "orders",
        "session_id": "0x10",
        "sequence": 15,
        "epoch": 1,
        "time": "2023-11-14T22:13:20+00:00",
        "timestamp_ns": 1_700_000_000_000_000_000,
        "key": "k",
        "payload": "message 15",
    }


def test_of_one_source(directory: Path) -> None:
    assert len(json.loads(aside(directory, "--source", str(ORDERS), "-o", "json").stdout)) == 2
    nothing = aside(directory, "--source", str(TRADES))
    assert (nothing.exit_code, nothing.stdout) == (0, "Set aside: nothing\n")
    assert aside(directory, "--source", str(TRADES), "--messages", "-o", "json").stdout == "[]\n"
    unknown = aside(directory, "--source", "orders/0x99")
    assert unknown.exit_code == 2
    assert "it has orders/0x10, trades/0x11" in unknown.stderr


def test_what_can_not_be_read_is_named(directory: Path) -> None:
    storage = RocksStorage(directory / "rocksdb", create=False)
    (key, value), *_ = (
        row for row in storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 9) if payload(25) in row[1]
    )
    storage.write((Write(Table.JOURNAL, key, value.replace(payload(25), b"_" * 10)),))
    storage.sync()
    storage.close()
    result = aside(directory, "-o", "json")
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)
    assert (first["messages"], first["unreadable"], second["unreadable"]) == (25, 10, 0)
    assert first["bytes"] == 15 * len(payload(15))
    assert "[20, 29] of orders/0x10, epoch 1, cannot be read" in result.stderr
    result = aside(directory, "--messages")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 18


def test_ranges_that_do_not_follow_each_other_are_shown_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = Range(0, 4), Range(5, 9), Range(11, 14), Range(12, 14)
    found = [(ORDERS, SetAside(1, StoredBatch(part, b"", "it is lost"))) for part in parts]
    assert len(_print_ranges(found, Output.JSON)) == 4
    shown = [(row["first"], row["last"]) for row in json.loads(capsys.readouterr().out)]
    assert shown == [(0, 9), (11, 14), (12, 14)]


async def test_a_store_that_runs_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path):
        result = aside(tmp_path)
    assert result.exit_code != 0
    assert "is in use" in result.stderr
