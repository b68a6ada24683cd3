"""A subscription to a journal whose batches are in another order than their numbers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests import seams
from tests.store.support import ORDERS, TRADES, Client, batch, running

from quorate.protocol.bookmarks import Place, Position
from quorate.protocol.framing import read_header
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import position_to_wire
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
