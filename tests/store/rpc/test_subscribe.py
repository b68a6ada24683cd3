"""A subscription to a journal whose batches are not in the order of their numbers; its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests import seams
from tests.store.support import ORDERS, TRADES, Client, batch, running

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import position_from_wire, position_to_wire
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
