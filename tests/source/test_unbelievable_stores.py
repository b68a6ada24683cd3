"""Stores that are not to be believed: in limbo, come back without their data, forgetful."""

from __future__ import annotations

import pytest
from tests.source.fake_store import FakeStore
from tests.source.support import event_of, open_source

from quorate.protocol.errors import InLimbo
from quorate.source import (
    RegistrationSucceeded,
    StoreCaughtUp,
    StoreInLimbo,
    StoreReplaced,
)
from quorate.v1 import store_pb2 as v1

Stores = list[FakeStore]


@pytest.mark.expects_log("in limbo|does not take")
async def test_a_store_in_limbo_is_asked_again_until_it_is_out_of_it(stores: Stores) -> None:
    stores[2].limbo = True
    async with await open_source(stores) as source:
        receipt = await source.publish(b"0")
        assert stores[2].address not in receipt.stores
        told = await event_of(source, StoreInLimbo)
        assert told == StoreInLimbo(stores[2].address, "as it was told to")
        stores[2].limbo = False
        await event_of(source, RegistrationSucceeded, nth=3)
        await stores[2].until_held(0)


@pytest.mark.expects_log("in limbo|does not take")
async def test_a_store_that_falls_into_limbo_under_way(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await source.publish(b"0")
        stores[2].limbo = True
        stores[2].forget()
        stores[2].end_stream(InLimbo("orders", "s", "clone"))
        assert (await event_of(source, StoreInLimbo)).store == stores[2].address
        await source.publish(b"1")
        stores[2].limbo = False
        await event_of(source, StoreCaughtUp)
        assert stores[2].messages[1] == b"1"


@pytest.mark.expects_log("came back without|does not take")
async def test_what_one_store_says_of_another_makes_the_source_begin_anew_with_it(
    stores: Stores,
) -> None:
    for number, store in enumerate(stores):
        store.name = f"store-{number}"
        store.incarnation = b"disk %d" % number
    async with await open_source(stores) as source:
        stores[1].acknowledging.clear()
        await source.send(b"0")
        await stores[1].until_held(0)
        stores[2].forget()
        stores[2].incarnation = b"blank"
        stores[0].say_replaced("store-2", b"blank")
        told = await event_of(source, StoreReplaced)
        assert told == StoreReplaced(stores[2].address, b"blank")
        await event_of(source, RegistrationSucceeded, nth=4)
        await stores[2].until_held(0)
        assert len(stores[2].begins) == 2


@pytest.mark.expects_log("came back without|does not take")
@pytest.mark.parametrize("where", ["promise", "begin", "opened"])
async def test_every_answer_that_counts_may_say_that_a_store_was_replaced(
    stores: Stores, where: str
) -> None:
    for number, store in enumerate(stores):
        store.name = f"store-{number}"
        store.incarnation = b"disk %d" % number
    stores[2].incarnation = b"blank"
    said = v1.StoreReplaced(store_name="store-1", incarnation=b"new")
    stores[0].known_in[where] = said
    async with await open_source(stores) as source:
        # The former incarnation's answers are never taken again: the two others have to do.
        receipt = await source.publish(b"0")
        assert set(receipt.stores) == {stores[0].address, stores[2].address}
        if where != "promise":
            assert (await event_of(source, StoreReplaced)).store == stores[1].address


async def test_begin_says_who_was_promised(stores: Stores) -> None:
    async with await open_source(stores):
        for store in stores:
            assert store.begins[0].instance == store.promises[0].instance != b""
