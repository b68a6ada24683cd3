"""Many sources in one process: what each of them costs, counted."""

from __future__ import annotations

import asyncio
import os

import psutil
import pytest
from tests.receiver.real_peers import Stores

from quorate.client import connect
from quorate.source import Source
from quorate.transport.connections import BEGINNINGS_MAX

TASKS_OF_EACH = 3
"""For each of three stores: its session. What reads and writes belongs to all sources."""

BETWEEN_STORES = 3 * 2 * 2
"""The sockets of three stores in this process that connect to each other, both ends."""


def tasks_of_sources() -> int:
    """How many tasks of this loop run code of sources."""
    codes = [getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()]
    return sum("/quorate/source/" in code.co_filename for code in codes if code is not None)


def descriptors() -> int:
    """How many descriptors this process has, but for files: its stores open some by themselves."""
    process = psutil.Process(os.getpid())
    return process.num_fds() - len(process.open_files())


def listening() -> int:
    """How many TCP ports this process listens on."""
    connections = psutil.Process(os.getpid()).net_connections("tcp")
    return sum(each.status == psutil.CONN_LISTEN for each in connections)


async def until_idle(sources: list[Source]) -> None:
    while any(source._engine._next_tick is not None for source in sources):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def open_many(stores: Stores, count: int) -> None:
    """Open so many sources, and see that all of them share what they can."""
    ports = listening()
    async with connect(stores.addresses) as client:
        await client.source("first", timeout=100)
        with_one = descriptors()
        sources = await asyncio.gather(
            *(client.source("orders", session_id=number, timeout=100) for number in range(1, count))
        )
        await until_idle(sources)
        assert tasks_of_sources() == TASKS_OF_EACH * count
        assert descriptors() < with_one + BETWEEN_STORES + count / 4
        assert listening() == ports + 1


async def test_sources_of_one_client_share_a_port_and_need_no_descriptors(stores: Stores) -> None:
    await open_many(stores, 20)


@pytest.mark.expects_log("waits for another instance")
async def test_sources_that_wait_let_others_begin(stores: Stores) -> None:
    async with (
        connect(stores.addresses, timeout=None) as client,
        client.source("orders", session_id=1),
    ):

        async def stand_by() -> None:
            await client.source("orders", session_id=1)

        waiting = [asyncio.create_task(stand_by()) for _ in range(BEGINNINGS_MAX + 4)]
        while not client._connections.beginnings.locked():  # noqa: ASYNC110, nobody tells
            await asyncio.sleep(0)
        other = await client.source("orders", session_id=2, timeout=60)
        assert other.next_sequence == 0
        assert not any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


@pytest.mark.big
@pytest.mark.timeout(300)
async def test_a_thousand_sources_open(stores: Stores) -> None:
    await open_many(stores, 1000)
