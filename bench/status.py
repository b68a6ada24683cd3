"""`make bench-status`: the time and the CPU time of `quorate status` beside many sources.

It starts three stores, each in a process of its own. One client in this process opens sources, each
of a topic of its own, and closes them again, in slices. Then the command runs in processes of its
own. The figures are medians of several runs. Quote them only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.clients import cpu
from bench.recovery import named, stores
from bench.report import say
from quorate.client import Client, connect

TIMEOUT_SECONDS = 300.0
SLICE = 200
"""The sources that are open at the same time."""


@dataclass(frozen=True)
class Shown:
    """The measurements of one run of the command, in seconds."""

    seconds: float
    cpu: float
    """CPU time of the command."""
    stores_cpu: float
    """CPU time of all stores together."""
    lines: int
    """The lines that the command printed."""


async def opened_and_closed(client: Client, count: int) -> tuple[float, float]:
    """Open and close so many sources, some at once; return the seconds of each of the two."""
    opening = closing = 0.0
    for first in range(0, count, SLICE):
        numbers = range(first, min(first + SLICE, count))
        began = time.perf_counter()
        sources = await asyncio.gather(
            *(
                client.source(f"status.{number}", session_id=number + 1, timeout=TIMEOUT_SECONDS)
                for number in numbers
            )
        )
        full = time.perf_counter()
        await asyncio.gather(*(each.close() for each in sources))
        opening += full - began
        closing += time.perf_counter() - full
    return opening, closing


def shown(stores: str, processes: list[psutil.Process]) -> Shown:
    """Run the command."""
    command = [sys.executable, "-m", "quorate.console.main", "status", "--stores", stores]
    before, began, mine = cpu(processes), time.perf_counter(), os.times()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    took, now = time.perf_counter() - began, os.times()
    used = now.children_user + now.children_system - mine.children_user - mine.children_system
    return Shown(took, used, cpu(processes) - before, done.stdout.count("\n"))


async def run(count: int, runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="quorate-bench-status-") as directory:
        async with stores(Path(directory)) as children:
            processes = [psutil.Process(child.pid) for child in children]
            before = [cpu([process]) for process in processes]
            async with connect(named(children)) as client:
                opening, closing = await opened_and_closed(client, count)
            spent = sum(cpu([each]) for each in processes) - sum(before)
            what = f"{count:,} sources"
            say(f"{what}: ms to open each", f"{1000 * opening / count:.2f}", f"{opening:.1f} s")
            each = f"{closing:.1f} s; a store used {1000 * spent / count / 3:.2f} ms for both"
            say(f"{what}: ms to close each", f"{1000 * closing / count:.2f}", each)
            report(what, [shown(named(children), processes) for _ in range(runs)], len(processes))


def report(what: str, runs: list[Shown], stores: int) -> None:
    seconds = [each.seconds for each in runs]
    times = f"{min(seconds):.2f} to {max(seconds):.2f}; {runs[-1].lines:,} lines"
    say(f"{what}: s of `quorate status`", f"{statistics.median(seconds):.2f}", times)
    used = statistics.median(each.cpu for each in runs)
    theirs = statistics.median(each.stores_cpu for each in runs) / stores
    say(f"{what}: s of its CPU time", f"{used:.2f}", f"each store {theirs:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(run(given.sources, given.runs))


if __name__ == "__main__":
    main()
