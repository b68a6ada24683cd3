"""Stores as processes that are killed, and disks that are full."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.support import ORDERS, Client, batch, payload, running

from quorate.protocol.errors import QuorateError, StorageFailed, StoreStopping, Unreachable
from quorate.protocol.framing import encode_batch
from quorate.store.offline import OfflineStore

pytestmark = [pytest.mark.processes, pytest.mark.long]

_RUN = """
import gc
import sys
from quorate.store.configuration import load
from quorate.store.node import run
overrides = {"name": "s1", "data_directory": sys.argv[1], "listen": "127.0.0.1:0", "peers": ()}
if len(sys.argv) > 2:
    overrides["disk_free_min_bytes"] = int(sys.argv[2])


def ready(address):
    print(address)
    print(gc.get_freeze_count(), flush=True)


run(load(None, overrides), on_ready=ready)
"""


class Process:
    """A store in a process of its own."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(directory), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, self.errors()
        self.frozen = int(self.process.stdout.readline())
        """The objects that collections of garbage leave alone."""

    def has_loaded(self, library: str) -> bool:
        """Return whether the process has loaded a library whose path has this text."""
        return library in Path(f"/proc/{self.process.pid}/maps").read_text()

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    async def ended(self) -> int:
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), 20)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path / "data")
    yield process
    process.close()


async def test_everything_acknowledged_outlives_kill_9(store: Process, tmp_path: Path) -> None:
    async with Client(store.address) as client:
        stream = await client.stream()

        async def send() -> None:
            first = 0
            while True:
                await stream.batch(batch(first, first + 9))
                first += 10

        sending = asyncio.create_task(send())
        while (await stream.read()).durable.upto < 5000:
            pass
        store.process.kill()
        assert isinstance(await stream.ended(), Unreachable)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    await store.ended()
    acknowledged = stream.acknowledged_upto
    assert acknowledged >= 5000

    with OfflineStore(tmp_path / "data") as offline:
        (source,) = offline.sources()
        assert source.held[0].last >= acknowledged
        assert [item.problem for item in offline.batches(ORDERS) if item.problem] == []
    async with running(tmp_path / "data") as node, Client(node.address) as client:
        fetched = await client.fetch()
        assert fetched.messages == {n: payload(n) for n in range(fetched.high + 1)}
        assert fetched.high >= acknowledged
        assert (await client.open()).next_sequence == fetched.high + 1


def test_collections_leave_alone_what_is_there_since_the_start(store: Process) -> None:
    assert store.frozen > 10_000  # modules and their functions


async def test_a_promise_outlives_kill_9(store: Process, tmp_path: Path) -> None:
    async with Client(store.address) as client:
        await client.promise(7)
    store.process.kill()
    await store.ended()
    async with running(tmp_path / "data") as node, Client(node.address) as client:
        with pytest.raises(QuorateError, match="fenced"):
            await client.promise(7, b"b")


async def test_sigterm_stops_cleanly(store: Process, tmp_path: Path) -> None:
    async with Client(store.address) as client:
        stream = await client.stream()
        for first in range(0, 200, 10):
            await stream.batch(batch(first, first + 9))
        await stream.durable(99)
        store.process.send_signal(signal.SIGTERM)
        assert isinstance(await stream.ended(), StoreStopping)
    assert await store.ended() == 0
    with OfflineStore(tmp_path / "data") as offline:
        (source,) = offline.sources()
        assert source.held[0].last == stream.acknowledged_upto


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a file system")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.parametrize("least", [0, 16 * 1024 * 1024], ids=["full", "nearly full"])
@pytest.mark.expects_log("MiB left")
async def test_a_full_disk_stops_the_store_and_loses_nothing(small_disk: Path, least: int) -> None:
    store = Process(small_disk / "data", str(least))
    payloads = [os.urandom(1000) for _ in range(256)]
    try:
        async with Client(store.address) as client:
            stream = await client.stream()

            async def fill() -> None:
                # One at a time: a write that fails would hide why the store ended the stream.
                for first in range(0, 256 * 400, 256):
                    await stream.batch(encode_batch(ORDERS, 1, first, payloads, 1))
                    await stream.durable(first + 255)

            with pytest.raises(StorageFailed):
                await fill()
            assert stream.acknowledged_upto > 0
        assert await store.ended() == 1
        assert "StorageFailed" in store.errors()
    finally:
        store.close()
    # There is room again.
    await asyncio.to_thread(
        subprocess.run, ["mount", "-o", "remount,size=200m", str(small_disk)], check=True
    )
    async with running(small_disk / "data") as node, Client(node.address) as client:
        fetched = await client.fetch(0, stream.acknowledged_upto)
        assert len(fetched.messages) == stream.acknowledged_upto + 1
        assert all(fetched.messages[n] == payloads[n % 256] for n in fetched.messages)


def test_a_store_runs_on_uvloop_where_it_is_installed(store: Process) -> None:
    pytest.importorskip("uvloop", reason="the extra fast is not installed")
    assert store.has_loaded("uvloop")
