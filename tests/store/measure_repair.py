"""Measures repair: `python -m tests.store.measure_repair [MESSAGES]`.

Two stores as processes on loopback. One has the messages, 1 KiB each in batches of 256; the other
was away for all of them. Prints how long it took until it lacked nothing.
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

from quorate.protocol.framing import encode_batch
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


async def _main(count: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as root:
        async with AsyncExitStack() as stack:
            one, first_pid = await _store(stack, Path(root), "s1")
            two, second_pid = await _store(stack, Path(root), "s2")
            addresses = [one.address, two.address]
            began = time.monotonic()
            await _fill(one, addresses, count)
            print(f"filled the first store in {time.monotonic() - began:.1f} s")
            await two.promise()
            await two.begin()
            cpu = _cpu(first_pid), _cpu(second_pid)
            stream = await two.open(retained_from=count, stable_upto=count - 1, stores=addresses)
            began = time.monotonic()
            lacking = 1
            while lacking:
                await asyncio.sleep(0.1)
                answer = await two.status()
                lacking = sum(hole.last - hole.first + 1 for hole in answer.sources[0].holes)
            seconds = time.monotonic() - began
            print(
                f"{count:,} messages of {_SIZE} bytes in {seconds:.1f} s: "
                f"{count * _SIZE / seconds / 1e6:.0f} MB/s; CPU seconds: "
                f"peer {_cpu(first_pid) - cpu[0]:.1f}, repaired {_cpu(second_pid) - cpu[1]:.1f}"
            )
            await stream.close()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
