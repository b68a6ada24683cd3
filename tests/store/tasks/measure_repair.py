"""Measures repair: `python -m tests.store.tasks.measure_repair [MESSAGES] [--busy]`.

Two stores as processes on loopback. One has the messages, 1 KiB each in batches of 256; the other
was away for all of them. Prints how long it took until it lacked nothing. With --busy both stores
take a stream meanwhile: prints how fast that goes while they repair, and afterwards. Prints also
how long the digest of 10 million messages in batches of 4,096 takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.store.support import ORDERS, Client

from quorate.protocol.figures import numbers_in
from quorate.protocol.framing import encode_batch
from quorate.protocol.ranges import Range
from quorate.store.rules import digest
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.records import (
    index_key,
    pack_index,
)
from quorate.store.storage.rocksdb import RocksStorage
from quorate.v1 import messages_pb2 as v1

_SIZE = 1024
_BATCH = 256


def _frame(first: int) -> bytes:
    payload = os.urandom(_SIZE - 8)
    messages = [number.to_bytes(8, "big") + payload for number in range(first, first + _BATCH)]
    return encode_batch(ORDERS, 1, first, messages, time.time_ns())


async def _store(stack: AsyncExitStack, root: Path, name: str) -> tuple[Client, int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "quorate.console.main",
        "store",
        "run",
        "--name",
        name,
        "--data-directory",
        str(root / name),
        "--listen",
        "127.0.0.1:0",
        "--no-peers",
        "-o",
        "json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def end() -> None:
        process.terminate()
        await process.wait()

    stack.push_async_callback(end)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    address = json.loads(line)["address"]
    return await stack.enter_async_context(Client(address)), process.pid


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _fill(client: Client, addresses: list[str], count: int) -> None:
    stream = await client.stream(stores=addresses)
    for first in range(0, count, _BATCH):
        await stream.batch(_frame(first), first - 1)
        if first % (_BATCH * 64) == 0:
            await stream.durable(first)
    await stream.durable(count - 1)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=count - 1))
    await stream.close()


async def _busy(one: Client, two: Client, first: int, addresses: list[str]) -> None:
    """A stream to both stores, as fast as both take it, while one repairs and afterwards."""
    frames = 64
    streams = [
        await client.open(retained_from=first, stable_upto=first - 1, stores=addresses)
        for client in (one, two)
    ]
    at = first

    async def rate(seconds: float) -> float:
        nonlocal at
        began, count = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            for _ in range(frames):
                frame = _frame(at)
                await asyncio.gather(*(stream.batch(frame, at - 1) for stream in streams))
                at += _BATCH
            await asyncio.gather(*(stream.durable(at - 1) for stream in streams))
            count += frames * _BATCH
        return count / (time.monotonic() - began)

    before = await _lacking(two)
    while_repairing = await rate(8.0)
    after = await _lacking(two)
    print(f"while busy: {while_repairing:,.0f} messages/s; {(before - after) / 8:,.0f}/s repaired")
    assert after, "it was repaired before the measurement was over: give it more messages"
    await _repaired(two)
    print(f"afterwards: {await rate(8.0):,.0f} messages/s")
    for stream in streams:
        await stream.close()


async def _lacking(client: Client) -> int:
    (source,) = (await client.status()).sources
    return numbers_in(source.holes)


async def _repaired(client: Client) -> None:
    while await _lacking(client):  # noqa: ASYNC110
        await asyncio.sleep(0.1)


def _digest(root: Path) -> None:
    storage = RocksStorage(root / "digest", create=True)
    count, step = 10_000_000, 4096
    storage.write(
        Write(Table.INDEX, index_key(1, first), pack_index(first, first + step - 1, 1, first % 997))
        for first in range(0, count, step)
    )
    began = time.perf_counter()
    digest.blocks(storage, 1, Range(0, count - 1), digest.BLOCK)
    print(f"digest of {count:,} messages: {1000 * (time.perf_counter() - began):.1f} ms")
    storage.close()


async def _main(count: int, busy: bool) -> None:
    count += -count % _BATCH
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as root:
        _digest(Path(root))
        async with AsyncExitStack() as stack:
            one, first_pid = await _store(stack, Path(root), "s1")
            two, second_pid = await _store(stack, Path(root), "s2")
            addresses = [one.address, two.address]
            await _fill(one, addresses, count)
            await two.promise()
            await two.begin()
            if busy:
                await _busy(one, two, count, addresses)
                return
            cpu = _cpu(first_pid), _cpu(second_pid)
            stream = await two.open(retained_from=count, stable_upto=count - 1, stores=addresses)
            began = time.monotonic()
            await _repaired(two)
            seconds = time.monotonic() - began
            print(
                f"{count:,} messages of {_SIZE} bytes in {seconds:.1f} s: "
                f"{count * _SIZE / seconds / 1e6:.0f} MB/s; CPU seconds: "
                f"peer {_cpu(first_pid) - cpu[0]:.1f}, repaired {_cpu(second_pid) - cpu[1]:.1f}"
            )
            await stream.close()


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    asyncio.run(_main(numbers[0] if numbers else 1_000_000, "--busy" in sys.argv))
