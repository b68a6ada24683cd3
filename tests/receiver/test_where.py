"""Receivers with a filter, with real stores and a real source."""

from __future__ import annotations

import asyncio

import msgpack
import pytest
from tests.receiver.real_peers import Stores, receiver, source, take

from quorate.protocol.errors import InvalidFilter
from quorate.source import DeliveryConfirmed, SourceOptions

PAYLOADS = [b'{"price": %d}' % n for n in range(6)] + [b"no JSON"]


async def test_only_what_passes_comes_and_the_position_moves_past_the_rest(stores: Stores) -> None:
    async with await source(stores) as sending:
        await sending.send_many(PAYLOADS)
        await sending.flush()
        async with await receiver(stores, where="price IN (1, 2, 4)") as one:
            assert await take(one, 3) == [(n, PAYLOADS[n]) for n in (1, 2, 4)]
        await stores.until_positions(a=6, b=6, c=6)
        assert one.undecoded == 1


async def test_payloads_in_messagepack(stores: Stores) -> None:
    payloads = [msgpack.packb({"price": n}) for n in range(4)] + [b'{"price": 3}']
    async with await source(stores) as sending:
        await sending.send_many(payloads)
        await sending.flush()
        async with await receiver(stores, where="price IN (1, 3)", payload="msgpack") as one:
            assert await take(one, 2) == [(n, payloads[n]) for n in (1, 3)]
        await stores.until_positions(a=4, b=4, c=4)
        assert one.undecoded == 1


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


async def test_the_source_hears_that_what_was_left_out_is_done(stores: Stores) -> None:
    options = SourceOptions(confirm_delivery=True)
    async with (
        await source(stores, options=options) as sending,
        await receiver(stores, where="price > 100"),
        asyncio.timeout(60),
    ):
        await sending.send_many(PAYLOADS)
        async for event in sending.events():
            if isinstance(event, DeliveryConfirmed) and event.upto == 6:
                assert event.session_id == 0x20
                break


@pytest.mark.parametrize(("where", "expected"), [("size = 1", []), ("size = 2", [1])])
async def test_a_large_message_is_looked_into(
    stores: Stores, where: str, expected: list[int]
) -> None:
    options = SourceOptions(message_bytes_max=4 << 20)
    large = b'{"size": 2, "text": "%s"}' % (b"x" * (2 << 20))
    async with await source(stores, options=options) as sending:
        await sending.send_many([b"{}"])
        await sending.send(large)
        await sending.flush()
        async with await receiver(stores, where=where, acknowledge="explicit") as one:
            if expected:
                assert await take(one, 1) == [(1, large)]
                await stores.until_positions(a=0, b=0, c=0)
            else:
                await stores.until_positions(a=1, b=1, c=1)


async def test_a_message_that_passed_comes_again_after_nack(stores: Stores) -> None:
    async with await source(stores) as sending:
        await sending.send_many(PAYLOADS)
        async with await receiver(stores, where="price = 3", acknowledge="explicit") as one:
            first = await one.receive(60)
            assert first is not None
            first.nack()
            again = await one.receive(60)
            assert again is not None
            assert (again.sequence, again.payload, again.attempt) == (3, PAYLOADS[3], 2)
