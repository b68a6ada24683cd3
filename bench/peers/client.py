"""A client of a system as a process of its own: it sends a load, or receives one and checks it.

Usage: `python -m bench.peers.client SYSTEM send|receive ADDRESS LOAD`. A line on the output says
that all messages before the measured ones were acknowledged, or received. The sender then waits for
a line of input. The last line is a result as JSON.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from dataclasses import dataclass

from bench.peers.load import Checker, Load
from bench.peers.systems import SYSTEMS


@dataclass(frozen=True)
class Result:
    """The measurements of a client."""

    began_ns: int
    """When the first measured message was sent, on the machine's monotonic clock; 0: a receiver."""
    ended_ns: int
    """When the last message was acknowledged or received."""
    cpu_seconds: float
    """CPU seconds of the process since it was ready."""
    p50_ms: float | None
    p99_ms: float | None


async def send(system: str, address: str, load: Load) -> Result:
    """Send a load."""
    began_ns, used = 0, 0.0

    async def warm() -> None:
        nonlocal began_ns, used
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        began_ns, used = time.monotonic_ns(), _cpu_seconds()

    await SYSTEMS[system].send(address, load, warm)
    return Result(began_ns, time.monotonic_ns(), _cpu_seconds() - used, None, None)


async def receive(system: str, address: str, load: Load) -> Result:
    """Receive a load, and check each message."""
    used = 0.0

    def warm() -> None:
        nonlocal used
        used = _cpu_seconds()
        print("ready", flush=True)

    checker = Checker(load, warm)
    await SYSTEMS[system].receive(address, checker)
    ended, cpu = time.monotonic_ns(), _cpu_seconds() - used
    return Result(0, ended, cpu, checker.latency_ms(0.5), checker.latency_ms(0.99))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Do what the arguments say."""
    system, act, address, load = sys.argv[1:]
    done = {"send": send, "receive": receive}[act](system, address, Load(**json.loads(load)))
    print(json.dumps(vars(asyncio.run(done))), flush=True)


if __name__ == "__main__":
    main()
