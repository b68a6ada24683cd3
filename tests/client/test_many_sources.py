"""Many sources in one process: what each of them costs, counted."""

from __future__ import annotations

import asyncio
import os

import psutil
import pytest
from tests.receiver.real_peers import Stores

from quorate.client import connect
from quorate.source import Source

TASKS_OF_EACH = 9
"""For each of three stores: its session, a reader and a writer."""


def tasks_of_sources() -> int:
    """How many tasks of this loop run code of sources."""
    codes = [getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()]
    return sum("/quorate/source/" in code.co_filename for code in codes if code is not None)


def descriptors() -> int:
    return psutil.Process(os.getpid()).num_fds()


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
        # The stores in this process may have opened some files meanwhile.
        assert descriptors() < with_one + count / 4
        assert listening() == ports + 1


async def test_sources_of_one_client_share_a_port_and_need_no_descriptors(stores: Stores) -> None:
    await open_many(stores, 20)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_thousand_sources_open(stores: Stores) -> None:
    await open_many(stores, 1000)
