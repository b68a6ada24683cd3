"""`quorate journal` as a user has it, against real stores."""

from __future__ import annotations

import json

import pytest
from tests.console.commands.test_repair import Group, group
from typer.testing import CliRunner

from quorate.console.main import app
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.v1 import store_pb2 as store_v1

__all__ = ["group"]

pytestmark = pytest.mark.processes


async def test_what_is_recorded_and_who_reads_it(group: Group) -> None:
    await group.fill(0, 49)
    reading = group.clients[0].stub.Subscribe(
        store_v1.SubscribeRequest(
            protocol_version=PROTOCOL_VERSION, topic="orders", delivered=store_v1.DELIVERED_STABLE
        )
    )
    await reading.read()
    result = await group.quorate("journal", "-o", "json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert [row["messages"] for row in found["journal"]] == [50, 0]
    assert [row["topics"] for row in found["subscriptions"]] == ["orders"]
    result = await group.quorate("journal", "--by", "source", "-o", "jsonl")
    kinds = [row["kind"] for row in result.rows()]
    assert kinds == ["source", "subscription", "about"]
    result = await group.quorate("journal", "--by", "topic", "--topic", "none")
    assert result.code == 0
    assert "Journal: none" in result.out
    assert "Subscriptions: none" in result.out
    table = await group.quorate("journal")
    assert "from" in table.out
    reading.cancel()


async def test_a_store_that_does_not_answer_is_a_problem(group: Group) -> None:
    result = await group.quorate("journal", "--stores", f"{group.stores},s3=127.0.0.1:9")
    assert result.code == 10
    assert "127.0.0.1:9 cannot be reached" in result.err
    assert "s2" in result.out
    result = await group.quorate("journal", "--stores", "s3=127.0.0.1:9")
    assert result.code == 69


async def test_what_is_old_is_removed(group: Group) -> None:
    await group.fill(0, 49)
    result = await group.quorate("journal", "remove", "--older-than", "1s")
    assert result.code == 2
    assert "--yes: must be given" in result.err
    result = await group.quorate("journal", "remove", "--older-than", "1s", "--yes", "-o", "json")
    assert result.code == 0, result.err
    (row,) = json.loads(result.out)
    assert (row["store"], row["messages"], row["retained_from"]) == ("s1", 50, 50)
    result = await group.quorate("journal", "remove", "--older-than", "1s", "--yes")
    assert "Removed: nothing is that old" in result.out
    result = await group.quorate(
        *("journal", "remove", "--older-than", "1s", "--yes"),
        *("--stores", f"{group.stores},s3=127.0.0.1:9"),
    )
    assert result.code == 10
    assert "s3: 127.0.0.1:9 cannot be reached" in result.err


@pytest.mark.parametrize("age", ["week", "7", "-7d", ""])
def test_what_is_no_age(age: str) -> None:
    arguments = ["journal", "remove", "--stores", "127.0.0.1:9", f"--older-than={age}", "--yes"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "is no age; give one such as 7d or 12h" in result.output


def test_a_part_that_there_is_not() -> None:
    result = CliRunner().invoke(app, ["journal", "--stores", "127.0.0.1:9", "--by", "disk"])
    assert result.exit_code == 2
    assert "'disk' is none of store, topic, source" in result.output
