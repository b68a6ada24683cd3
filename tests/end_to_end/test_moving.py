"""A receiver follows a stream that moves to other stores, and comes back to it there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores
from tests.source.support import event_of

from quorate.protocol.errors import NotRegistered
from quorate.receiver import Receiver
from quorate.source import BackupSteppedIn, Layout, MembershipChanged, Source, StoreGroup

pytestmark = [
    pytest.mark.expects_log(
        "does not take|lost its quorum|stands in|directory of|does not register|"
        "waits for more stores|is missing|no peer could|another lineage|repair of"
    ),
    pytest.mark.long,
]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    yield made
    await made.stop_all()


async def take(receiver: Receiver, upto: int, first: int = 0) -> None:
    """Exactly these messages, in order."""
    async with asyncio.timeout(60):
        number = first
        async for message in receiver:
            assert (message.sequence, message.payload) == (number, b"%d" % number)
            if number == upto:
                return
            number += 1


async def publish(source: Source, *numbers: int) -> None:
    """Publish these, each once the source is registered: on a busy machine stores look hung."""
    for number in numbers:
        while True:
            try:
                await source.publish(b"%d" % number)
                break
            except NotRegistered:
                await asyncio.sleep(0.05)


async def test_a_stream_that_moves_while_it_is_received(stores: RealStores) -> None:
    await stores.start("abcdef")
    async with await stores.open("abc") as source:
        await source.send_many([b"%d" % number for number in range(100)])
    receiver = await Receiver.open("orders", stores=stores.named("abc"), session_id=0x20)
    async with receiver:
        await take(receiver, 49)
        async with await stores.open("def", previous_policies=[stores.named("abc")]) as source:
            await publish(source, *range(100, 200))
            nth = 1
            while not (await event_of(source, MembershipChanged, nth)).confirmed:
                nth += 1
            await stores.stop("abc")
            await publish(source, *range(200, 300))
            await take(receiver, 299, first=50)
    async with await stores.open("def") as source:
        await publish(source, 300)
        receiver = await Receiver.open("orders", stores=stores.named("def"), session_id=0x20)
        async with receiver:
            await take(receiver, 300, first=300)


async def test_a_backup_that_steps_in_while_it_is_received(stores: RealStores) -> None:
    await stores.start("abcd")
    layout = Layout.of(StoreGroup("g", stores.named("abc"), backups=stores.named("d")))
    async with (
        await stores.open(layout) as source,
        await Receiver.open("orders", stores=stores.named("abc"), session_id=0x20) as receiver,
    ):
        for number in range(100):
            await source.publish(b"%d" % number)
        await stores.stop("c")
        number = 100
        stepped_in = asyncio.create_task(event_of(source, BackupSteppedIn))
        holders: tuple[str, ...] = ()
        # That it steps in is said before it takes the stream.
        while not stepped_in.done() or "d" not in holders:
            holders = (await source.publish(b"%d" % number)).stores
            number += 1
        await stores.stop("b")
        # Without the backup there would be no quorum now.
        receipt = await source.publish(b"%d" % number)
        assert set(receipt.stores) == {"a", "d"}
        await take(receiver, number)
