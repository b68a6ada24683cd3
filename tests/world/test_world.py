"""The code that ships, with its shells, in worlds of faults; and that a seed repeats a world."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import seams
from tests.world.group import address_of, layout_of
from tests.world.seeds import run_all
from tests.world.weather import run_world
from tests.world.world import Stuck, World

from quorate.client import connect
from quorate.client.replay import EPOCH, ReplayedMessage
from quorate.errors import NotRegistered
from quorate.protocol.layout import Layout

STORES = ",".join(f"{name}={address_of(name)}" for name in "abc")

pytestmark = pytest.mark.expects_log(".*")  # Faults are all that these worlds are about.


async def send(count: int, stores: str | Layout = STORES) -> list[tuple[int, bytes]]:
    sent = []
    async with connect(stores) as client, client.source("orders", session_id=1) as source:
        for number in range(count):
            receipt = await source.publish(b"message %d" % number)
            sent.append((receipt.sequence, b"message %d" % number))
    return sent


async def receive(count: int) -> list[tuple[int, bytes]]:
    taken = []
    async with (
        connect(STORES) as client,
        client.receiver("orders", session_id=2, start="earliest") as receiver,
    ):
        async for message in receiver:
            taken.append((message.sequence, message.payload))
            if len(taken) == count:
                break
    return taken


def test_a_receiver_takes_what_a_source_sends(tmp_path: Path) -> None:
    with World(1, tmp_path) as world:
        for name in "abc":
            world.start_store(name, STORES)
        receiving = world.start("receiver", lambda: receive(50))
        sent = world.finish(world.start("source", lambda: send(50)))
        assert world.finish(receiving) == sent


async def read_again(times: int) -> None:
    """Read a message, each time from another store than the time before."""
    async with connect(layout_of("backup")) as client:
        for _ in range(times):
            async with client.subscriber("orders", begin=EPOCH) as subscriber:
                async for item in subscriber:
                    if isinstance(item, ReplayedMessage):
                        break


def test_a_subscriber_never_waits_at_a_backup(tmp_path: Path) -> None:
    stores = f"{STORES},d={address_of('d')}"
    with World(3, tmp_path) as world:
        for name in "abcd":
            world.start_store(name, stores)
        world.start("source", lambda: send(100_000, layout_of("backup")))
        world.run_for(1.0)
        world.finish(world.start("reader", lambda: read_again(4)), 10.0)


def test_nothing_is_stable_without_a_quorum(tmp_path: Path) -> None:
    with World(2, tmp_path) as world:
        for name in "abc":
            world.start_store(name, STORES)
        sending = world.start("source", lambda: send(100_000))
        world.run_for(3.0)
        world.crash("a")
        world.crash("b")
        # The last message waits, or was refused if the quorum was gone before.
        with pytest.raises((Stuck, NotRegistered)):
            world.finish(sending, 30.0)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_stable_is_read_back_after_any_faults(seed: int, tmp_path: Path) -> None:
    told = run_world(seed, tmp_path)
    assert told.stable > 10
    assert told.faults.total() > 5


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_more_worlds(seed: int, tmp_path: Path) -> None:
    run_world(seed, tmp_path)


@pytest.mark.big
@pytest.mark.timeout(3600)
def test_everything_holds_in_the_known_worlds() -> None:
    tally = run_all(range(200, 400), 1, lambda _: None)
    assert tally.problems() == []


def run_worlds(seeds: range, directory: Path) -> None:
    for seed in seeds:
        run_world(seed, directory / str(seed))


def test_a_store_that_does_not_sync_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.MEMORY_STORAGE_SYNC.replace(monkeypatch, lambda _: None)
    with pytest.raises((AssertionError, Stuck)):
        run_worlds(range(10), tmp_path)


def test_a_seed_repeats_a_world(tmp_path: Path) -> None:
    first = run_world(7, tmp_path / "one")
    assert run_world(7, tmp_path / "other") == first


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_seed_is_one_world_in_each_process() -> None:
    """Also where texts have other hashes, so that sets of them have another order."""
    told = {
        subprocess.run(
            [sys.executable, "-m", "tests.world", "--first", "7", "--seeds", "1"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hashed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashed in ("1", "2")
    }
    assert len(told) == 1
    assert "seed 7 holds: " in told.pop()
