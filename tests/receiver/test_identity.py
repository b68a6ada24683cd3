"""How a receiver's identity is protected, and how it ends."""

from __future__ import annotations

import asyncio
from math import inf, nan

import pytest
from tests.receiver.fakes import NAME, Group
from tests.receiver.support import numbers, opened, position_is, take, told

from quorate.protocol.delays import Delays
from quorate.protocol.errors import (
    Closed,
    Deregistered,
    Fenced,
    InvalidArgument,
    NoQuorum,
    ReceiverActive,
)
from quorate.receiver import (
    DeregistrationComplete,
    DeregistrationSucceeded,
    ProxyGone,
    ProxyServes,
    Receiver,
    ReceiverOptions,
    RegistrationComplete,
    WaitingForIdentity,
)


async def test_lifetimes_and_taking_over_are_asked_for(group: Group) -> None:
    await group.announce()
    options = {"activity_timeout": 4.0, "state_lifetime": 60.0}
    async with await opened(group, options=options, take_over=True):
        pass
    async with await opened(group):
        pass
    asked = [
        (
            each.lifetimes.activity_timeout_seconds,
            each.lifetimes.state_lifetime_seconds,
            each.take_over,
        )
        for each in group.stores[0].registrations
    ]
    assert set(asked) == {(4.0, 60.0, True), (0.0, 0.0, False)}


@pytest.mark.expects_log("ends:|does not register")
async def test_another_living_instance_is_named_as_the_reason(group: Group) -> None:
    await group.announce()
    for store in group.stores:
        store.registrations_fail = ReceiverActive("receiver 0x20", store.name, 60_000)
    with pytest.raises(ReceiverActive):
        await opened(group)


@pytest.mark.expects_log("waits for another instance|does not register")
async def test_the_end_of_a_protection_is_waited_for(group: Group) -> None:
    await group.announce()
    for store in group.stores:
        store.registrations_fail = ReceiverActive("receiver 0x20", store.name, 200)
    opening = asyncio.create_task(opened(group))
    first = group.stores[0]
    async with asyncio.timeout(60):
        async with first.changed:
            await first.changed.wait_for(lambda: len(first.questions) > 1)
        for store in group.stores:
            store.registrations_fail = None
        async with await opening as receiver:
            waiting = await told(receiver, WaitingForIdentity)
            assert waiting.source == NAME
            assert waiting.seconds <= 0.2


async def test_one_that_has_nothing_to_acknowledge_shows_that_it_lives(group: Group) -> None:
    await group.announce()
    async with await opened(group):
        for store in group.stores:
            await store.until(lambda store=store: store.signs_of_life > 0)
            assert store.acknowledgements == []


async def test_it_shows_so_often_enough_for_the_lifetime_that_it_asks_for(group: Group) -> None:
    await group.announce()
    async with await opened(group, options={"state_lifetime": 0.3}):
        for store in group.stores:
            await store.until(lambda store=store: store.signs_of_life > 3)


@pytest.mark.expects_log(r"receiver of \S+ ends|is fenced|refused an acknowledgement")
async def test_a_greater_instance_with_the_same_epoch_replaces_it(group: Group) -> None:
    await group.announce()
    one = await opened(group, options={"state_lifetime": 0.3})
    taking = asyncio.ensure_future(anext(one.batches()))
    group.stores[0].instances[NAME, 0x20] = (1, bytes(16))
    signs = group.stores[1].signs_of_life
    await group.stores[1].until(lambda: group.stores[1].signs_of_life > signs + 1)
    assert not taking.done(), "a lower one does not"
    group.stores[0].instances[NAME, 0x20] = (1, b"\xff" * 17)
    async with asyncio.timeout(60):
        with pytest.raises(Fenced):
            await taking
    await one.close()


@pytest.mark.expects_log(r"receiver of \S+ ends|is deregistered")
async def test_one_that_an_operator_ends_is_told_so(group: Group) -> None:
    await group.announce()
    one = await opened(group, options={"state_lifetime": 0.3})
    taking = asyncio.ensure_future(anext(one.batches()))
    group.stores[0].ended[NAME, 0x20] = 1
    async with asyncio.timeout(60):
        with pytest.raises(Deregistered):
            await taking
    await one.close()


async def test_every_store_is_told_and_each_answer_is_an_event(group: Group) -> None:
    await group.announce()
    group.store(4)
    for number, store in enumerate(group.stores):
        store.source_reg_id = 71 + number
    receiver = await opened(group)
    assert numbers(await take(receiver, 5)) == list(range(5))
    await receiver.flush()
    await position_is(group, 3)
    await receiver.deregister()
    events = [event async for event in receiver.events()]
    succeeded = [event for event in events if isinstance(event, DeregistrationSucceeded)]
    assert {(event.source, event.store) for event in succeeded} == {
        (NAME, store.name) for store in group.stores
    }
    assert {(event.reg_id, event.acknowledged_upto) for event in succeeded} == {(100, 3)}
    reg_ids = {event.store: event.source_reg_id for event in succeeded}
    assert reg_ids == {store.name: 71 + number for number, store in enumerate(group.stores)}
    assert events[-1] == DeregistrationComplete(NAME)
    assert not any(store.receivers for store in group.stores)


