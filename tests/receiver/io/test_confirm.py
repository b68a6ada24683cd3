"""Confirmed delivery: what a receiver tells a source, and what a real source makes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.receiver.fakes import Group
from tests.receiver.real_peers import Stores, numbered, receiver, send, source, take
from tests.receiver.support import opened, position_is, told
from tests.receiver.support import take as taken

from quorate.receiver import ConfirmDelivery, Receiver, ReceiverOptions, SourceAttached
from quorate.source import DeliveryConfirmed, FlightRelieved, Source, SourceOptions

# Against a scripted source.


async def test_a_source_that_asks_is_told_what_was_consumed(group: Group) -> None:
    group.source.asks_for_confirmation = True
    await group.announce()
    async with await opened(group, delivery="live") as one:
        await told(one, SourceAttached)
        group.send(9, stable=False)
        await taken(one, 6)
        await group.source.until_confirmed(4)
        await taken(one, 4)
        await group.source.until_confirmed(8)
    await group.source.until_confirmed(9)
    uptos = [upto for _, _, upto in group.source.confirmed]
    assert uptos == sorted(set(uptos)), "each once, never back"


@pytest.mark.parametrize(
    ("asks", "options", "tells"),
    [
        (True, {"confirm_delivery": "never"}, False),
        (False, {}, False),
        (False, {"confirm_delivery": "always"}, True),
    ],
)
async def test_who_is_told(group: Group, asks: bool, options: dict[str, str], tells: bool) -> None:
    group.source.asks_for_confirmation = asks
    await group.announce()
    async with await opened(group, options=options) as one:
        await told(one, SourceAttached)
        group.send(9)
        group.keepalive()
        await taken(one, 10)
        await position_is(group, 8)
        await one.flush()
        assert bool(group.source.confirmed) is tells


@pytest.mark.expects_log("is withdrawn")
async def test_what_was_withdrawn_is_confirmed_anew(group: Group) -> None:
    group.source.asks_for_confirmation = True
    await group.announce()
    async with await opened(group, delivery="live") as one:
        await told(one, SourceAttached)
        group.send(9, stable=False)
        await taken(one, 10)
        await group.source.until_confirmed(8)
        await group.restart_source(kept_upto=5)
        group.source.asks_for_confirmation = True
        await group.source.until_attached()
        await group.source.until_confirmed(5, epoch=2)
        group.send(9)
        await taken(one, 4)
        await group.source.until_confirmed(8, epoch=2)


# With real sources and stores.


async def confirmed(sending: Source, session_id: int, upto: int) -> DeliveryConfirmed:
    async with asyncio.timeout(20):
        async for event in sending.events():
            if isinstance(event, DeliveryConfirmed) and event.session_id == session_id:
                assert event.upto <= upto
                if event.upto == upto:
                    return event
    raise AssertionError


async def another(stores: Stores, session_id: int, **options: Any) -> Receiver:
    settings = ReceiverOptions(registration_interval=3.0, acknowledge_interval=0.02, **options)
    return await Receiver.open(
        "orders", session_id=session_id, stores=stores.addresses, options=settings
    )


async def test_the_source_hears_how_far_each_receiver_is(stores: Stores) -> None:
    options = SourceOptions(confirm_delivery=True)
    async with await source(stores, options=options) as sending:
        await send(sending, 0, 99)
        async with await receiver(stores, reg_id=55) as one, await another(stores, 0x21) as two:
            assert await take(one, 100) == numbered(0, 99)
            assert await take(two, 50) == numbered(0, 49)
            assert (await confirmed(sending, 0x20, 98)).reg_id == 55
            event = await confirmed(sending, 0x21, 48)
            assert event.unique_upto is None
        await confirmed(sending, 0x20, 99)
        await confirmed(sending, 0x21, 49)


async def test_flight_waits_for_so_many_distinct_receivers(stores: Stores) -> None:
    options = SourceOptions(unique_confirmations=2, flight_messages=100)
    async with await source(stores, options=options) as sending:
        sent = asyncio.create_task(send(sending, 0, 149))
        async with (
            await receiver(stores) as one,
            await another(stores, 0x21) as two,
            await another(stores, 0x22, confirm_delivery=ConfirmDelivery.NEVER) as declining,
        ):
            assert await take(one, 100) == numbered(0, 99)
            assert await take(declining, 100) == numbered(0, 99)
            await sending.wait_stable(99)
            await confirmed(sending, 0x20, 98)
            assert sending.next_sequence == 100, "stable is not enough, nor one receiver twice"
            assert not sent.done()
            assert await take(two, 50) == numbered(0, 49)
            event = await confirmed(sending, 0x21, 48)
            assert event.unique_upto == 48
            assert await take(one, 48) == numbered(100, 147)
            await take(two, 100)
            await sent


async def test_what_was_stable_before_is_out_of_flight(stores: Stores) -> None:
    async with await source(stores) as sending:
        await send(sending, 0, 199)
    options = SourceOptions(unique_confirmations=1, flight_messages=100)
    async with await source(stores, options=options) as sending:
        await asyncio.wait_for(send(sending, 200, 299), 10)
        sent = asyncio.create_task(send(sending, 300, 300))
        async with await receiver(stores) as one:
            await take(one, 250)
            await sent
    assert not [e for e in sending._engine.log.kept() if isinstance(e, FlightRelieved)]
