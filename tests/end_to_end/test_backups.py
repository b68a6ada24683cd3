"""A whole group is backed up while it runs, loses all disks, and is founded anew."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.end_to_end.growing import GrowingGroup

from quorate.client import connect
from quorate.console.group.status import ask

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.expects_log(
        "does not take|lost its quorum|does not register|came back without|cannot be heard|"
        "refused an acknowledgement|is withdrawn|waits for more stores|is missing"
    ),
]


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[GrowingGroup]:
    async with GrowingGroup(tmp_path) as group:
        await group.found("abc")
        yield group


async def restored(group: GrowingGroup, names: str, *options: str, code: int = 0) -> str:
    """Restore these stores from the backup, and return what the commands printed."""
    said = ""
    for name in names:
        where = ("--name", name, "--data-directory", str(group.path / name))
        backup = str(group.path / "backup")
        said += await group.quorate("store", "restore", backup, *where, *options, code=code)
    return said


async def received(group: GrowingGroup, last: int) -> int:
    """Receive messages up to this number, and return the first number that came."""
    first = -1
    async with (
        connect(group.text("abc")) as client,
        client.receiver("orders", session_id=9, delivery="stable") as receiver,
    ):
        async for message in receiver:
            first = message.sequence if first < 0 else first
            if message.sequence == last:
                break
    return first


async def lose(group: GrowingGroup, names: str) -> None:
    await asyncio.gather(*(group.children[name].kill() for name in names))
    for name in names:
        shutil.rmtree(group.path / name)


async def test_all_disks_are_lost_and_nothing_that_was_stable_in_the_backup(
    group: GrowingGroup,
) -> None:
    stores = ("--stores", group.text("abc"))
    source = await group.source("abc")
    for number in range(500):
        await source.send(b"%d" % number)
    await source.flush()
    assert await received(group, 199) == 0

    sending = asyncio.create_task(source.send_many([b"%d" % n for n in range(500, 2000)]))
    await group.quorate("store", "backup", str(group.path / "backup"), *stores, code=0)
    await sending
    await source.close()
    assert "not empty" in await group.quorate(
        "store", "backup", str(group.path / "backup"), *stores, code=2
    )

    await lose(group, "abc")
    await restored(group, "abc", "--whole-group")
    assert "has been used" in await restored(group, "a", "--whole-group", code=78)
    for name in "abc":
        await group.start(name, "abc")
    status = await ask(group.addresses["a"], 5.0)
    (known,) = status.sources
    # A tail behind it may be there, too. Nobody knows that as stable until the source is back.
    last = known.stable_upto
    assert last >= 499
    assert await group.read("abc", last) == [b"%d" % number for number in range(last + 1)]

    source = await group.source("abc")
    following = source.next_sequence
    assert following > last
    receipt = await source.publish(b"%d" % following)
    assert receipt.sequence == following
    await source.close()
    # A message is acknowledged when the next one is taken.
    assert await received(group, 300) in (199, 200)
    await group.quorate("status", "--wait", "30", *stores, code=0)


async def test_a_receiver_that_lives_on_takes_no_message_for_another_one(
    group: GrowingGroup,
) -> None:
    """It had messages that the backup lacks. Others get their numbers, in an epoch of their own."""
    source = await group.source("abc")
    await source.send_many([b"before %d" % number for number in range(100)])
    await source.close()
    stores = ("--stores", group.text("abc"))
    await group.quorate("store", "backup", str(group.path / "backup"), *stores, code=0)
    source = await group.source("abc")
    await source.send_many([b"lost %d" % number for number in range(100, 150)])
    await source.close()
    found: list[bytes] = []
    async with (
        connect(group.text("abc")) as client,
        client.receiver("orders", session_id=9, delivery="stable") as receiver,
    ):
        async for message in receiver:
            found.append(message.payload)
            if message.sequence == 149:
                break
        await lose(group, "abc")
        await restored(group, "abc", "--whole-group")
        for name in "abc":
            await group.start(name, "abc")
        source = await group.source("abc")
        assert source.next_sequence == 100
        await source.send_many([b"new %d" % number for number in range(100, 110)])
        await source.flush()
        async with asyncio.timeout(60):
            async for message in receiver:
                found.append(message.payload)
                if message.payload == b"new 109":
                    break
        await source.close()
    assert found[-10:] == [b"new %d" % number for number in range(100, 110)]


@pytest.mark.expects_log("is in limbo for")
async def test_a_living_peer_contradicts_a_store_that_was_put_back(group: GrowingGroup) -> None:
    """The operator says that the whole group is lost, and it is not."""
    source = await group.source("abc")
    for number in range(100):
        await source.send(b"%d" % number)
    await source.flush()
    stores = ("--stores", group.text("abc"))
    await group.quorate("store", "backup", str(group.path / "backup"), *stores, code=0)
    for number in range(100, 200):
        await source.send(b"%d" % number)
    await source.flush()
    for options in (("--whole-group",), ()):
        await lose(group, "a")
        await restored(group, "a", *options)
        await group.start("a", "abc")
        assert "limbo" in group.children["a"].log.read_text()
        await group.quorate("status", "--wait", "60", *stores, code=0)
        status = await ask(group.addresses["a"], 5.0)
        assert status.sources[0].held[-1].last == 199
    await source.close()
    assert await group.read("abc", 199) == [b"%d" % number for number in range(200)]


async def test_a_backup_of_one_store_does_not_found_a_group(group: GrowingGroup) -> None:
    source = await group.source("abc")
    await source.publish(b"0")
    await source.close()
    stores = ("--stores", group.text("abc"))
    await group.stop("c")
    said = await group.quorate("store", "backup", str(group.path / "two"), *stores, code=0)
    assert "Store c is not in the backup" in said
    assert "has every message that was stable" in said
    await group.stop("b")
    said = await group.quorate("store", "backup", str(group.path / "backup"), *stores, code=1)
    assert "Store b is not in the backup" in said
    assert "may be in no part of the backup" in said
    await lose(group, "a")
    assert "the backup is not enough" in await restored(group, "a", "--whole-group", code=2)
    assert "it has a" in await restored(group, "b", code=2)


async def test_two_parts_and_a_blank_store_are_a_group(group: GrowingGroup) -> None:
    source = await group.source("abc")
    for number in range(100):
        await source.send(b"%d" % number)
    await source.flush()
    await source.close()
    await group.stop("a", "b", "c")
    data = [argument for name in "ab" for argument in ("--stopped", str(group.path / name))]
    await group.quorate("store", "backup", str(group.path / "backup"), *data, code=0)
    await lose(group, "abc")
    await restored(group, "ab", "--whole-group")
    for name in "abc":
        await group.start(name, "abc")
    await group.quorate("status", "--wait", "60", "--stores", group.text("abc"), code=0)
    await group.stop("a")
    source = await group.source("abc")
    assert (await source.publish(b"100")).sequence == 100
    await source.close()
    assert await group.read("bc", 100) == [b"%d" % number for number in range(101)]
