"""A sending process that is killed at random moments loses nothing that a call has accepted.

The stores take all messages, or acknowledge none, or lose them. So the publish store has every kind
of rest: messages that were not packed, batches that stores have, and batches that no store has.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest
from tests.source import killed_sender
from tests.source.fake_store import FakeStore
from tests.source.support import addresses, open_source

from quorate.source import FilePublishStore

pytestmark = pytest.mark.processes

WAYS = [("asyncio", False), ("asyncio", True), ("blocking", False), ("blocking", True)]


class Accepted:
    """What the calls of all processes have accepted, by number."""

    def __init__(self) -> None:
        self.payloads: dict[int, bytes] = {}

    def take(self, output: bytes) -> None:
        """Take the lines of one process; the last one may be torn."""
        for line in output.split(b"\n")[:-1]:
            number, payload = line.split(b" ", 1)
            if int(number) >= 0:
                assert int(number) not in self.payloads, "one number for two messages"
                self.payloads[int(number)] = payload


async def one_life(
    stores: str, path: Path, how: str, sync: bool, run: int, seconds: float
) -> bytes:
    """Return what a process reported until it was killed, so many seconds after it had opened."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        killed_sender.__file__,
        *(stores, str(path), how, str(int(sync)), str(run)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"-1 open\n"
    rest = asyncio.create_task(process.stdout.read())
    await asyncio.sleep(seconds)
    process.kill()
    await process.wait()
    return await rest


async def survive(
    stores: list[FakeStore], path: Path, how: str, sync: bool, kills: int, seed: int
) -> None:
    """Kill a process so many times, and count what is missing at the end."""
    chance = random.Random(seed)
    accepted = Accepted()
    for run in range(kills):
        mood = chance.choice(("well", "mute", "deaf"))
        for store in stores:
            store.deaf = mood == "deaf"
            if mood == "mute":
                store.acknowledging.clear()
        seconds = chance.choice((0.0, 0.02, 0.1, 0.3)) * chance.random()
        accepted.take(await one_life(addresses(stores), path, how, sync, run, seconds))
        for store in stores:
            store.deaf = False
            store.acknowledge_again()
    async with await open_source(stores, publish_store=FilePublishStore(path)) as source:
        await source.flush(60)
    assert accepted.payloads
    for number, payload in accepted.payloads.items():
        held = [store.messages[number] for store in stores if number in store.messages]
        # A third store may have been skipped: these stores do not fetch from each other.
        assert held.count(payload) == len(held) >= 2, number


@pytest.mark.expects_log("lost its quorum|does not take")
@pytest.mark.parametrize(("how", "sync"), WAYS)
async def test_nothing_that_was_accepted_is_lost(
    stores: list[FakeStore], tmp_path: Path, how: str, sync: bool
) -> None:
    await survive(stores, tmp_path / "publish", how, sync, 2 if sync else 3, 1)


@pytest.mark.big
@pytest.mark.timeout(600)
@pytest.mark.expects_log("lost its quorum|does not take")
@pytest.mark.parametrize(("how", "sync"), WAYS)
async def test_nothing_is_lost_in_a_hundred_kills(
    stores: list[FakeStore], tmp_path: Path, how: str, sync: bool
) -> None:
    await survive(stores, tmp_path / "publish", how, sync, 25, 2)
