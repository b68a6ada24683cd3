"""`make bench-subscriptions`: what idle subscriptions cost a store, in time and in memory.

It starts three stores, each in a process of its own, and measures one after the other. The
subscriptions run in this process: over one connection, then over a connection each, as from as many
processes. The latter is measured with the usual heartbeats, and with few. The figures are of the
store alone. Quote them only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import psutil

from bench.recovery import named, stores
from bench.report import say
from quorate.client import Client, connect
from quorate.console.group.children import StoreChild
from quorate.protocol.heartbeat import HEARTBEAT_SECONDS
from quorate.subscriber import Subscriber

AT_ONCE = 50
"""The subscriptions that are opened at the same time."""
SETTLE_SECONDS = 2.0
RARE_SECONDS = 15.0
"""Seconds between the heartbeats of a client that needs few."""


async def busy(process: psutil.Process, seconds: float) -> float:
    """Return the part of a core that a process uses, over so many seconds."""
    await asyncio.sleep(SETTLE_SECONDS)
    before, began = process.cpu_times(), time.perf_counter()
    await asyncio.sleep(seconds)
    after, took = process.cpu_times(), time.perf_counter() - began
    return (after.user + after.system - before.user - before.system) / took


async def idle(
    what: str, child: StoreChild, connections: int, beat: float, count: int, seconds: float
) -> None:
    """Measure a store while so many subscriptions over so many connections are given nothing.

    beat: seconds between two heartbeats of each connection.
    """
    process = psutil.Process(child.pid)
    async with AsyncExitStack() as stack:
        clients: list[Client] = [
            await stack.enter_async_context(
                connect(named([child]), heartbeat_interval=beat, heartbeat_timeout=5 * beat)
            )
            for _ in range(connections)
        ]
        without, memory = await busy(process, seconds), process.memory_info().rss
        for first in range(0, count, AT_ONCE):
            opened: list[Subscriber] = await asyncio.gather(
                *(
                    clients[number % len(clients)].subscriber("idle", begin="now")
                    for number in range(first, min(first + AT_ONCE, count))
                )
            )
            for each in opened:
                stack.push_async_callback(each.close)
        used = await busy(process, seconds)
        grown = process.memory_info().rss - memory
    more = f"{100 * without:.2f} % without them"
    say(f"{what}: % of a core", f"{100 * used:.2f}", more)
    say(
        f"{what}: KB of memory each", f"{grown / count / 1000:.1f}", f"{grown / 1e6:,.1f} MB in all"
    )


async def run(count: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with stores(Path(directory)) as children:
            one, each, rarely = children
            what = f"{count:,} idle subscriptions"
            await idle(f"{what}, one connection", one, 1, HEARTBEAT_SECONDS, count, seconds)
            what = f"{what}, a connection each"
            await idle(what, each, count, HEARTBEAT_SECONDS, count, seconds)
            what = f"{what}, a beat in {RARE_SECONDS:g} s"
            await idle(what, rarely, count, RARE_SECONDS, count, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    asyncio.run(run(given.subscriptions, given.seconds))


if __name__ == "__main__":
    main()
