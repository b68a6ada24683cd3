"""Calls of a subscriber that are cancelled, closed or paused while they wait; real stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores
from tests.store.support import Client as store_client
from tests.subscriber.test_replay import QUICK, client, send, sent, stores, take, until_completed

from quorate.client import Client, connect
from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import BookmarkStoreFailed, Closed
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.subscriber import Completed, MemoryBookmarkStore, ReplayedBatch, ReplayedMessage
from quorate.subscriber.events import Event, StoreLeft, Subscribed
from quorate.subscriber.items import Gap, GapCause
from quorate.v1 import store_pb2 as store_v1

__all__ = ["client", "stores"]


async def cancelled(waiting: asyncio.Task[object]) -> None:
    """Let the task wait, and cancel it."""
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancelled_call_loses_nothing(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders") as subscriber:
        await until_completed(subscriber)
        before = subscriber.position
        await cancelled(asyncio.create_task(subscriber._item()))
        assert subscriber.position == before
        await send(client, 1, 10, 19)
        assert await take(subscriber, 10) == sent(1, 10, 19)


async def test_a_cancelled_call_leaves_a_batch_that_is_not_due_to_the_next(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", rate="20/s") as subscriber:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await anext(subscriber.batches())
        assert subscriber.position == Position()
        batch = await anext(subscriber.batches())
        assert isinstance(batch, ReplayedBatch)
        assert next(iter(batch.numbers)) == 0


@pytest.mark.parametrize("where", ["$sequence % 2 = 1", "$sequence = 9", "$sequence % 3 = 0"])
async def test_a_filter_that_passes_some_batches_as_a_whole(client: Client, where: str) -> None:
    told: list[Event] = []
    for number in range(10):
        await send(client, 1, number, number)
    async with client.subscriber("orders", where=where, on_event=told.append) as subscriber:
        *found, _ = await until_completed(subscriber)
    passing: Callable[[int], bool] = {
        "$sequence % 2 = 1": lambda number: number % 2 == 1,
        "$sequence = 9": lambda number: number == 9,
        "$sequence % 3 = 0": lambda number: number % 3 == 0,
    }[where]
    numbers = [each.sequence for each in found if isinstance(each, ReplayedMessage)]
    assert numbers == [number for number in range(10) if passing(number)]
    assert not [each for each in told if isinstance(each, StoreLeft)]


async def test_closing_ends_a_call_that_waits(client: Client) -> None:
    subscriber = await client.subscriber("orders")
    await until_completed(subscriber)
    waiting = asyncio.create_task(subscriber._item())
    await asyncio.sleep(0)
    await subscriber.close()
    with pytest.raises(Closed):
        await waiting


async def test_closing_ends_a_call_that_waits_for_any_store(
    client: Client, stores: RealStores
) -> None:
    left = asyncio.Event()

    def told(event: Event) -> None:
        if isinstance(event, StoreLeft):
            left.set()

    subscriber = await client.subscriber("orders", on_event=told)
    await until_completed(subscriber)
    waiting = asyncio.create_task(subscriber._item())
    await stores.stop("abc")
    await left.wait()
    await subscriber.close()
    with pytest.raises(Closed):
        await waiting


async def test_closing_ends_a_call_that_is_paused(client: Client) -> None:
    await send(client, 1, 0, 9)
    subscriber = await client.subscriber("orders")
    subscriber.pause()
    waiting = asyncio.ensure_future(anext(subscriber))
    await asyncio.sleep(0)
    await subscriber.close()
    with pytest.raises(Closed):
        await waiting


async def test_it_says_once_that_history_is_over(client: Client, stores: RealStores) -> None:
    moved = asyncio.Event()
    begun: list[Subscribed] = []

    def told(event: Event) -> None:
        if isinstance(event, Subscribed):
            begun.append(event)
            if len(begun) == 2:
                moved.set()

    async with client.subscriber("orders", on_event=told) as subscriber:
        await until_completed(subscriber)
        waiting = asyncio.ensure_future(anext(subscriber))
        await stores.stop([begun[0].store])
        await moved.wait()
        await send(client, 1, 0, 0)
        item = await waiting
        assert isinstance(item, ReplayedMessage)


async def test_the_position_is_behind_what_a_filter_left_out(client: Client) -> None:
    await send(client, 1, 0, 9)
    async with client.subscriber("orders", where="$sequence > 100") as subscriber:
        [completed] = await until_completed(subscriber)
        assert isinstance(completed, Completed)
        assert subscriber.position == completed.position != Position()


class FullDisk(MemoryBookmarkStore):
    """A bookmark store of an application, whose disk is full."""

    def save(self, *_: object) -> None:
        """Raise what the system says."""
        raise OSError(28, "No space left on device")


@pytest.mark.expects_log("cannot be saved")
async def test_a_call_that_waits_is_told_that_nothing_is_saved(client: Client) -> None:
    subscriber = await client.subscriber(
        "orders", bookmarks=FullDisk(), name="risk", save_interval=0.05
    )
    with pytest.raises(BookmarkStoreFailed, match="No space left"):
        await take(subscriber, 1)
    with pytest.raises(BookmarkStoreFailed, match="No space left"):
        await subscriber.close()


async def test_what_goes_while_the_application_does_not_read_is_a_gap(tmp_path: Path) -> None:
    """The messages are many times what is read ahead of an application."""
    stores = RealStores(tmp_path)
    stores.settings["a"] = {"retention_messages": 5, "retain_until": ("archived",)}
    await stores.start("a")
    async with connect(stores.named("a")) as client:
        async with client.source("orders", session_id=1, options=QUICK) as source:
            for number in range(100):
                await source.publish(b"%d " % number + bytes(400_000))
        async with client.subscriber("orders") as subscriber:
            first = await anext(subscriber)
            await archived_upto(stores.address("a"), SourceName("orders", 1), 99)
            found = await until_completed(subscriber)
    await stores.stop_all()
    (gap,) = (item for item in found if isinstance(item, Gap))
    assert (gap.cause, gap.last) == (GapCause.RELEASED, 94)
    numbers = [item.sequence for item in (first, *found) if isinstance(item, ReplayedMessage)]
    assert numbers == [*range(gap.first), *range(95, 100)], "nothing is missing but the gap"


async def archived_upto(address: str, source: SourceName, upto: int) -> None:
    """Return when the store has let go what an archive has up to this number."""
    async with store_client(address) as client:
        request = store_v1.ArchivedRequest(
            source=source_to_wire(source), upto=upto, protocol_version=PROTOCOL_VERSION
        )
        await client.call("Archived", request)
        async with asyncio.timeout(60):
            while not (await client.status()).sources[0].retained_from:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
