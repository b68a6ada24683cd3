"""A real source that goes over to other real stores under a receiver; several groups of them."""

from __future__ import annotations

import asyncio

import pytest
from tests.receiver.real_peers import Stores, numbered, receiver, send, source, take
from tests.receiver.support import told

from quorate.protocol.layout import Layout, StoreGroup
from quorate.receiver import Receiver, RegistrationChanged, RegistrationComplete, StoreRegistered
from quorate.source import MembershipChanged, Source

EXPECTED = (
    "another lineage|directory of|does not register the receiver|does not take|lost its quorum|"
    "waits for|refused an acknowledgement|goes to stores"
)


async def confirmed(sending: Source) -> None:
    """Wait until the retired stores are of no use any more."""
    async with asyncio.timeout(60):
        async for event in sending.events():
            if isinstance(event, MembershipChanged) and event.confirmed:
                return


def registrations(one: Receiver) -> list[str]:
    events = one._events.kept()
    return sorted(event.store for event in events if isinstance(event, StoreRegistered))


@pytest.mark.expects_log(EXPECTED)
async def test_all_other_stores(stores: Stores) -> None:
    for name in "def":
        await stores.start(name)
    old, new = stores.named("abc"), stores.named("def")
    async with await source(stores, stores=old) as sending:
        await send(sending, 0, 499)
        await sending.flush()
        one = await receiver(stores, stores=old)
        assert await take(one, 400) == numbered(0, 399)
    async with await source(stores, stores=new, previous_policies=[old]) as sending:
        await send(sending, 500, 999)
        await confirmed(sending)
        assert await take(one, 500) == numbered(400, 899)
        for name in "abc":
            await stores.stop(name)
        await send(sending, 1000, 1099)
        assert await take(one, 200) == numbered(900, 1099)
        changed = await told(one, RegistrationChanged)
        assert set(changed.added) == set("def")
    # It knows nobody any more of those that it was told of.
    async with await source(stores, stores=new) as sending:
        await send(sending, 1100, 1199)
        assert await take(one, 100) == numbered(1100, 1199)
        joined = [store for store in registrations(one) if store in "def"]
        assert joined == list("def"), "each once"
        await stores.until_positions(d=1198, e=1198, f=1198)
        await one.close()
        async with await receiver(stores, stores=new) as again:
            assert await take(again, 1) == numbered(1199, 1199)


@pytest.mark.expects_log(EXPECTED)
async def test_one_other_store(stores: Stores) -> None:
    await stores.start("d")
    old, new = stores.named("abc"), stores.named("abd")
    async with await source(stores, stores=old) as sending:
        await send(sending, 0, 99)
        await sending.flush()
        one = await receiver(stores, stores=old)
        assert await take(one, 100) == numbered(0, 99)
    async with await source(stores, stores=new, previous_policies=[old]) as sending:
        await send(sending, 100, 199)
        assert await take(one, 100) == numbered(100, 199)
        await stores.stop("c")
        await stores.until_positions(a=198, b=198, d=198)
        assert registrations(one) == list("abcd"), "with a and b it was registered before"
    await one.close()


@pytest.mark.expects_log(EXPECTED)
async def test_groups_of_which_one_is_lost(stores: Stores) -> None:
    for name in "def":
        await stores.start(name)
    layout = Layout.of(
        StoreGroup("here", stores.named("abc")), StoreGroup("there", stores.named("def"))
    )
    async with await source(stores, stores=layout) as sending:
        await send(sending, 0, 499)
        await sending.flush()
        async with await receiver(stores, stores=stores.named("abf")) as one:
            assert set((await told(one, RegistrationComplete)).stores) == set("abcdef")
            assert await take(one, 300) == numbered(0, 299)
        for name in "abc":
            await stores.stop(name)
        await send(sending, 500, 999)
        async with await receiver(stores, stores=stores.named("abf")) as one:
            complete = await told(one, RegistrationComplete)
            assert (complete.first_sequence, set(complete.missing)) == (300, set("abc"))
            assert await take(one, 700) == numbered(300, 999)


@pytest.mark.expects_log(EXPECTED)
async def test_a_named_store_at_another_address_is_still_the_same_store(stores: Stores) -> None:
    async with await source(stores) as sending:
        await send(sending, 0, 99)
        await sending.flush()
    async with await receiver(stores) as one:
        assert await take(one, 100) == numbered(0, 99)
        await one.flush()
    before = stores.addresses
    await stores.move("c")
    assert stores.addresses != before
    # Neither names the stores as they were before.
    async with await source(stores) as sending:
        assert sending.next_sequence == 100
        await send(sending, 100, 199)
        await sending.flush()
        async with await receiver(stores) as one:
            assert await take(one, 100) == numbered(100, 199)
            await stores.until_positions(a=198, b=198, c=198)


@pytest.mark.expects_log(
    "does not take|lost its quorum|waits for|does not register|cannot be heard"
)
async def test_without_the_store_that_stayed_away_the_one_that_moved_is_enough(
    stores: Stores,
) -> None:
    async with await source(stores) as sending:
        await send(sending, 0, 99)
        await sending.flush()
    await stores.move("c")
    await stores.stop("a")
    async with await source(stores) as sending, await receiver(stores) as one:
        await send(sending, 100, 199)
        assert await take(one, 200) == numbered(0, 199)
