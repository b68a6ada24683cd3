"""Receivers with a filter, with real stores and a real source."""

from __future__ import annotations

import asyncio

import pytest
from tests.receiver.real_peers import Stores, receiver, source, take

from quorate.protocol.errors import InvalidFilter

PAYLOADS = [b'{"price": %d}' % n for n in range(6)] + [b"no JSON"]


async def test_only_what_passes_comes_and_the_position_moves_past_the_rest(stores: Stores) -> None:
    async with await source(stores) as sending:
        await sending.send_many(PAYLOADS)
        await sending.flush()
        async with await receiver(stores, where="price IN (1, 2, 4)") as one:
            assert await take(one, 3) == [(n, PAYLOADS[n]) for n in (1, 2, 4)]
        await stores.until_positions(a=6, b=6, c=6)


@pytest.mark.parametrize("acknowledge", ["automatic", "explicit"])
async def test_the_position_moves_if_nothing_passes(stores: Stores, acknowledge: str) -> None:
    async with await source(stores) as sending:
        await sending.send_many(PAYLOADS)
        await sending.flush()
        async with await receiver(stores, where="price > 100", acknowledge=acknowledge):
            await stores.until_positions(a=6, b=6, c=6)


async def test_a_message_that_passes_holds_the_position_until_it_is_acknowledged(
    stores: Stores,
) -> None:
    async with await source(stores) as sending:
        await sending.send_many(PAYLOADS)
        await sending.flush()
        async with await receiver(stores, where="price = 3", acknowledge="explicit") as one:
            message = await one.receive(60)
            assert message is not None
            await stores.until_positions(a=2, b=2, c=2)
            message.acknowledge()
            await stores.until_positions(a=6, b=6, c=6)


async def test_batches_have_consecutive_messages(stores: Stores) -> None:
    got: list[tuple[int, list[bytes]]] = []
    async with await source(stores) as sending:
        await sending.send_many(PAYLOADS)
        await sending.flush()
        async with await receiver(stores, where="price <> 2") as one, asyncio.timeout(60):
            async for batch in one.batches():
                got.append((batch.first, batch.payloads))
                if batch.last == 5:
                    break
    assert got == [(0, PAYLOADS[0:2]), (3, PAYLOADS[3:6])]


async def test_a_filter_that_does_not_parse_keeps_the_receiver_from_registering(
    stores: Stores,
) -> None:
    async with await source(stores) as sending:
        await sending.send_many(PAYLOADS)
        with pytest.raises(InvalidFilter):
            await receiver(stores, where="price >")
        assert await stores.positions() == {}
