"""`make bench-queue`: how many jobs of a queue consumers take and finish each second.

It starts three stores that sync to the disk, and fills a topic. Then several consumers, each a
process of its own, take all jobs, and say of each that it is done. The rate counts from the first
job to the last one; all is stable by then. Quote the figure only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import psutil

from bench.recovery import named, stores
from bench.replay import fill
from bench.report import say
from quorate.client import Consumer, connect
from quorate.console.group.children import StoreChild

TOPIC = "work"
PAYLOAD = bytes(100)
IDLE_SECONDS = 3.0
"""Seconds without a job after which a consumer takes the queue for empty."""


async def consume(addresses: str, max_backlog: int) -> None:
    """Take jobs until there are none, and print how many, and when the first and the last came."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    async with (
        connect(addresses) as client,
        client.queue(TOPIC, max_backlog=max_backlog) as consumer,
    ):
        jobs, first, last = await take_all(consumer)
    print(f"{jobs} {first} {last}", flush=True)


async def take_all(consumer: Consumer) -> tuple[int, float, float]:
    jobs, taken, first = 0, 0, 0.0
    last = time.time()

    async def watch() -> None:
        nonlocal taken, last
        while True:
            await asyncio.sleep(0.05)
            if taken != jobs:
                taken, last = jobs, time.time()

    watching = asyncio.create_task(watch())
    try:
        while True:
            async with asyncio.timeout(IDLE_SECONDS) as idle:
                async for job in consumer:
                    job.done()
                    first = first or time.time()
                    jobs += 1
                    if not jobs % 1000:
                        idle.reschedule(asyncio.get_running_loop().time() + IDLE_SECONDS)
    except TimeoutError:
        return jobs, first, last
    finally:
        watching.cancel()


async def started(addresses: str, max_backlog: int) -> Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.queue", "--consume", addresses),
        *("--max-backlog", str(max_backlog)),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    return process


def cpu_of(child: StoreChild) -> float:
    times = psutil.Process(child.pid).cpu_times()
    return float(times.user + times.system)


async def run(messages: int, consumers: int, max_backlog: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with stores(Path(directory), queue=TOPIC) as children:
            addresses = named(children)
            async with connect(addresses) as client:
                await fill(client, TOPIC, (PAYLOAD for _ in range(messages)))
            processes = [await started(addresses, max_backlog) for _ in range(consumers)]
            before = [cpu_of(child) for child in children]
            outputs = await asyncio.gather(*(each.communicate(b"go\n") for each in processes))
            used = [cpu_of(child) - was for child, was in zip(children, before, strict=True)]
    parts = [tuple(map(float, out.split())) for out, _ in outputs]
    jobs = int(sum(part[0] for part in parts))
    seconds = max(part[2] for part in parts) - min(part[1] for part in parts if part[0])
    assert jobs >= messages, f"{jobs} jobs of {messages} messages"
    shares = ", ".join(f"{part[0]:,.0f}" for part in parts)
    say(f"jobs/s of {consumers} consumers, taken and done", f"{jobs / seconds:,.0f}", shares)
    say("seconds of CPU of each store", f"{max(used):.1f}", f"{seconds:.1f} s in all")
    say("jobs that came twice", f"{jobs - messages:,}", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--consumers", type=int, default=4)
    parser.add_argument("--max-backlog", type=int, default=1000)
    parser.add_argument("--consume", metavar="STORES")
    given = parser.parse_args()
    if given.consume:
        asyncio.run(consume(given.consume, given.max_backlog))
    else:
        asyncio.run(run(given.messages, given.consumers, given.max_backlog))


if __name__ == "__main__":
    main()
