"""`make bench-crowd`: what subscribers that replay at full speed cost a source.

It starts three stores that sync to the disk, and a process with all subscribers. Each replays one
topic again and again. A source in this process sends to another topic: first as fast as it can,
then a message at a time. The figures are printed with and without the subscribers. Quote them only
with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.recovery import named, stores
from bench.replay import fill
from bench.report import say
from quorate.client import Client, connect

PAYLOAD = bytes(100)
CHUNK = 1000
PAUSE_SECONDS = 0.01
"""The pause between two messages while acknowledgements are timed."""
SETTLE_SECONDS = 2.0


async def read_on(client: Client, counts: list[int]) -> None:
    """Replay the whole history, again and again."""
    while True:
        async with client.subscriber("history", end="now") as subscriber:
            async for batch in subscriber.batches():
                counts.append(len(getattr(batch, "payloads", ())))


async def crowd(addresses: str, count: int) -> None:
    """Run subscribers until stdin ends, and print how many messages they were given a second."""
    counts: list[int] = []
    names = addresses.split(",")
    began = time.perf_counter()
    tasks = []
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            turned = names[number % len(names) :] + names[: number % len(names)]
            tasks.append(group.create_task(one_reader(",".join(turned), counts)))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
    print(f"{sum(counts) / (time.perf_counter() - began):.0f}", flush=True)


async def one_reader(addresses: str, counts: list[int]) -> None:
    async with connect(addresses) as client:
        await read_on(client, counts)


@asynccontextmanager
async def reading(addresses: str, count: int) -> AsyncIterator[Process]:
    """Start the process of the subscribers, and end it behind the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.crowd", "--crowd", addresses, "--subscribers", str(count)),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield process
    finally:
        process.stdin.close()
        rate = float(await process.stdout.readline())
        say("messages/s replayed by all", f"{rate:,.0f}", "")
        await process.wait()


@dataclass
class Measured:
    """The work of a source."""

    rate: float
    """Messages that became stable, a second."""
    seconds: list[float]
    """How long each single message took until it was stable."""
    crowd_share: float
    """The part of all CPU time that the subscribers' process used meanwhile."""


def cpu(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system for each in times)


async def measure(
    client: Client, session: int, seconds: float, pids: list[int], crowd_pids: list[int]
) -> Measured:
    await asyncio.sleep(SETTLE_SECONDS)
    async with client.source("live", session_id=session) as source:
        chunk = [PAYLOAD] * CHUNK
        everyone, of_crowd = cpu(pids + crowd_pids), cpu(crowd_pids)
        sent, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            await source.send_many(chunk)
            sent += CHUNK
        await source.flush()
        rate = sent / (time.perf_counter() - began)
        everyone, of_crowd = cpu(pids + crowd_pids) - everyone, cpu(crowd_pids) - of_crowd
        took = []
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            at = time.perf_counter()
            await source.publish(PAYLOAD)
            took.append(time.perf_counter() - at)
            await asyncio.sleep(PAUSE_SECONDS)
    return Measured(rate, took, of_crowd / everyone)


def report(what: str, measured: Measured) -> None:
    say(f"{what}: stable messages/s", f"{measured.rate:,.0f}", "100 bytes each")
    ordered = sorted(measured.seconds)
    say(
        f"{what}: ms until stable, p50",
        f"{1000 * statistics.median(ordered):.1f}",
        f"p99 {1000 * ordered[int(0.99 * len(ordered))]:.1f}, longest {1000 * ordered[-1]:.1f}",
    )


async def run(count: int, messages: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with stores(Path(directory)) as children, connect(named(children)) as client:
            await fill(client, "history", itertools.repeat(PAYLOAD, messages))
            pids = [psutil.Process().pid, *(child.pid for child in children)]
            alone = await measure(client, 1, seconds, pids, [])
            report("no subscriber", alone)
            async with reading(named(children), count) as process:
                beside = await measure(client, 2, seconds, pids, [process.pid])
            report(f"{count} subscribers", beside)
            say(
                "what became stable, of that without subscribers",
                f"{100 * beside.rate / alone.rate:.0f} %",
                f"the subscribers' process used {100 * beside.crowd_share:.0f} % of the CPU time",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscribers", type=int, default=20)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--crowd", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.crowd:
        asyncio.run(crowd(given.crowd, given.subscribers))
    else:
        asyncio.run(run(given.subscribers, given.messages, given.seconds))


if __name__ == "__main__":
    main()
