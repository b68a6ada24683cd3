"""`quorate conflict settle` as a user has it, against real stores."""

from __future__ import annotations

import json

import pytest
from tests.console.commands.test_repair import Group
from tests.console.commands.test_repair import group as group
from tests.store.support import ORDERS, payload

pytestmark = pytest.mark.processes

COMPLAINTS = "hold other content|settled by an operator"
WHY = ("--reason", "an old disk, says Ada")


async def differing(group: Group) -> None:
    await group.fill(0, 49)
    await group.fill(1, 49, salt="other ")
    assert (await group.quorate("repair")).code == 1


@pytest.mark.expects_log(COMPLAINTS)
async def test_status_names_the_stores_the_range_and_the_commands(group: Group) -> None:
    await differing(group)
    result = await group.quorate("status", "-o", "json")
    assert result.code == 10
    (row,) = json.loads(result.out)["conflicts"]
    command = f"quorate conflict settle --source {ORDERS} --keep"
    assert row == {
        "topic": "orders",
        "session_id": "0x10",
        "ranges": ["[0, 49]"],
        "stores": ["s1", "s2"],
        "settle": [f"{command} s1 --reason WHY", f"{command} s2 --reason WHY"],
    }
    result = await group.quorate("status")
    assert result.code == 10
    assert "Stores s1 and s2 hold different content for [0, 49] of orders/0x10" in result.err
    assert f"`{command} s2 --reason WHY`" in result.err


@pytest.mark.expects_log(COMPLAINTS)
async def test_a_conflict_is_shown_confirmed_and_settled(group: Group) -> None:
    await differing(group)
    settle = ("conflict", "settle", "--source", str(ORDERS), "--keep")
    result = await group.quorate(*settle, "s2", *WHY)
    assert result.code == 2, "nobody can be asked"
    assert "s1 sets [0, 49] aside, and fetches what s2 has" in result.err
    result = await group.quorate(*settle, "s2", *WHY, "--yes", "-o", "json")
    assert result.code == 0, result.err
    assert [
        (row["store"], row["recorded"], row["set_aside"]) for row in json.loads(result.out)
    ] == [
        ("s1", True, 50),
        ("s2", True, 0),
    ]
    result = await group.quorate("repair")
    assert result.code == 0, result.err
    for client in group.clients:
        assert (await client.fetch()).messages == {n: payload(n, "other ") for n in range(50)}
    result = await group.quorate("status", "-o", "json")
    assert result.code == 0, result.err
    shown = json.loads(result.out)
    assert shown["conflicts"] == []
    assert {row["lost"] for row in shown["losses"]} == {"nothing: [0, 49] is kept as s2 has it"}
    result = await group.quorate(*settle, "s2", *WHY, "--yes")
    assert result.code == 2
    assert "is in no conflict" in result.err


@pytest.mark.expects_log(COMPLAINTS)
async def test_only_a_store_that_answers_and_knows_the_source_is_kept(group: Group) -> None:
    await differing(group)
    settle = ("conflict", "settle", *WHY, "--yes", "--keep")
    result = await group.quorate(*settle, "s9", "--source", str(ORDERS))
    assert (result.code, "'s9' is none of s1, s2" in result.err) == (2, True)
    result = await group.quorate(*settle, "s1", "--source", "orders/0x99")
    assert (result.code, "does not know orders/0x99" in result.err) == (2, True)
    group.stores += ",s3=127.0.0.1:1"
    result = await group.quorate(*settle, "s3", "--source", str(ORDERS))
    assert result.code == 69
