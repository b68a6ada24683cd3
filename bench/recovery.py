"""`make bench-recovery`: the time to register, and to repair a store that was away.

It starts three stores that sync to the disk, each in a process of its own. The source runs in this
process. The figures are medians of several runs. Quote them only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.report import say
from quorate.console.group.children import StoreChild, founded, others
from quorate.console.group.ports import free_addresses
from quorate.console.group.status import ask
from quorate.source import Source, SourceOptions

TOPIC = "bench"
CHUNK = 1024
SETTLE_SECONDS = 2.0
"""Seconds that the source sends at full rate before it is measured."""
MEASURE_SECONDS = 10.0
REPAIR_SECONDS_MAX = 600.0


@asynccontextmanager
async def stores(
    directory: Path, *options: str, queue: str = ""
) -> AsyncIterator[list[StoreChild]]:
    """Start three stores, and yield them once their group is founded.

    options: further ones of `quorate store run`. queue: the topic of a queue that they have; empty:
    they have none.
    """
    addresses = free_addresses(3)
    group = ",".join(map("=".join, zip("abc", addresses, strict=True)))
    if queue:
        options += (f"--queue={queue}", f"--stores={group}")
    children = [
        StoreChild(name, directory / name, address, others(addresses, address), *options)
        for name, address in zip("abc", addresses, strict=True)
    ]
    try:
        await asyncio.gather(*(child.start() for child in children))
        await founded(children)
        yield children
    finally:
        await asyncio.gather(*(child.kill() for child in children if child.running))


def named(children: list[StoreChild]) -> str:
    return ",".join(f"{child.name}={child.address}" for child in children)


# Registering.


async def registration(children: list[StoreChild], runs: int) -> None:
    """Measure registration with all stores, with one that is down, and with one that hangs."""
    await register("registration: ms, all stores up", children, runs)
    last = children[-1]
    await last.kill()
    await register("registration: ms, one of three down", children, runs)
    await last.start()
    await founded(children)
    os.kill(last.pid, signal.SIGSTOP)
    try:
        for interval in (1.0, 3.0):
            what = f"registration: ms, one of three hangs, interval {interval:g} s"
            await register(what, children, 1, SourceOptions(registration_interval=interval))
    finally:
        os.kill(last.pid, signal.SIGCONT)


async def register(
    what: str, children: list[StoreChild], runs: int, options: SourceOptions | None = None
) -> None:
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        source = await Source.open(TOPIC, stores=named(children), options=options)
        seconds.append(time.perf_counter() - began)
        await source.close()
    least, most = 1000 * min(seconds), 1000 * max(seconds)
    say(what, f"{1000 * statistics.median(seconds):,.1f}", f"{least:,.1f} to {most:,.1f}")


# Repairing.


@dataclass(frozen=True)
class Repaired:
    """The measurements of a repair."""

    bytes: int
    seconds: float
    cpu_seconds: float
    """CPU seconds of the store that was repaired."""


async def repair_when_idle(children: list[StoreChild], messages: int, size: int) -> None:
    """Measure the repair of a store that comes back when the source is gone."""
    async with await Source.open(TOPIC, session_id=1, stores=named(children)) as source:
        await leave_behind(source, children[-1], messages, size)
    done = await repaired(children[-1])
    report("repair of an idle store: MB/s", done)


async def repair_when_busy(children: list[StoreChild], messages: int, size: int) -> None:
    """Measure what a repair costs a source at full rate, and the machine."""
    store = children[-1]
    async with await Source.open(TOPIC, session_id=1, stores=named(children)) as source:
        async with sending(source, size):
            before = await full_rate(source, children)
        await leave_behind(source, store, messages, size)
        await store.start()
        async with sending(source, size):
            during = await full_rate(source, children)
            repair = (await ask(store.address, 5.0)).repair
    say("source: messages/s, nothing to repair", f"{before.messages:,.0f}", "")
    ratio = during.messages / before.messages
    left = f"ratio {ratio:.2f}; {repair.lacking:,} still lacking when it was measured"
    say("source: messages/s while a store is repaired", f"{during.messages:,.0f}", left)
    megabytes = repair.bytes_per_second / 1e6
    say("repair beside a source at full rate: MB/s", f"{megabytes:,.1f}", "")
    # The stores use the same CPU for a message of the source as without the repair.
    extra = during.cores - before.cores * ratio
    cores = len(os.sched_getaffinity(0))
    more = f"stores: {before.cores:.2f} of {cores} cores before, {during.cores:.2f} meanwhile"
    say("repair beside a source at full rate: share of the machine", f"{extra / cores:.3f}", more)


async def leave_behind(source: Source, store: StoreChild, messages: int, size: int) -> None:
    await source.send_many([bytes(size)])
    await source.flush()
    await store.kill()
    for first in range(0, messages, CHUNK):
        await source.send_many([os.urandom(size)] * min(CHUNK, messages - first))
    await source.flush()


@asynccontextmanager
async def sending(source: Source, size: int) -> AsyncIterator[None]:
    """Send at full rate during the block, which begins after the first seconds."""

    async def send_on() -> None:
        payloads = [os.urandom(size)] * CHUNK
        while True:
            await source.send_many(payloads)

    task = asyncio.create_task(send_on())
    try:
        await asyncio.sleep(SETTLE_SECONDS)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await source.flush()


@dataclass(frozen=True)
class FullRate:
    """The measurements of a source at full rate, each for one second."""

    messages: float
    """Messages that become stable."""
    cores: float
    """CPU seconds of all stores together."""


async def full_rate(source: Source, children: list[StoreChild]) -> FullRate:
    began, first, spent = time.perf_counter(), source.stable_upto, cpu_seconds(children)
    await asyncio.sleep(MEASURE_SECONDS)
    seconds = time.perf_counter() - began
    stable = source.stable_upto - first
    return FullRate(stable / seconds, (cpu_seconds(children) - spent) / seconds)


def cpu_seconds(children: list[StoreChild]) -> float:
    """Return the CPU seconds of all these stores since they were started."""
    times = [psutil.Process(child.pid).cpu_times() for child in children]
    return sum(each.user + each.system for each in times)


async def repaired(store: StoreChild) -> Repaired:
    """Start a store, and wait until it has everything that its peers can give it."""
    await store.start()
    began = seen = time.perf_counter()
    while True:
        repair = (await ask(store.address, 5.0)).repair
        now = time.perf_counter()
        if not repair.messages:
            began = now
        elif repair.lacking:
            seen = now
        elif now > seen + 0.5:
            return Repaired(repair.bytes, seen - began, cpu_seconds([store]))
        if now > began + REPAIR_SECONDS_MAX:
            raise SystemExit(f"{store.name} is not repaired after {REPAIR_SECONDS_MAX:g} s")
        await asyncio.sleep(0.02)


def report(what: str, done: Repaired) -> None:
    megabytes = done.bytes / 1e6
    more = f"{megabytes:,.0f} MB in {done.seconds:.1f} s, {done.cpu_seconds:.1f} s CPU of the store"
    say(what, f"{megabytes / done.seconds:,.0f}", more)


async def measure(messages: int, size: int, runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="quorate-bench-recovery-") as name:
        for number in range(runs):
            directory = Path(name) / str(number)
            directory.mkdir()
            async with stores(directory) as children:
                await registration(children, 20)
                await repair_when_idle(children, messages, size)
                await repair_when_busy(children, messages, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--messages", type=int, default=1_000_000, help="messages that a store lacks"
    )
    parser.add_argument("--size", type=int, default=1000, help="bytes of each message")
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(measure(arguments.messages, arguments.size, arguments.runs))


if __name__ == "__main__":
    main()
