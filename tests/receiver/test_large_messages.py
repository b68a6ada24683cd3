"""Messages above the usual size, from a real source over real stores to a receiver."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.receiver.real_peers import QUICK, Stores

from quorate.protocol.limits import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX
from quorate.receiver import Receiver, ReceiverOptions, SourceAttached, Start
from quorate.source import Source, SourceOptions

pytestmark = pytest.mark.long

LARGE = SourceOptions(message_bytes_max=MESSAGE_BYTES_MAX, registration_interval=0.3)
MIDDLE = 20 * 2**20


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    made = Stores(tmp_path)
    for name in "abc":
        await made.start(name)
    yield made
    for name in list(made.nodes):
        await made.stop(name)


async def opened(stores: Stores, **changes: Any) -> Source:
    settings: dict[str, Any] = {"session_id": 0x10, "options": LARGE}
    return await Source.open("orders", stores=stores.addresses, **(settings | changes))


async def receiver(stores: Stores, **changes: Any) -> Receiver:
    settings: dict[str, Any] = {"session_id": 0x20, "options": QUICK, "start": Start.EARLIEST}
    return await Receiver.open("orders", stores=stores.addresses, **(settings | changes))


async def taken(from_: Receiver, count: int) -> list[tuple[bytes, bool]]:
    """The payloads of the next messages, and whether each came from the stores."""
    found = []
    async with asyncio.timeout(120):
        async for message in from_:
            found.append((message.payload, message.retransmitted))
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("delivery", ["live", "stable"])
async def test_the_largest_message_comes_live_and_again_after_restarts(
    stores: Stores, delivery: str
) -> None:
    payload = content(MESSAGE_BYTES_MAX)
    source = await opened(stores)
    async with await receiver(stores, delivery=delivery) as live:
        await source.publish(b"before")
        assert await taken(live, 1)
        async with asyncio.timeout(60):
            await anext(event async for event in live.events() if isinstance(event, SourceAttached))
        await source.send(payload)
        await source.send(b"after")
        came = await taken(live, 2)
        assert [each for each, _ in came] == [payload, b"after"]
        assert not came[0][1], "it came live, not from the stores"
    await source.close()
    for name in "abc":
        await stores.stop(name)
        await stores.start(name)
    async with await receiver(stores, session_id=0x21) as late:
        assert await taken(late, 3) == [(b"before", True), (payload, True), (b"after", True)]


async def test_a_receiver_with_little_memory_takes_large_messages_one_by_one(
    stores: Stores,
) -> None:
    options = ReceiverOptions(buffer_bytes=4 * FRAME_BYTES_MAX, request_timeout=5.0)
    payloads = [content(MIDDLE, seed) for seed in range(4)]
    async with await opened(stores) as source:
        for payload in payloads:
            await source.publish(payload, key=b"k", properties={"p": b"q"})
        async with await receiver(stores, options=options) as late:
            found = []
            async with asyncio.timeout(120):
                async for message in late:
                    assert late._inbox._bytes <= MIDDLE + 1000
                    assert (message.key, message.properties) == (b"k", {"p": b"q"})
                    found.append(message.payload)
                    if len(found) == len(payloads):
                        break
            assert found == payloads


@pytest.mark.expects_log("c does not take|cannot be heard")
async def test_a_store_that_dies_in_the_middle_of_a_fetch_is_replaced(stores: Stores) -> None:
    payload = content(MIDDLE)
    async with await opened(stores) as source:
        await source.publish(payload)
        async with await receiver(stores) as late:
            await stores.stop("c")
            assert [each for each, _ in await taken(late, 1)] == [payload]
            await source.publish(b"after")
            assert [each for each, _ in await taken(late, 1)] == [b"after"]
