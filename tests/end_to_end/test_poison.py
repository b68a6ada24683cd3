"""Poison: an operator marks messages, and stores no longer deliver them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.end_to_end.test_accepted_losses import Group, sent
from tests.store.support import ORDERS, Client

from quorate.client import connect
from quorate.client.replay import NOW, GapCause, ReplayedMessage
from quorate.client.replay import Gap as ReplayedGap
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver import Answer, Gap, Receiver, ReceiverOptions
from quorate.v1 import store_pb2 as store_v1

pytestmark = pytest.mark.long

_SAID = "accepted by an operator|is poison, and is skipped"


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    for at in range(3):
        await made.start(at)
    made.are_peers = True
    for at in range(3):
        await made.nodes[at].stop()
        await made.start(at)
    yield made
    for node in made.nodes:
        await node.stop()


async def mark(
    client: Client, first: int, last: int, poison: store_v1.Poison = store_v1.POISON_MARKED
) -> None:
    request = store_v1.AcceptLossRequest(
        source=source_to_wire(ORDERS),
        first=first,
        last=last,
        reason="breaks the parser; Ada",
        poison=poison,
        time_ns=time.time_ns(),
        protocol_version=PROTOCOL_VERSION,
    )
    await client.call("AcceptLoss", request)


async def poisoned_at(group: Group, at: int, expected: list[tuple[int, int]]) -> None:
    """Wait until a store knows these marks."""
    async with group.client(at) as client, asyncio.timeout(60):
        while [  # noqa: ASYNC110
            (each.first, each.last) for each in (await client.status()).sources[0].poisoned
        ] != expected:
            await asyncio.sleep(0.05)


async def received(group: Group, last: int, session_id: int) -> tuple[list[int], list[Gap]]:
    gaps: list[Gap] = []
    numbers: list[int] = []
    options = ReceiverOptions(registration_interval=3.0)
    async with await Receiver.open(
        ORDERS.topic, session_id=session_id, stores=group.addresses, options=options, timeout=60.0
    ) as receiver:

        async def watch() -> None:
            async for event in receiver.events():
                if isinstance(event, Gap):
                    gaps.append(event)

        watching = asyncio.create_task(watch())
        async with asyncio.timeout(60):
            async for message in receiver:
                numbers.append(message.sequence)
                if message.sequence == last:
                    break
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return numbers, gaps


@pytest.mark.expects_log(_SAID)
async def test_receivers_and_subscribers_skip_poison_that_every_store_keeps(group: Group) -> None:
    async with await group.open() as source:
        await sent(source, 40)
        async with group.client(0) as client:
            await mark(client, 13, 16)
        for at in range(3):
            await poisoned_at(group, at, [(13, 16)])
        # The source streams still and retains them; it does not know.
        numbers, gaps = await received(group, 39, 0x20)
        assert numbers == [*range(13), *range(17, 40)]
        assert [(each.first, each.last, each.cause) for each in gaps] == [(13, 16, Answer.POISONED)]
        assert any("breaks the parser; Ada" in detail for _, detail in gaps[0].evidence)
    given: list[int] = []
    found: list[ReplayedGap] = []
    async with (
        asyncio.timeout(60),
        connect(group.addresses) as application,
        application.subscriber(ORDERS.topic, end=NOW) as subscription,
    ):
        async for item in subscription:
            if isinstance(item, ReplayedGap):
                found.append(item)
            elif isinstance(item, ReplayedMessage):
                given.append(item.sequence)
    assert given == [*range(13), *range(17, 40)]
    assert found == [ReplayedGap(ORDERS, 13, 16, GapCause.POISONED)]


@pytest.mark.expects_log(_SAID)
async def test_a_mark_outlives_a_restart_and_can_be_removed(group: Group) -> None:
    async with await group.open() as source:
        await sent(source, 20)
    async with group.client(0) as client:
        await mark(client, 19, 19)
        with pytest.raises(InvalidArgument, match="knows of no message"):
            await mark(client, 20, 20)
        fetched = await client.fetch()
        assert sorted(fetched.messages) == list(range(20)), "peers and archives still read it"
    await group.nodes[0].stop()
    await group.start(0)
    await poisoned_at(group, 0, [(19, 19)])
    await poisoned_at(group, 1, [(19, 19)])
    async with group.client(1) as client:
        await mark(client, 19, 19, store_v1.POISON_REMOVED)
    for at in range(3):
        await poisoned_at(group, at, [])
    numbers, gaps = await received(group, 19, 0x21)
    assert (numbers, gaps) == (list(range(20)), [])
