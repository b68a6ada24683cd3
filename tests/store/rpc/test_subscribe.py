"""A subscription to a journal whose batches are not in the order of their numbers; its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.store.support import ORDERS, TRADES, Client, batch, running

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import position_from_wire, position_to_wire
from quorate.store.node import StoreNode
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


async def history(client: Client, begin: Position) -> list[int]:
    """Return the numbers of ORDERS that are given until the history is complete."""
    request = store_v1.SubscribeRequest(
        protocol_version=PROTOCOL_VERSION,
        pattern=".*",
        position=position_to_wire(begin),
        delivered=store_v1.DELIVERED_STABLE,
    )
    numbers: list[int] = []
    call = client.stub.Subscribe(request)
    async with asyncio.timeout(20):
        async for response in call:
            for given in response.given:
                if read_header(given.fetched.batch).source == ORDERS:
                    numbers += range(given.fetched.first, given.fetched.last + 1)
            if response.completed:
                break
    call.cancel()
    return numbers


@pytest.mark.expects_log("no peer could give it")  # on a busy machine
@pytest.mark.parametrize("behind", [-1, 4])
async def test_what_the_walk_passed_too_early_is_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    seams.STORE_SUBSCRIBE_CHUNK_ROWS_MAX.replace(monkeypatch, 1)
    seams.JOURNAL_SCANNED_ROWS.replace(monkeypatch, 1)
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        trades = await client.stream(source=TRADES)
        await orders.append(0, 4)
        await orders.close()
        # A source that keeps less than a store lacks goes on behind a hole, which is filled later.
        orders = await client.open(retained_from=20, stable_upto=19)
        await orders.append(20, 29)
        await orders.close()
        for first in range(0, 30, 10):
            await trades.append(first, first + 9, source=TRADES)
        orders = await client.open()
        await orders.append(5, 9)
        await orders.batch(batch(10, 19), stable_upto=29)
        await orders.durable(19)
        begin = Position({ORDERS: Place(1, behind)}) if behind >= 0 else Position()
        numbers = await history(client, begin)
        assert numbers == list(range(behind + 1, 30))


def timed(first: int, last: int, time_ns: int) -> bytes:
    return encode_batch(ORDERS, 1, first, [b"x"] * (last - first + 1), time_ns)


async def ends(client: Client, before_ns: int) -> Position:
    """Return the position that the store makes of a time that has passed."""
    request = store_v1.SubscribeRequest(
        protocol_version=PROTOCOL_VERSION,
        topic=ORDERS.topic,
        delivered=store_v1.DELIVERED_STABLE,
        end_before_ns=before_ns,
    )
    call = client.stub.Subscribe(request)
    async with asyncio.timeout(20):
        response = await anext(aiter(call))
    call.cancel()
    assert response.HasField("ends")
    return position_from_wire(response.ends)


async def test_a_time_ends_before_its_first_message_and_behind_what_is_stable(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        await orders.batch(timed(0, 4, 1000))
        await orders.batch(timed(5, 9, 2000))
        await orders.durable(9)
        await orders.batch(timed(10, 14, 3000), stable_upto=9)
        await orders.durable(14)
        for before_ns, last in ((1000, -1), (1001, 4), (2000, 4), (2001, 9), (4000, 9)):
            place = NO_PLACE if last < 0 else Place(1, last)
            assert await ends(client, before_ns) == {ORDERS: place}


async def test_missing_messages_in_front_of_a_time_are_before_the_end(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        await orders.batch(timed(0, 4, 1000))
        await orders.durable(4)
        await orders.close()
        orders = await client.open(retained_from=20, stable_upto=19)
        await orders.batch(timed(20, 29, 3000), stable_upto=19)
        await orders.durable(29)
        assert await ends(client, 2000) == {ORDERS: Place(1, 19)}


class Syncs:
    """The syncs of a store, held until the test lets them go on."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        """Counts the syncs that have begun."""
        self.let_go = threading.Semaphore(0)


@contextmanager
def syncs_held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Syncs]:
    """Hold every sync of a store until it is let go; in the end let all go."""
    syncs, sync, is_over = Syncs(), seams.ROCKS_STORAGE_SYNC.real(), threading.Event()

    def held(storage: Any) -> None:
        syncs.begun.release()
        while not is_over.is_set() and not syncs.let_go.acquire(timeout=0.01):
            pass
        sync(storage)

    seams.ROCKS_STORAGE_SYNC.replace(monkeypatch, held)
    try:
        yield syncs
    finally:
        is_over.set()


async def given(call: Any, last: int) -> list[int]:
    """Return the numbers that a subscription is given, up to the last one."""
    numbers: list[int] = []
    async with asyncio.timeout(20):
        while last not in numbers:
            response = await call.read()
            for each in response.given:
                numbers += range(each.fetched.first, each.fetched.last + 1)
    return numbers


def subscribed(client: Client, delivered: store_v1.Delivered) -> Any:
    return client.stub.Subscribe(
        store_v1.SubscribeRequest(
            protocol_version=PROTOCOL_VERSION, topic=ORDERS.topic, delivered=delivered
        )
    )


@contextmanager
def readers_busy(node: StoreNode) -> Iterator[None]:
    """Keep all threads that read for a store busy."""
    is_over, readers = threading.Event(), node._executor
    for _ in range(readers._max_workers):
        readers.submit(is_over.wait)
    try:
        yield
    finally:
        is_over.set()


async def test_who_follows_what_is_durable_waits_for_no_thread(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        call = subscribed(client, store_v1.DELIVERED_DURABLE)
        while not (await call.read()).completed:
            pass
        with readers_busy(node):
            await orders.append(0, 4)
            assert await given(call, 4) == [0, 1, 2, 3, 4]
        call.cancel()


async def test_who_follows_what_is_stable_waits_for_no_thread(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        call = subscribed(client, store_v1.DELIVERED_STABLE)
        while not (await call.read()).completed:
            pass
        with readers_busy(node):
            await orders.append(0, 4)
            await orders.append(5, 9)
            await orders.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=4))
            assert await given(call, 4) == [0, 1, 2, 3, 4]
            # The walk has passed these, so they are found by their numbers.
            await orders.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=9))
            assert await given(call, 9) == [5, 6, 7, 8, 9]
        call.cancel()


async def test_what_becomes_stable_is_given_before_the_disk_has_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        await orders.append(0, 4)
        call = subscribed(client, store_v1.DELIVERED_STABLE)
        while not (await call.read()).completed:
            pass
        with syncs_held(monkeypatch):
            await orders.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=4))
            assert await given(call, 4) == [0, 1, 2, 3, 4]
        call.cancel()


async def test_what_is_durable_is_given_before_the_next_commit_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        call = subscribed(client, store_v1.DELIVERED_DURABLE)
        while not (await call.read()).completed:
            pass
        with syncs_held(monkeypatch) as syncs:
            await orders.batch(batch(0, 4))
            await asyncio.to_thread(syncs.begun.acquire)
            await orders.batch(batch(5, 9))
            syncs.let_go.release()
            await asyncio.to_thread(syncs.begun.acquire)
            assert await given(call, 4) == [0, 1, 2, 3, 4]
        call.cancel()


async def test_a_batch_that_is_durable_and_then_stable_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[int] = []
    read = seams.STORE_SUBSCRIBE_READ_PASSED.real()

    def read_again(*arguments: Any) -> Any:
        found = read(*arguments)
        again.extend(each.part.first for each in found)
        return found

    seams.STORE_SUBSCRIBE_READ_PASSED.replace(monkeypatch, read_again)
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        call = subscribed(client, store_v1.DELIVERED_STABLE)
        while not (await call.read()).completed:
            pass
        await orders.append(0, 4)
        with syncs_held(monkeypatch) as syncs:
            await orders.batch(batch(5, 9))
            await asyncio.to_thread(syncs.begun.acquire)
            await orders.batch(batch(10, 14), stable_upto=4)
            assert await given(call, 4) == [0, 1, 2, 3, 4]
        await orders.durable(14)
        await orders.batch(batch(15, 19), stable_upto=9)
        assert await given(call, 9) == [5, 6, 7, 8, 9]
        call.cancel()
    assert 5 not in again
