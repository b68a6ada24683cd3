"""Operators add, remove and replace stores with the command, while a source runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.end_to_end.growing import GrowingGroup

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.expects_log("does not take|lost its quorum|does not register|came back without"),
]

POLICIES = "policies in force"
PEERS = "each other as peers"


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[GrowingGroup]:
    async with GrowingGroup(tmp_path) as group:
        await group.found("abc")
        yield group


async def test_a_group_grows_and_shrinks_and_loses_nothing(group: GrowingGroup) -> None:
    group.place("d")
    source = await group.source("abc")
    for number in range(100):
        await source.send(b"%d" % number)
    await source.flush()

    change = ("store", "add", group.text("d"), "--yes", "-o", "jsonl", "--stores")
    command = await group.command(*change, group.text("abc"))
    step = await command.until_waiting("d runs at")
    assert any(group.addresses["a"] in line for line in step["to_do"])
    await group.start("d", "abcd")
    step = await command.until_waiting(POLICIES)
    assert "[[previous]]" in step["to_do"]
    assert await command.interrupt() == 130

    await source.close()
    source = await group.source("abcd", "abc")
    command = await group.command(*change, group.text("abcd"))
    await command.until_waiting(PEERS)
    await group.restart("abc", "abcd")
    assert await command.ended() == 0

    await source.publish(b"100")
    change = ("store", "remove", "a", "--yes", "-o", "jsonl", "--stores")
    command = await group.command(*change, group.text("abcd"))
    await command.until_waiting(POLICIES)
    await source.close()
    source = await group.source("bcd", "abcd")
    await command.until_waiting("a has stopped")
    await group.stop("a")
    await command.until_waiting(PEERS)
    await group.restart("bcd", "bcd")
    assert await command.ended() == 0

    receipt = await source.publish(b"101")
    assert receipt.sequence == 101
    await source.close()
    assert await group.read("bcd", 101) == [b"%d" % number for number in range(102)]


async def test_sources_that_do_not_run_are_moved_by_the_command(group: GrowingGroup) -> None:
    source = await group.source("abc")
    await source.send_many([b"%d" % number for number in range(100)])
    await source.close()
    group.place("d")
    await group.start("d", "abd")
    await group.stop("c")
    command = await group.command(
        *("store", "replace", "c", group.text("d"), "--move-away", "--yes", "-o", "jsonl"),
        *("--stores", group.text("abc")),
    )
    await command.until_waiting(PEERS)
    await group.restart("ab", "abd")
    assert await command.ended() == 0
    source = await group.source("abd")
    assert (await source.publish(b"100")).sequence == 100
    await source.close()
    assert await group.read("abd", 100) == [b"%d" % number for number in range(101)]


async def test_a_store_with_a_lost_disk_and_one_that_moves_are_replaced(
    group: GrowingGroup,
) -> None:
    source = await group.source("abc")
    for number in range(100):
        await source.send(b"%d" % number)
    await source.flush()
    text = await group.quorate("store", "replace", "c", "--stores", group.text("abc"), code=2)
    assert "c runs and lacks nothing" in text

    await group.stop("c")
    (group.path / "c").rename(group.path / "lost")
    stores = ("--stores", group.text("abc"))
    command = await group.command("store", "replace", "c", "--yes", "-o", "jsonl", *stores)
    await command.until_waiting("c runs at")
    await group.start("c", "abc")
    assert await command.ended() == 0

    before = group.addresses["c"]
    group.place("c")
    moved = ("store", "replace", "c", group.text("c"), "--yes", "-o", "jsonl")
    command = await group.command(*moved, *stores)
    await command.until_waiting("c has stopped")
    await group.stop("c")
    await command.until_waiting("c runs at")
    await group.start("c", "abc")
    step = await command.until_waiting("sources that run reach it")
    assert any(f"c={before}" in line for line in step["to_do"])
    await source.close()
    source = await group.source("abc")
    await command.until_waiting(PEERS)
    await group.restart("ab", "abc")
    assert await command.ended() == 0
    await source.publish(b"100")
    await source.close()
    assert await group.read("abc", 100) == [b"%d" % number for number in range(101)]
