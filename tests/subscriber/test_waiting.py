"""Calls of a subscriber that are cancelled, closed or paused while they wait; real stores."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.source.real_stores import RealStores
from tests.store.support import Client as store_client
from tests.subscriber.test_replay import QUICK, client, send, sent, stores, take, until_completed

from quorate.client import Client, connect
from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import BookmarkStoreFailed, Closed, InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.subscriber import Completed, MemoryBookmarkStore, ReplayedBatch, ReplayedMessage
from quorate.subscriber.events import Event, NotSaved, StoreLeft, Subscribed
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


# The source sends while a store is stopped, and may have tried it before it is done.
@pytest.mark.expects_log("does not take .* cannot be reached")
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


@pytest.mark.expects_log("is not saved for now: .*No space left")
async def test_a_subscription_goes_on_while_nothing_is_saved_and_says_so(client: Client) -> None:
    told = asyncio.Event()
    refused: list[NotSaved] = []

    def tell(event: Event) -> None:
        if isinstance(event, NotSaved):
            refused.append(event)
            told.set()

    subscriber = await client.subscriber(
        "orders", bookmarks=FullDisk(), name="risk", save_interval=0.05, on_event=tell
    )
    await told.wait()
    await send(client, 1, 0, 9)
    assert len(await take(subscriber, 10)) == 10
    assert [(each.name, each.reason.path) for each in refused] == [("risk", "risk")]
    with pytest.raises(BookmarkStoreFailed, match="No space left"):
        await subscriber.close()


class LockedFile(MemoryBookmarkStore):
    """A bookmark store that another program locks for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = 3
        self.saved = threading.Event()

    def save(self, name: str, owner: str, position: Position) -> None:
        if self.refuses:
            self.refuses -= 1
            raise BookmarkStoreFailed("risk.db", "database is locked")
        super().save(name, owner, position)
        self.saved.set()


@pytest.mark.expects_log("is not saved for now: .*database is locked")
async def test_a_position_is_saved_once_the_bookmark_store_takes_it_again(client: Client) -> None:
    bookmarks = LockedFile()
    async with client.subscriber(
        "orders", bookmarks=bookmarks, name="risk", save_interval=0.02
    ) as subscriber:
        await send(client, 1, 0, 9)
        for _ in range(10):
            while not isinstance(item := await anext(subscriber), ReplayedMessage):
                pass
            item.consumed()
        assert await asyncio.to_thread(bookmarks.saved.wait, 20)
        assert bookmarks.most_recent("risk") is not None


class Told(MemoryBookmarkStore):
    """A bookmark store that tells of each position that it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: queue.Queue[int] = queue.Queue()

    def save(self, name: str, owner: str, position: Position) -> None:
        super().save(name, owner, position)
        (place,) = position.values()
        self.saved.put(place.sequence)


async def test_a_position_is_saved_once_so_many_messages_are_consumed(client: Client) -> None:
    bookmarks = Told()
    await send(client, 1, 0, 29)
    async with client.subscriber(
        "orders", bookmarks=bookmarks, name="risk", save_interval=3600, save_every=10
    ) as subscriber:
        *messages, _ = await until_completed(subscriber)
        for item in messages[:9]:
            assert isinstance(item, ReplayedMessage)
            item.consumed()
            item.consumed()
        with pytest.raises(queue.Empty):
            bookmarks.saved.get_nowait()
        for upto in (9, 19):
            for item in messages[upto - 9 : upto + 1]:
                assert isinstance(item, ReplayedMessage)
                await asyncio.to_thread(item.consumed)
            assert await asyncio.to_thread(bookmarks.saved.get, timeout=20) == upto


@pytest.mark.parametrize(
    "wrong", [{"save_interval": 0}, {"save_interval": float("nan")}, {"save_every": 0}]
)
async def test_a_saving_that_cannot_be_is_named(client: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        await client.subscriber("orders", bookmarks=Told(), name="risk", **wrong)


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
        told = store_v1.ArchivedSource(source=source_to_wire(source), upto=upto)
        request = store_v1.ArchivedRequest(sources=[told], protocol_version=PROTOCOL_VERSION)
        await client.call("Archived", request)
        async with asyncio.timeout(60):
            while not (await client.status()).sources[0].retained_from:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
