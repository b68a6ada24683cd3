"""`make bench-peers`: Quorate beside other systems, in turn, on one machine.

Each system gets the same messages from one program and hands them to another one, which checks each
message. The figures are medians of several rounds. A round measures each system once, so a machine
that slows down slows all of them. `--write` puts the figures into docs/comparison.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.peers.client import Result
from bench.peers.comparison import Figures, Shape, table, write
from bench.peers.load import Load
from bench.peers.system import System
from bench.peers.systems import SYSTEMS
from bench.report import say

RUN_SECONDS = 300.0


@dataclass(frozen=True)
class Given:
    """The wishes of the command line."""

    systems: list[str]
    rounds: int
    scale: float


def shapes(scale: float) -> list[Shape]:
    """Return the loads. scale: a factor for their messages."""

    def load(messages: int, size: int, rate: float, warm_up: int) -> Load:
        return Load(max(1, int(messages * scale)), size, rate, max(1, int(warm_up * scale)))

    return [
        Shape("100 B, full rate", load(1_000_000, 100, 0, 200_000)),
        Shape("1 KB, full rate", load(200_000, 1000, 0, 50_000)),
        Shape("100 B, 5,000/s", load(50_000, 100, 5000, 20_000)),
    ]


async def measure(name: str, load: Load) -> Figures:
    """Start a system, let a load through it, and stop it."""
    system = SYSTEMS[name]
    load = load.part(system.share)
    with tempfile.TemporaryDirectory() as directory:
        try:
            address = await system.start(Path(directory))
            async with asyncio.timeout(RUN_SECONDS):
                return await _measured(name, system, address, load)
        finally:
            await system.stop()


async def _measured(name: str, system: System, address: str, load: Load) -> Figures:
    sender = await _client(name, "send", address, load)
    receiver = await _client(name, "receive", address, load)
    try:
        before = _cpu_seconds(system)
        sent, received = await asyncio.gather(_result(sender, b"go\n"), _result(receiver, b""))
        servers = _cpu_seconds(system) - before
    finally:
        for client in (sender, receiver):
            if client.returncode is None:
                client.kill()
    return Figures(
        acknowledged=load.messages / ((sent.ended_ns - sent.began_ns) / 1e9),
        delivered=load.messages / ((received.ended_ns - sent.began_ns) / 1e9),
        cpu_us=1e6 * (servers + sent.cpu_seconds + received.cpu_seconds) / load.messages,
        p50_ms=received.p50_ms,
        p99_ms=received.p99_ms,
    )


async def _client(name: str, act: str, address: str, load: Load) -> Process:
    """Start a client, and wait until it is ready."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.peers.client", name, act, address),
        json.dumps(asdict(load)),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert process.stdout is not None
    if await process.stdout.readline() != b"ready\n":
        raise RuntimeError(f"{name}: the client that was to {act} ended early")
    return process


async def _result(process: Process, line: bytes) -> Result:
    output, _ = await process.communicate(line)
    if process.returncode:
        raise RuntimeError(f"a client ended with {process.returncode}")
    return Result(**json.loads(output.splitlines()[-1]))


def _cpu_seconds(system: System) -> float:
    times = [process.cpu_times() for process in system.processes()]
    return sum(each.user + each.system for each in times)


async def run(given: Given) -> dict[Shape, dict[str, list[Figures]]]:
    """Measure all systems in each round, and print each figure as it comes."""
    found: dict[Shape, dict[str, list[Figures]]] = {}
    for shape in shapes(given.scale):
        found[shape] = defaultdict(list)
        for _ in range(given.rounds):
            for name in given.systems:
                figures = await measure(name, shape.load)
                found[shape][name].append(figures)
                say(
                    f"{shape.name}: {SYSTEMS[name].name}", f"{figures.delivered:,.0f}", str(figures)
                )
    return found


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", choices=[*SYSTEMS, []], default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    names = []
    for name in given.systems or SYSTEMS:
        if missing := SYSTEMS[name].missing():
            print(f"{SYSTEMS[name].name} is left out. It lacks {missing}.", file=sys.stderr)
        else:
            names.append(name)
    found = asyncio.run(run(Given(names, given.rounds, given.scale)))
    print(table(found))
    if given.write:
        write(found)


if __name__ == "__main__":
    main()
