"""`quorate topics`, `sources`, `receivers` and `subscribers` as a user has them."""

from __future__ import annotations

import json
import os
import socket
from typing import Any, cast

import pytest
from tests.console.commands.test_repair import Group, group
from typer.testing import CliRunner

from quorate.client import connect
from quorate.console.main import app

__all__ = ["group"]

pytestmark = pytest.mark.processes

NONE_ANSWERS = ("--stores", "s3=127.0.0.1:9")


async def listed_as_stable(group: Group, upto: int) -> dict[str, Any]:
    """Wait until the stores were told how far the only source is stable. Return its row."""
    while True:
        result = await group.quorate("sources", "-o", "json")
        assert result.code == 0, result.err
        (row,) = json.loads(result.out)["sources"]
        if row["stable_upto"] == upto:
            return cast("dict[str, Any]", row)


async def test_people_find_their_applications_by_name(group: Group) -> None:
    async with (
        connect(group.stores, name="pricing") as pricing,
        connect(group.stores, name="risk") as risk,
        await pricing.source("orders", session_id=1) as orders,
        await risk.receiver("orders", session_id=2),
        await risk.subscriber("orders", begin="epoch"),
    ):
        await orders.publish(b"one")
        row = await listed_as_stable(group, 0)
        assert (row["topic"], row["session_id"], row["state"]) == ("orders", "0x1", "live")
        assert (row["newest"], row["stable_upto"], row["stores"]) == (0, 0, ["s1", "s2"])
        who = row["application"]
        assert (who["name"], who["host"]) == ("pricing", socket.gethostname())
        assert who["process_id"] == os.getpid()
        (row,) = (await group.quorate("receivers", "-o", "jsonl")).rows()
        assert (row["source"], row["session_id"]) == ("0x1", "0x2")
        assert row["application"]["name"] == "risk"
        (row,) = (await group.quorate("subscribers", "-o", "jsonl")).rows()
        assert row["application"]["name"] == "risk"
        (row,) = (await group.quorate("topics", "-o", "jsonl")).rows()
        assert (row["topic"], row["sources"], row["live"]) == ("orders", 1, 1)
        assert (await group.quorate("sources", "--application", "risk", "-o", "jsonl")).out == ""
        result = await group.quorate("sources", "--application", "pric", "--sort", "-bytes")
        assert f"pricing ({socket.gethostname()}:{os.getpid()})" in result.out
        assert "`quorate deregister --source TOPIC/SESSION`" in result.err


async def test_a_store_that_does_not_answer_is_said_and_the_others_are_listed(group: Group) -> None:
    await group.fill(0, 9)
    named = f"{group.stores},s3=127.0.0.1:9"
    for name in ("topics", "sources", "receivers", "subscribers"):
        result = await group.quorate(name, "--stores", named)
        assert result.code == 10
        assert "127.0.0.1:9 cannot be reached" in result.err
        assert result.out.strip().startswith(name.capitalize())
        assert (await group.quorate(name, *NONE_ANSWERS)).code == 69


async def test_no_more_rows_than_wanted(group: Group) -> None:
    await group.fill(0, 9)
    result = await group.quorate("sources", "--limit", "1", "--topic", "other")
    assert "Sources: none" in result.out
    result = await group.quorate("sources", "--limit", "1", "--state", "away")
    assert "orders" in result.out


def test_a_column_that_there_is_not() -> None:
    arguments = ["sources", "--stores", "127.0.0.1:9", "--sort", "size"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "'size' is none of topic, session_id, " in result.output