@pytest.mark.expects_log("does not register the receiver")
async def test_of_a_store_with_which_it_never_registered_the_sources_reg_id_is_0(
    group: Group,
) -> None:
    await group.announce()
    group.stores[2].registrations_hang = True
    receiver = await opened(group)
    await told(receiver, RegistrationComplete)
    await receiver.deregister()
    events = [event async for event in receiver.events()]
    succeeded = [event for event in events if isinstance(event, DeregistrationSucceeded)]
    reg_ids = {event.store: event.source_reg_id for event in succeeded}
    assert reg_ids == {store.name: int(store is not group.stores[2]) for store in group.stores}


async def test_a_deregistered_receiver_can_not_be_used_again(group: Group) -> None:
    await group.announce()
    group.store(0)
    receiver = await opened(group)
    waiting = asyncio.create_task(take(receiver, 2))
    await receiver.deregister()
    with pytest.raises(Deregistered):
        await waiting
    with pytest.raises(Deregistered):
        await receiver.flush()
    with pytest.raises(Deregistered):
        await receiver.deregister()
    await receiver.close()


async def test_a_closed_receiver_can_not_be_deregistered(group: Group) -> None:
    await group.announce()
    receiver = await opened(group)
    await receiver.close()
    with pytest.raises(Closed):
        await receiver.deregister()
    assert all(store.receivers for store in group.stores)


async def test_stores_that_do_not_answer_are_named(group: Group) -> None:
    await group.announce()
    receiver = await opened(group)
    group.stores[1].deregistrations_hang = True
    with pytest.raises(NoQuorum):
        await receiver.deregister(0.2)
    events = [event async for event in receiver.events()]
    assert not any(isinstance(event, DeregistrationComplete) for event in events)
    assert len([e for e in events if isinstance(e, DeregistrationSucceeded)]) == 2


async def test_who_was_fenced_can_not_end_the_identity_of_another(group: Group) -> None:
    await group.announce()
    receiver = await opened(group)
    for store in group.stores:
        store.receivers[NAME, 0x20][0] += 1
    with pytest.raises(Fenced):
        await receiver.deregister()
    assert all(store.receivers for store in group.stores)


async def test_without_a_session_id_nothing_stays_behind(group: Group) -> None:
    await group.announce()
    async with await opened(group, session_id=None):
        assert all(store.receivers for store in group.stores)
    assert not any(store.receivers for store in group.stores)


async def test_a_store_that_hangs_does_not_keep_such_a_receiver_open_for_long(
    group: Group,
) -> None:
    await group.announce()
    receiver = await opened(group, session_id=None)
    group.stores[0].deregistrations_hang = True
    async with asyncio.timeout(8):
        await receiver.close()
    assert not group.stores[1].receivers


async def test_the_application_is_told_who_answers_for_a_source(group: Group) -> None:
    await group.announce(live=False)
    group.store(0)
    async with await opened(group, delivery="stable") as receiver:
        for served in group.served():
            served.proxy = "b"
        for store in group.stores:
            await store.tell()
        assert (await told(receiver, ProxyServes)).store == "b"
        for served in group.served():
            served.proxy = ""
        for store in group.stores:
            await store.tell()
        assert (await told(receiver, ProxyGone)).store == "b"


@pytest.mark.parametrize("seconds", [0.0, -1.0, inf, nan])
def test_lifetimes_that_are_none_are_refused(seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="activity_timeout"):
        ReceiverOptions(activity_timeout=seconds)
    with pytest.raises(InvalidArgument, match="state_lifetime"):
        ReceiverOptions(state_lifetime=seconds)


@pytest.mark.parametrize("setting", ["wait_for_source", "acknowledge_interval", "request_timeout"])
def test_what_is_no_number_is_no_time(setting: str) -> None:
    with pytest.raises(InvalidArgument, match=setting):
        ReceiverOptions(**{setting: nan})  # type: ignore[arg-type]


@pytest.mark.expects_log("cannot be heard|ends|does not register")
async def test_a_receiver_that_may_give_up_ends_when_no_store_was_heard_for_so_long(
    group: Group,
) -> None:
    await group.announce()
    receiver = await opened(group, options={"delays": Delays(give_up_after=1.0)})
    for store in group.stores:
        await store.stop()
    with pytest.raises(NoQuorum) as raised:
        async with asyncio.timeout(60):
            await anext(aiter(receiver))
    assert raised.value.silent == "a, b, c"
    await receiver.close()


async def test_zero_is_no_identity_and_is_not_taken_for_none() -> None:
    with pytest.raises(InvalidArgument, match="session ID"):
        await Receiver.open("orders", stores="127.0.0.1:1", session_id=0)
    with pytest.raises(InvalidArgument, match="reg_id"):
        await Receiver.open("orders", stores="127.0.0.1:1", reg_id=0)
