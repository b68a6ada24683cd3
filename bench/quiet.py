"""`make bench-quiet`: many sources of one process that each send little.

It starts three stores that sync to the disk, each in a process of its own. One client in this
process opens the sources, each of a topic of its own. Each source publishes at the given pace, and
waits until its message is stable. The figures are of what became stable. Quote them only with what
else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from bench.recovery import named, stores
from bench.report import say
from bench.subscriptions import AT_ONCE
from quorate.client import Client, Source, connect

OPEN_SECONDS = 300.0
SETTLE_SECONDS = 3.0
"""Seconds that the sources publish before they are measured."""
PAYLOAD = bytes(100)


class Pace:
    """The publishes of all sources: how many were asked for, and how long each took."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self.took: list[float] = []

    async def publish(self, source: Source, late: float, ends: float) -> None:
        """Publish until the end, at this pace. late: seconds after which the first one is due."""
        loop = asyncio.get_running_loop()
        due = loop.time() + late
        while due < ends:
            await asyncio.sleep(due - loop.time())
            began = time.perf_counter()
            await source.publish(PAYLOAD)
            self.took.append(time.perf_counter() - began)
            # Messages that are late are left out, and the figure shows that they are missing.
            due = max(due + 1 / self.per_second, loop.time())


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """Return the seconds of CPU that these processes have used."""
    times = [each.cpu_times() for each in processes]
    return sum(each.user + each.system for each in times)


async def opened(client: Client, count: int) -> list[Source]:
    """Return so many sources, each of a topic of its own."""
    found: list[Source] = []
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        found += await asyncio.gather(
            *(
                client.source(f"quiet.{each}", session_id=1, timeout=OPEN_SECONDS)
                for each in numbers
            )
        )
    return found


async def measure(
    client: Client, count: int, per_second: float, seconds: float, processes: list[psutil.Process]
) -> None:
    sources = await opened(client, count)
    loop = asyncio.get_running_loop()
    for pace, lasts in ((Pace(per_second), SETTLE_SECONDS), (Pace(per_second), seconds)):
        used, began = cpu_seconds(processes), loop.time()
        async with asyncio.TaskGroup() as group:
            for at, source in enumerate(sources):
                late = at / count / per_second
                group.create_task(pace.publish(source, late, began + lasts))
        took = loop.time() - began
        used = cpu_seconds(processes) - used
    rate, took_ms = len(pace.took) / took, [1000 * each for each in sorted(pace.took)]
    what = f"{count:,} sources at {per_second:g}/s"
    say(f"{what}: stable messages/s", f"{rate:,.0f}", f"of {count * per_second:,.0f} wanted")
    p99 = took_ms[int(0.99 * len(took_ms))]
    say(f"{what}: ms until stable, p50", f"{statistics.median(took_ms):.1f}", f"p99 {p99:.1f}")
    say(f"{what}: CPU us a message", f"{1e6 * used / len(pace.took):.0f}", "four processes")


async def run(count: int, per_second: float, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with stores(Path(directory)) as children, connect(named(children)) as client:
            processes = [psutil.Process(each) for each in (os.getpid(), *(c.pid for c in children))]
            await measure(client, count, per_second, seconds, processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=500)
    parser.add_argument("--per-second", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    asyncio.run(run(given.sources, given.per_second, given.seconds))


if __name__ == "__main__":
    main()
