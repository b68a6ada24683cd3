"""Many receivers of one client, each of a source of its own, in one process with their stores."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.test_many_sources import BETWEEN_STORES, descriptors, listening
from tests.receiver.real_peers import Stores

from quorate.client import Receiver, connect

AT_ONCE = 50
"""The sources that are opened at the same time."""

# The stores of this process, which sync for all of them, may be late to acknowledge.
pytestmark = pytest.mark.expects_log(
    "waits for|does not (take|register)|lost its quorum|is missing; waiting for"
)


async def receive_of_many(stores: Stores, count: int) -> None:
    """Open so many sources and receivers, and see that each receiver gets its message."""
    topics = [f"orders.{number}" for number in range(count)]
    # This loop runs the stores, too: what one side says is late, and nobody hangs.
    async with connect(stores.addresses, heartbeat_interval=10, heartbeat_timeout=60) as client:
        first = await client.source("first", timeout=100)
        async with client.receiver("first", timeout=100) as receiver:
            await first.publish(b"first")
            assert await receiver.receive(timeout=60) is not None
        with_one, ports = descriptors(), listening()
        receivers = list[Receiver]()
        for at in range(0, count, AT_ONCE):
            part = topics[at : at + AT_ONCE]
            sources = await asyncio.gather(
                *(client.source(topic, session_id=1, timeout=100) for topic in part)
            )
            receivers += await asyncio.gather(
                *(client.receiver(topic, session_id=2, timeout=100) for topic in part)
            )
            await asyncio.gather(
                *(each.publish(topic.encode()) for each, topic in zip(sources, part, strict=True))
            )
        messages = await asyncio.gather(*(each.receive(timeout=100) for each in receivers))
        assert [each and each.payload.decode() for each in messages] == topics
        assert descriptors() < with_one + BETWEEN_STORES + count / 4
        assert listening() == ports


async def test_receivers_of_one_client_need_no_descriptors(stores: Stores) -> None:
    await receive_of_many(stores, 20)


@pytest.mark.big
@pytest.mark.timeout(600)
async def test_three_hundred_receivers_of_as_many_sources(stores: Stores) -> None:
    await receive_of_many(stores, 300)
