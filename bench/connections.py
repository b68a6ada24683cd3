"""`make bench-connections`: what idle connections cost a store, in time and in memory.

It starts a store in a process of its own, and connects to it with sockets of this process. These
speak HTTP/2 as a client of gRPC does, and then say nothing. The figures are of the store alone.
Quote them only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import psutil

from bench.recovery import stores
from bench.report import say
from bench.subscriptions import SETTLE_SECONDS, busy

_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The beginning of a connection of HTTP/2, with settings that are the usual ones."""
_ACKNOWLEDGED = bytes((0, 0, 0, 4, 1, 0, 0, 0, 0))
_FILES_MORE = 100


async def connected(address: str, stack: AsyncExitStack) -> None:
    """Open a connection that lasts as long as the stack."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    stack.callback(writer.close)
    writer.write(_GREETING + _ACKNOWLEDGED)
    await writer.drain()
    await reader.read(1024)


async def run(count: int, seconds: float) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + _FILES_MORE, most), most))
    with tempfile.TemporaryDirectory() as directory:
        async with stores(Path(directory)) as (child, *_), AsyncExitStack() as stack:
            process = psutil.Process(child.pid)
            without, memory = await busy(process, seconds), process.memory_info().rss
            for _ in range(count):
                await connected(child.address, stack)
            await asyncio.sleep(SETTLE_SECONDS)
            used = await busy(process, seconds)
            grown = process.memory_info().rss - memory
            open_now = len([each for each in process.net_connections("tcp") if each.raddr])
    what = f"{count:,} idle connections"
    say(f"{what}: % of a core", f"{100 * used:.2f}", f"{100 * without:.2f} % without them")
    say(f"{what}: KB of memory each", f"{grown / count / 1000:.1f}", f"{open_now:,} are open")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    asyncio.run(run(given.connections, given.seconds))


if __name__ == "__main__":
    main()
