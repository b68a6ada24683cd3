"""The networks that partitions are told in: they cut what they should, and leave nothing behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest
from tests.end_to_end.namespaces import NamedPlaces, Namespaces, remove_abandoned, why_not
from tests.end_to_end.network import Place
from tests.end_to_end.processes import environment

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(reason := why_not()), reason=f"needs network namespaces: {reason}"),
]

_HEAR = """
import socket, sys
host, port = sys.argv[1].split(":")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
    heard.bind((host, int(port)))
    print("ready", flush=True)
    while True:
        print(heard.recv(100).decode(), flush=True)
"""
_SAY = """
import socket, sys
host, port = sys.argv[1].split(":")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as said:
    said.sendto(sys.argv[2].encode(), (host, int(port)))
"""


def _namespaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listed.stdout.splitlines()}


async def _say(network: Namespaces, sender: str, receiver: str, what: str) -> None:
    there, here = await network.place(receiver), await network.place(sender)
    process = await asyncio.create_subprocess_exec(
        *here.command, sys.executable, "-c", _SAY, there.address, what
    )
    assert await process.wait() == 0


def _address(place: Place, name: str) -> str:
    """The address that a name leads to, as seen from a place; empty: it leads nowhere."""
    looked = subprocess.run(
        [*place.command, "getent", "hosts", name], capture_output=True, text=True, check=False
    )
    return looked.stdout.partition(" ")[0]


async def test_what_is_severed_is_silent_one_way_until_it_is_joined() -> None:
    before = _namespaces()
    async with Namespaces() as network:
        place = await network.place("one")
        await network.place("two")
        await network.place("three")
        listening = await asyncio.create_subprocess_exec(
            *place.command, sys.executable, "-c", _HEAR, place.listen, stdin=DEVNULL, stdout=PIPE
        )
        assert listening.stdout is not None
        assert await listening.stdout.readline() == b"ready\n"
        network.sever("two", "one")
        await _say(network, "two", "one", "severed")
        await _say(network, "three", "one", "not concerned")
        assert await listening.stdout.readline() == b"not concerned\n"
        network.join("two", "one")
        network.sever("one", "two")
        await _say(network, "two", "one", "joined")
        assert await listening.stdout.readline() == b"joined\n"
        network.stall("one", "there")
        await _say(network, "three", "one", "stalled")
        network.heal("one", "there")
        await _say(network, "three", "one", "healed")
        assert await listening.stdout.readline() == b"healed\n"
    # What still ran in it was ended with it.
    assert await listening.wait() < 0
    assert _namespaces() == before


async def test_a_place_that_has_moved_is_found_by_its_name(tmp_path: Path) -> None:
    async with NamedPlaces(tmp_path / "hosts") as network:
        place = await network.place("one")
        there = await network.place("two")
        listening = await asyncio.create_subprocess_exec(
            *(*place.command, sys.executable, "-c", _HEAR, "0.0.0.0:7301"),
            stdin=DEVNULL,
            stdout=PIPE,
        )
        assert listening.stdout is not None
        assert await listening.stdout.readline() == b"ready\n"
        before = _address(there, "one")
        assert before
        await _say(network, "two", "one", "here")
        assert await listening.stdout.readline() == b"here\n"
        network.forget("one")
        assert _address(there, "one") == ""
        network.move("one")
        assert _address(there, "one") not in ("", before)
        await _say(network, "two", "one", "there")
        assert await listening.stdout.readline() == b"there\n"
    assert await listening.wait() < 0


async def test_the_names_are_never_cut_short_for_a_process_that_looks_one_up(
    tmp_path: Path,
) -> None:
    file = tmp_path / "hosts"
    async with NamedPlaces(file) as network:
        for name in ("one", "two"):
            await network.place(name)
        before = file.stat()
        network.forget("two")
        assert "two" not in file.read_text()
        assert (file.stat().st_ino, file.stat().st_size) == (before.st_ino, before.st_size)


async def _fail_in(network: Namespaces) -> None:
    async with network:
        await network.place("one")
        raise ZeroDivisionError


async def test_it_is_gone_after_a_failure() -> None:
    before = _namespaces()
    with pytest.raises(ZeroDivisionError):
        await _fail_in(Namespaces())
    assert _namespaces() == before


def test_what_a_killed_run_left_behind_is_removed_with_what_runs_there() -> None:
    before = _namespaces()
    with subprocess.Popen(
        [sys.executable, "-c", _ABANDON],
        stdout=subprocess.PIPE,
        env=environment(),
    ) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == b"it runs\n"
        made.kill()
        made.wait()
        assert len(_namespaces()) == len(before) + 2
        remove_abandoned()
        assert _namespaces() == before
        # What the killed one had started held this end open.
        assert made.stdout.read() == b""


_ABANDON = """
import asyncio, subprocess, sys
from tests.end_to_end.namespaces import Namespaces

async def main():
    async with Namespaces() as network:
        place = await network.place("one")
        subprocess.run([*place.command, "sh", "-c", "echo it runs; exec sleep 1000"])

asyncio.run(main())
"""
