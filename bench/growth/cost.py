"""The cost of a message: messages at a rate, and what all processes use meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import psutil

IDLE_SECONDS = 2.0
"""Seconds for which nothing is sent, before messages are."""
WARM_UP_SECONDS = 1.0
SLEEP_SECONDS_MIN = 0.001

Publish = Callable[[int], Awaitable[object]]
"""Sends the message of this number, and returns when it is stable."""


@dataclass(frozen=True)
class Used:
    """CPU seconds of the process of all clients, and of all stores together."""

    clients: float
    stores: float

    def __sub__(self, before: Used) -> Used:
        return Used(self.clients - before.clients, self.stores - before.stores)


@dataclass(frozen=True)
class Cost:
    """The measurements at one size."""

    size: float
    rate: float
    """Messages a second that became stable."""
    clients_us: float
    """CPU time of the clients for a message, without what they use when nothing is sent."""
    stores_us: float
    """CPU time of all stores together for a message, without what they use when nothing is sent."""
    clients_idle: float
    """The part of a core that the clients use when nothing is sent."""
    stores_idle: float
    """The part of a core that all stores together use when nothing is sent."""
    p50_ms: float
    """The median time until a message was stable."""
    p99_ms: float


def used(stores: Sequence[psutil.Process]) -> Used:
    """Return what this process and the stores have used so far."""
    times = [each.cpu_times() for each in stores]
    return Used(time.process_time(), sum(each.user + each.system for each in times))


async def paced(publish: Publish, rate: float, seconds: float) -> list[float]:
    """Publish at a rate for so long. Return the seconds that each message took to be stable.

    A message that is sent late is timed from when it was due.
    """
    took: list[float] = []
    clock = time.perf_counter
    began = clock()

    async def one(number: int) -> None:
        await publish(number)
        took.append(clock() - (began + number / rate))

    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            wait = began + number / rate - clock()
            if wait > 0:
                await asyncio.sleep(max(wait, SLEEP_SECONDS_MIN))
            group.create_task(one(number))
    return took


async def measured(
    size: float, publish: Publish, rate: float, seconds: float, stores: Sequence[psutil.Process]
) -> Cost:
    """Return what a message costs now, at this rate."""
    await paced(publish, rate, WARM_UP_SECONDS)
    before, began = used(stores), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    idle, idle_seconds = used(stores) - before, time.perf_counter() - began
    before, began = used(stores), time.perf_counter()
    took = await paced(publish, rate, seconds)
    spent, lasted = used(stores) - before, time.perf_counter() - began
    return cost(size, took, spent, lasted, idle, idle_seconds)


def cost(
    size: float, took: list[float], spent: Used, seconds: float, idle: Used, idle_seconds: float
) -> Cost:
    """Return the cost of a message.

    - took: the seconds of each message.
    - spent: the CPU time within `seconds`, while messages were sent.
    - idle: the CPU time within `idle_seconds`, while nothing was sent.
    """
    took = sorted(took)
    clients_idle, stores_idle = idle.clients / idle_seconds, idle.stores / idle_seconds
    return Cost(
        size=size,
        rate=len(took) / seconds,
        clients_us=1e6 * max(0.0, spent.clients - clients_idle * seconds) / len(took),
        stores_us=1e6 * max(0.0, spent.stores - stores_idle * seconds) / len(took),
        clients_idle=clients_idle,
        stores_idle=stores_idle,
        p50_ms=1e3 * statistics.median(took),
        p99_ms=1e3 * took[int(0.99 * (len(took) - 1))],
    )
