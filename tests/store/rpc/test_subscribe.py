"""A subscription to a journal whose batches are not in the order of their numbers; its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.store.support import ORDERS, TRADES, Client, batch, running

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.framing import compressed, encode_batch, read_header
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.protocol.wire import position_from_wire, position_to_wire
from quorate.store.node import StoreNode
from quorate.store.rpc.selecting import Piece
from quorate.store.rpc.subscribe import _are_few
from quorate.store.storage.large_batches import LargeRow
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


@pytest.mark.expects_log("no peer could give it")
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


async def given_until(call: Any, last: int) -> list[store_v1.Given]:
    """Return what a subscription is given, up to the number that is the last one."""
    found: list[store_v1.Given] = []
    async with asyncio.timeout(20):
        while not found or max(found[-1].fetched.last, found[-1].selected.upto) < last:
            found += (await call.read()).given
    return found


async def given(call: Any, last: int) -> list[int]:
    """Return the numbers that a subscription is given, up to the last one."""
    numbers: list[int] = []
    for each in await given_until(call, last):
        numbers += range(each.fetched.first, each.fetched.last + 1)
    return numbers


def subscribed(client: Client, delivered: store_v1.Delivered, where: str = "") -> Any:
    return client.stub.Subscribe(
        store_v1.SubscribeRequest(
            protocol_version=PROTOCOL_VERSION, topic=ORDERS.topic, delivered=delivered, where=where
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


@pytest.mark.expects_log("set 5 messages aside")
async def test_what_was_passed_and_set_aside_is_not_given(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        call = subscribed(client, store_v1.DELIVERED_STABLE)
        while not (await call.read()).completed:
            pass
        await orders.append(0, 4)
        await orders.append(5, 9)
        await orders.close()
        await client.promise(2)
        await client.begin(Lineage((Term(1, 0), Term(2, 5))))
        orders = await client.open(2)
        await orders.batch(batch(5, 9, epoch=2, salt="another "), stable_upto=9)
        await orders.durable(9)
        frames = [each.fetched for each in await given_until(call, 9)]
        epochs = [read_header(each.batch).epoch for each in frames]
        assert [(each.first, each.last) for each in frames] == [(0, 4), (5, 9)]
        assert epochs == [1, 2]
        call.cancel()


async def test_a_filter_of_few_messages_waits_for_no_thread(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        orders = await client.stream()
        call = subscribed(client, store_v1.DELIVERED_DURABLE, where="$sequence = 3")
        while not (await call.read()).completed:
            pass
        with readers_busy(node):
            await orders.append(0, 4)
            (found,) = await given_until(call, 4)
            assert (list(found.selected.offsets), found.selected.upto) == ([0], 4)
        call.cancel()


def piece(first: int, last: int, payload: bytes = b"x") -> Piece:
    """Return all of a batch of these numbers, compressed."""
    frame = compressed(encode_batch(ORDERS, 1, first, [payload] * (last - first + 1), 1))
    return Piece(read_header(frame), frame, Range(first, last))


def test_the_event_loop_filters_few_small_messages_alone() -> None:
    assert _are_few([piece(0, 31), store_v1.Given(), piece(32, 63)])
    assert not _are_few([piece(0, 31), piece(32, 64)])
    assert not _are_few([piece(0, 0, bytes(17 * 1024))]), "decompressed it is large"
    large = LargeRow(1, 1, piece(0, 0).header)
    assert not _are_few([replace(piece(0, 0), large=large)])


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
