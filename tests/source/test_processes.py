"""A source in a process of its own that is killed, and what its publish store is good for."""

from __future__ import annotations

import asyncio
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from tests.source.fake_store import FakeStore
from tests.source.support import addresses, open_source

from quorate.source import FilePublishStore

pytestmark = pytest.mark.processes

PROGRAM = textwrap.dedent("""
    import asyncio, os, sys
    from quorate.source import FilePublishStore, Source

    async def main():
        stores, path, end = sys.argv[1:]
        source = await Source.open(
            "orders", session_id=0x10, stores=stores, publish_store=FilePublishStore(path)
        )
        await source.send_many([b"%d" % number for number in range(1000)])
        await source.flush()
        print("stable", flush=True)
        sys.stdin.readline()
        for number in range(1000, 3000):
            await source.send(b"%d" % number)
        while source._core.packed_upto < 2999:
            await asyncio.sleep(0.01)
        print("sent", flush=True)
        if end == "exit":
            os._exit(3)
        sys.stdin.readline()

    asyncio.run(main())
""")


@pytest.mark.parametrize("end", ["exit", "kill"])
async def test_a_killed_source_sends_again_what_was_not_stable(
    stores: list[FakeStore], tmp_path: Path, end: str
) -> None:
    path = tmp_path / "publish"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        addresses(stores),
        str(path),
        end,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"stable\n"
    for store in stores:
        await store.until_held(999)
        store.deaf = True
    process.stdin.write(b"\n")
    assert await process.stdout.readline() == b"sent\n"
    if end == "kill":
        process.kill()
    assert await process.wait() == (3 if end == "exit" else -signal.SIGKILL)
    process.stdin.close()
    for store in stores:
        await store.until_left()
        store.deaf = False

    async with await open_source(stores, publish_store=FilePublishStore(path)) as source:
        assert source.next_sequence == 3000
        assert await source.send(b"3000") == 3000
        await source.flush(60)
    for store in stores:
        assert store.messages == {number: b"%d" % number for number in range(3001)}
        assert store.begun.lineage.epoch_at(999) == 1
        assert store.begun.lineage.epoch_at(1000) == source.epoch
