"""`make bench-clients`: what many sources and receivers of one client cost their process.

It starts three stores, each in a process of its own. One client in this process opens sources, each
of a topic of its own, and a receiver for each. Each source sends a message, and each receiver takes
it. Then nothing is sent. The figures are of this process, and of its stores where they say so.
Quote them only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil

from bench.recovery import named, stores
from bench.report import say
from bench.subscriptions import AT_ONCE, SETTLE_SECONDS, busy
from quorate.client import Client, Receiver, Source, connect

TIMEOUT_SECONDS = 300.0

T = TypeVar("T")


class Costs:
    """The costs of this process so far, step by step."""

    def __init__(self, count: int, seconds: float, stores: list[psutil.Process]) -> None:
        """Measure steps with so many of each kind. seconds: for which idleness is measured."""
        self._count = count
        self._seconds = seconds
        self._process = psutil.Process()
        self._stores = stores

    async def opened(self, kind: str, open_one: Callable[[int], Awaitable[T]]) -> list[T]:
        """Open all of a kind, some at once, and print what that costs."""
        memory, began = self._process.memory_info().rss, time.perf_counter()
        before, before_stores = cpu([self._process]), cpu(self._stores)
        found = list[T]()
        for first in range(0, self._count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, self._count))
            found += await asyncio.gather(*map(open_one, numbers))
        took = time.perf_counter() - began
        mine = 1000 * (cpu([self._process]) - before) / self._count
        theirs = 1000 * (cpu(self._stores) - before_stores) / self._count / len(self._stores)
        grown = self._process.memory_info().rss - memory
        what = f"{self._count:,} {kind}"
        say(f"{what}: s to open", f"{took:.2f}", f"{1000 * took / self._count:.1f} ms each")
        say(f"{what}: ms of CPU each", f"{mine:.2f}", f"each store {theirs:.2f}")
        say(f"{what}: KB of memory each", f"{grown / self._count / 1000:.1f}", "")
        return found

    async def idle(self, what: str) -> None:
        """Print what the process uses while nothing is sent."""
        before = cpu(self._stores)
        used = await busy(self._process, self._seconds)
        seconds = (SETTLE_SECONDS + self._seconds) * len(self._stores)
        theirs = 100 * (cpu(self._stores) - before) / seconds
        more = f"each store {theirs:.1f}; over {self._seconds:g} s, {self._process.num_fds():,} fds"
        say(f"{what}, idle: % of a core", f"{max(0.0, 100 * used):.2f}", more)


def cpu(processes: list[psutil.Process]) -> float:
    """Return the seconds of CPU time that these processes have used so far."""
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def topic_of(number: int) -> str:
    return f"clients.{number}"


async def measure(client: Client, costs: Costs) -> None:
    async def source(number: int) -> Source:
        return await client.source(topic_of(number), session_id=number + 1, timeout=TIMEOUT_SECONDS)

    async def receiver(number: int) -> Receiver:
        return await client.receiver(
            topic_of(number), session_id=number + 1, timeout=TIMEOUT_SECONDS
        )

    await costs.idle("a client alone")
    sources = await costs.opened("sources", source)
    await costs.idle("sources")
    receivers = await costs.opened("receivers", receiver)
    began = time.perf_counter()
    await asyncio.gather(*(each.publish(b"x") for each in sources))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await asyncio.gather(*(each.receive() for each in receivers))
    took = time.perf_counter() - began
    say("a message through each: s", f"{took:.2f}", "from the first publish to the last receiver")
    await costs.idle("sources and receivers")


async def run(count: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with stores(Path(directory)) as children, connect(named(children)) as client:
            processes = [psutil.Process(child.pid) for child in children]
            await measure(client, Costs(count, seconds, processes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    asyncio.run(run(given.count, given.seconds))


if __name__ == "__main__":
    main()
