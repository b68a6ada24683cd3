"""Many calls share one sync of the publish store, and a disk that hangs holds up none for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests import seams
from tests.source.fake_store import FakeStore
from tests.source.held_disk import HeldDisk
from tests.source.support import QUICK, addresses, open_source

from quorate.protocol.errors import NotYetOnDisk, Outcome
from quorate.source import Receipt, Source
from quorate.source.blocking import Source as BlockingSource
from quorate.transport.blocking import run_blocking

SENDS = 50


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[HeldDisk]:
    disk = HeldDisk(tmp_path / "publish")
    yield disk
    disk.release()


@pytest.fixture
def aside() -> Iterator[list[FakeStore]]:
    """Three stores on the background loop."""

    async def start() -> list[FakeStore]:
        made = [FakeStore() for _ in range(3)]
        for store in made:
            await store.start()
        return made

    made = run_blocking(start())
    yield made
    for store in made:
        run_blocking(store.stop())


def open_blocking(group: list[FakeStore], disk: HeldDisk) -> BlockingSource:
    return BlockingSource.open(
        "orders", session_id=0x10, stores=addresses(group), options=QUICK, publish_store=disk
    )


async def accepted(source: Source, count: int) -> None:
    """Wait until so many messages are accepted, which is before their calls return."""
    while source.next_sequence < count:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)


async def test_many_sends_share_two_syncs(stores: list[FakeStore], disk: HeldDisk) -> None:
    async with await open_source(stores, publish_store=disk) as source:
        sends = [asyncio.create_task(source.send(b"%d" % number)) for number in range(SENDS)]
        await accepted(source, SENDS)
        assert not any(send.done() for send in sends)
        disk.release(2)
        assert await asyncio.gather(*sends) == list(range(SENDS))
        disk.release()


def test_many_threads_share_two_syncs(aside: list[FakeStore], disk: HeldDisk) -> None:
    numbers: list[int] = []
    with open_blocking(aside, disk) as source:
        threads = [
            threading.Thread(target=lambda: numbers.append(source.send(b"x"))) for _ in range(SENDS)
        ]
        for thread in threads:
            thread.start()
        while source.next_sequence < SENDS:
            pass
        assert numbers == []
        disk.release(2)
        for thread in threads:
            thread.join(60)
        assert sorted(numbers) == list(range(SENDS))
        disk.release()


CALLS: dict[str, Callable[[Source, float], Awaitable[object]]] = {
    "send": lambda source, timeout: source.send(b"0", timeout=timeout),
    "send with a key": lambda source, timeout: source.send(b"0", b"key", timeout=timeout),
    "send_many": lambda source, timeout: source.send_many([b"0"], timeout),
    "commit": lambda source, timeout: source.commit([b"0"], b"marker", timeout),
    "publish": lambda source, timeout: source.publish(b"0", timeout=timeout),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_waits_no_longer_for_the_disk_than_it_is_told(
    stores: list[FakeStore],
    disk: HeldDisk,
    call: Callable[[Source, float], Awaitable[object]],
) -> None:
    async with await open_source(stores, publish_store=disk) as source:
        with pytest.raises(NotYetOnDisk, match="are not on the disk yet") as raised:
            await call(source, 0.01)
        error = raised.value
        assert (error.source, error.first, error.last) == ("orders/0x10", 0, 0)
        assert (error.publish_store, error.outcome) == (disk.place, Outcome.UNKNOWN)
        assert source.next_sequence == 1
        disk.release()
        await source.flush(60)
        assert (await source.publish(b"1", timeout=60)).sequence == 1


BLOCKING_CALLS: dict[str, Callable[[BlockingSource], object]] = {
    "send": lambda source: source.send(b"0", timeout=0.01),
    "send_many": lambda source: source.send_many([b"0"], 0.01),
    "commit": lambda source: source.commit([b"0"], b"marker", 0.01),
    "publish": lambda source: source.publish(b"0", timeout=0.01),
}


@pytest.mark.parametrize("call", BLOCKING_CALLS.values(), ids=BLOCKING_CALLS)
def test_a_blocking_call_waits_no_longer_either(
    aside: list[FakeStore], disk: HeldDisk, call: Callable[[BlockingSource], object]
) -> None:
    with open_blocking(aside, disk) as source:
        with pytest.raises(NotYetOnDisk, match=r"\[0, 0\] of orders/0x10 were accepted"):
            call(source)
        disk.release()
        source.flush(60)


async def test_a_close_waits_no_longer_for_the_disk_than_it_is_told(
    stores: list[FakeStore], disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SOURCE_BATCHER_SYNC_SECONDS.replace(monkeypatch, 0.01)
    source = await open_source(stores, publish_store=disk)
    sending = asyncio.create_task(source.send(b"0"))
    publishing: asyncio.Task[Receipt] = asyncio.create_task(source.publish(b"1"))
    await accepted(source, 2)
    with pytest.raises(NotYetOnDisk, match=r"\[0, 1\] of orders/0x10 .*the source was closed"):
        await source.close(timeout=0.01)
    for number, waiting in enumerate((sending, publishing)):
        with pytest.raises(NotYetOnDisk, match=rf"\[{number}, {number}\] .*the source was closed"):
            await waiting
    disk.release()


async def test_a_close_waits_for_a_disk_that_is_only_slow(
    stores: list[FakeStore], disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SOURCE_BATCHER_SYNC_SECONDS.replace(monkeypatch, 60.0)
    source = await open_source(stores, publish_store=disk)
    sending = asyncio.create_task(source.send(b"0"))
    await accepted(source, 1)
    closing = asyncio.create_task(source.close(timeout=0))
    await asyncio.sleep(0)
    disk.release()
    await closing
    assert await sending == 0
