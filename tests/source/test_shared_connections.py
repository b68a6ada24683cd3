"""Sources and receivers of one client: the TCP connections to three real stores that they share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.receiver.real_peers import Stores, take
from tests.sockets import connections_to

from quorate.receiver import Receiver
from quorate.source import Source, WaitingForStores
from quorate.transport.connections import OPENINGS_MAX, Connections


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    """Three stores."""
    started = Stores(tmp_path)
    for name in "abc":
        await started.start(name)
    yield started
    for name in "abc":
        await started.stop(name)


async def test_two_sources_and_two_receivers_have_one_connection_to_each_store(
    stores: Stores,
) -> None:
    connections = Connections()
    addresses = [node.address for node in stores.nodes.values()]

    async def source(session_id: int) -> Source:
        named = stores.addresses
        return await Source.open(
            "orders", stores=named, session_id=session_id, connections=connections
        )

    sources = [await source(0x10), await source(0x11)]
    receivers = [
        await Receiver.open(
            "orders", stores=stores.addresses, session_id=session_id, connections=connections
        )
        for session_id in (0x20, 0x21)
    ]
    for one in sources:
        await one.publish(b"0")
    for receiver in receivers:
        assert await take(receiver, 2) == [(0, b"0")] * 2
    # On a busy machine a store may have seemed to hang, and its former connection is closing.
    async with asyncio.timeout(60):
        while connections_to(addresses) != dict.fromkeys(addresses, 1):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for one in sources:
        await one.close()
    for receiver in receivers:
        await receiver.close()
    # The client goes on with its connections after its sources and receivers have closed.
    async with await source(0x10) as one:
        await one.publish(b"1")
    await connections.close()


async def test_sources_that_open_take_turns_at_a_store(stores: Stores) -> None:
    connections = Connections()
    others = [connections.connect(node.address) for node in stores.nodes.values()]
    for other in others:
        for _ in range(OPENINGS_MAX):
            await other.openings.acquire()
    waits: asyncio.Queue[object] = asyncio.Queue()
    opening = asyncio.create_task(
        Source.open(
            "orders",
            stores=stores.addresses,
            connections=connections,
            on_event=waits.put_nowait,
            timeout=100,
        )
    )
    assert isinstance(await waits.get(), WaitingForStores), "it is not its turn"
    for other in others:
        other.openings.release()
    async with await opening as source:
        await source.publish(b"0")
    await connections.close()
