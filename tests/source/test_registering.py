"""The registration of a source as applications see it, against stores that do as they are told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests import beats, seams
from tests.foreign import NOT_GRPC, answering
from tests.source.fake_store import FakeStore
from tests.source.support import QUICK, Stores, addresses, event_of, numbered, open_source

from quorate.protocol.errors import (
    STREAM_IS_OPEN,
    Fenced,
    InvalidArgument,
    NoQuorum,
    NotAStore,
    NotRegistered,
    NotYetStable,
    Outcome,
    PolicyNotInForce,
    QuorateError,
    RegIdInUse,
    SourceActive,
    TopicRefused,
    VersionMismatch,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.policy import Policy
from quorate.source import (
    Event,
    MembershipChanged,
    QuorumLost,
    RegistrationComplete,
    Source,
    SourceClosed,
    SourceFailed,
    SourceOptions,
    StoreCaughtUp,
    StoreUnresponsive,
    WaitingForIdentity,
)
from quorate.transport.connections import Connections


@pytest.fixture
def begins_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three stores answers a begin only when all have been asked."""
    all_asked, begin = asyncio.Barrier(3), FakeStore.Begin

    async def together(self: FakeStore, *arguments: Any) -> Any:
        await all_asked.wait()
        return await begin(self, *arguments)

    monkeypatch.setattr(FakeStore, "Begin", together)


@pytest.mark.usefixtures("begins_wait_for_each_other")
async def test_all_stores_are_asked_to_begin_at_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but the decision itself may wake who asks them.
    seams.SOURCE_ENGINE_TICK_SECONDS.replace(monkeypatch, 1000.0)
    source = await open_source(stores, timeout=5.0)
    await source.close()


async def test_it_registers_with_all_stores_and_sends(stores: Stores) -> None:
    async with await open_source(stores) as source:
        assert await source.send(b"0") == 0
        assert await source.send_many([b"1", b"2"]) == range(1, 3)
        await source.flush(60)
        assert (source.next_sequence, source.stable_upto, source.epoch) == (3, 2, 1)
        for store in stores:
            await store.until_held(2)
            assert store.messages == {0: b"0", 1: b"1", 2: b"2"}
        entries = source._core.information().stores
        assert [entry.address for entry in entries] == [store.address for store in stores]
        assert [entry.reg_id for entry in entries] == [7, 7, 7]
    assert [store.goodbye for store in stores] == [2, 2, 2]
    events = [event async for event in source.events()]
    assert events[-1] == SourceClosed(2, 2)


@pytest.mark.expects_log("does not take")
async def test_with_one_store_down_it_waits_the_interval_once(stores: Stores) -> None:
    await stores[2].stop()
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with await open_source(stores) as source:
        assert loop.time() - began >= 0.3
        complete = await event_of(source, RegistrationComplete)
        assert complete.missing == (stores[2].address,)
        receipt = await source.publish(b"x")
        assert set(receipt.stores) == {store.address for store in stores[:2]}
        await stores[2].start()
        await stores[2].until_held(0)


async def test_with_none_up_the_error_names_them() -> None:
    with pytest.raises(NoQuorum) as raised:
        await Source.open("orders", stores="127.0.0.1:1,127.0.0.1:2", options=QUICK, timeout=0.8)
    assert raised.value.silent == "127.0.0.1:1, 127.0.0.1:2"
    assert "cannot be reached" in raised.value.detail


async def test_a_store_that_hangs_does_not_hold_up_registration(stores: Stores) -> None:
    stores[0].answering.clear()
    async with await open_source(stores) as source:
        await source.publish(b"x")
        stores[0].answering.set()
        await stores[0].until_held(0)


@pytest.mark.parametrize(
    "error",
    [
        RegIdInUse(5, "s", "orders/0x9"),
        TopicRefused("orders", "s", "flights"),
        InvalidArgument("reg_id", "is odd"),
    ],
)
@pytest.mark.expects_log("cannot go on|does not take|lost its quorum")
async def test_what_a_store_refuses_for_good_is_raised(stores: Stores, error: QuorateError) -> None:
    stores[1].refusal = error
    with pytest.raises(type(error)):
        await open_source(stores, timeout=5)


@pytest.mark.expects_log("cannot go on|refused by")
async def test_another_protocol_version_on_all_stores_is_raised(stores: Stores) -> None:
    for store in stores:
        store.refusal = VersionMismatch("s", 2, 1)
    with pytest.raises(VersionMismatch):
        await open_source(stores, timeout=5)


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_another_version_on_one_store_costs_only_that_store(stores: Stores) -> None:
    stores[1].refusal = VersionMismatch("s", 2, 1)
    async with await open_source(stores) as source:
        unresponsive = await event_of(source, StoreUnresponsive)
        assert isinstance(unresponsive.reason, VersionMismatch)
        stores[1].refusal = None
        assert (await event_of(source, RegistrationComplete)).missing == (stores[1].address,)
        await source.publish(b"x")
        await stores[1].until_held(0)


@pytest.mark.expects_log("cannot go on|refused by")
async def test_an_address_that_is_not_a_store() -> None:
    with answering(NOT_GRPC) as address, pytest.raises(NotAStore):
        await Source.open("orders", stores=address, timeout=5)


@pytest.mark.expects_log("cannot go on|refused by")
async def test_a_living_source_keeps_its_identity(stores: Stores) -> None:
    async with await open_source(stores) as first:
        with pytest.raises(SourceActive):
            await open_source(stores)
        await first.publish(b"still mine")


@pytest.mark.expects_log("cannot go on|refused by")
@pytest.mark.parametrize("timeout", [3.0, 60.0])
async def test_a_living_source_is_the_reason_however_short_the_wait(
    stores: Stores, timeout: float
) -> None:
    async with await open_source(stores):
        with pytest.raises(SourceActive):
            await open_source(stores, timeout=timeout, options=SourceOptions())


async def refuse_until(stores: Stores, told: asyncio.Event, refusal: QuorateError) -> None:
    """Let all stores refuse until the event is set."""
    for store in stores:
        store.refusal = refusal
    await told.wait()
    for store in stores:
        store.refusal = None


@pytest.mark.expects_log("waits for another instance")
@pytest.mark.parametrize(
    ("timeout", "free_in_ms", "seconds"), [(60.0, 200, 0.2), (None, STREAM_IS_OPEN, None)]
)
async def test_the_end_of_a_protection_is_waited_for(
    stores: Stores, timeout: float | None, free_in_ms: int, seconds: float | None
) -> None:
    told, waits = asyncio.Event(), list[WaitingForIdentity]()

    def take(event: Event) -> None:
        if isinstance(event, WaitingForIdentity):
            waits.append(event)
            told.set()

    refusal = SourceActive("orders", "s", free_in_ms)
    refusing = asyncio.create_task(refuse_until(stores, told, refusal))
    async with await open_source(stores, timeout=timeout, on_event=take):
        await refusing
        (wait,) = waits
        assert (wait.seconds is None) == (seconds is None)
        if seconds is not None and wait.seconds is not None:
            assert wait.seconds <= seconds


@pytest.mark.expects_log("cannot go on|does not take|lost its quorum")
async def test_take_over_fences_the_other(stores: Stores) -> None:
    first = await open_source(stores)
    await first.publish(b"0")
    async with await open_source(stores, take_over=True) as second:
        assert second.epoch == 2
        assert await second.send(b"1") == 1
        failed = await event_of(first, SourceFailed)
        assert isinstance(failed.error, Fenced)
        with pytest.raises(Fenced):
            await first.send(b"lost")
        # Nothing of its own is in doubt, so that closing it is no error.
        await first.close()
        await second.flush(60)
    assert stores[0].messages == {0: b"0", 1: b"1"}


@pytest.mark.expects_log("cannot go on|does not take|lost its quorum")
async def test_a_fence_ends_publishes_that_wait(stores: Stores) -> None:
    source = await open_source(stores)
    for store in stores:
        store.acknowledging.clear()
    waiting = asyncio.create_task(source.publish(b"x"))
    await stores[0].until_held(0)
    for store in stores:
        store.end_stream(Fenced("orders", 1, 9))
    with pytest.raises(Fenced):
        await waiting
    with pytest.raises(Fenced):
        await source.flush(60)
    with pytest.raises(Fenced):
        await source.close()


async def test_a_restart_goes_on_where_the_stream_ended(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await source.send_many(numbered(0, 9))
    async with await open_source(stores) as source:
        assert (source.next_sequence, source.epoch) == (10, 2)
        await source.publish(b"10")
    assert stores[0].begun.lineage.epoch_at(9) == 1
    assert stores[0].begun.lineage.epoch_at(10) == 2


async def test_a_tail_on_one_store_is_kept_and_sent_to_the_others(stores: Stores) -> None:
    source = await open_source(stores)
    await source.publish(b"0")
    for store in stores[1:]:
        await store.until_held(0)
        store.deaf = True
    await source.send(b"1")
    await stores[0].until_held(1)
    with pytest.raises(NotYetStable) as raised:
        await source.close(timeout=0.2)
    assert (raised.value.first, raised.value.last) == (1, 1)
    assert raised.value.outcome is Outcome.UNKNOWN
    for store in stores[1:]:
        store.deaf = False
    async with await open_source(stores) as source:
        assert source.next_sequence == 2
        await source.flush(60)
        for store in stores:
            await store.until_held(1)
            assert store.messages[1] == b"1"
            assert store.batches[-1][2] == 1


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_a_lagging_store_is_brought_up(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await stores[2].stop()
        await source.send_many(numbered(0, 999))
        await source.flush(60)
        await stores[2].start()
        caught_up = await event_of(source, StoreCaughtUp)
        assert caught_up == StoreCaughtUp(stores[2].address, 999)
        assert len(stores[2].messages) == 1000


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_a_wiped_store_is_registered_anew_in_mid_life(stores: Stores) -> None:
    options = SourceOptions(registration_interval=0.3, retention_bytes_max=400)
    async with await open_source(stores, options=options) as source:
        await source.send_many(numbered(0, 9))
        await source.flush(60)
        await stores[2].until_held(9)
        await stores[2].stop()
        await source.publish(b"10")
        stores[2].forget()
        await stores[2].start()
        await source.publish(b"11")
        await stores[2].until_held(11)
        assert stores[2].begun.epoch == 1
        assert stores[2].opens[-1].retained_from > 0


@pytest.mark.expects_log("does not take|lost its quorum")
@pytest.mark.expects_log("it said nothing for 0.2 s|lost its quorum")
async def test_stores_that_hang_are_noticed_though_nothing_is_sent(stores: Stores) -> None:
    connections = Connections(beats.QUICK)
    async with await open_source(stores, connections=connections) as source:
        for store in stores[:2]:
            store.beating.clear()
        for nth in (1, 2):
            unresponsive = await event_of(source, StoreUnresponsive, nth)
            assert "it said nothing for 0.2 s" in str(unresponsive.reason)
        await event_of(source, QuorumLost)
        for store in stores[:2]:
            store.beating.set()
        await event_of(source, RegistrationComplete, 2)
        await source.publish(b"0", timeout=30)
    await connections.close()


@pytest.mark.expects_log("does not take")
async def test_a_store_that_owes_an_acknowledgement_for_long_is_given_up(stores: Stores) -> None:
    options = replace(QUICK, unanswered_after=0.2)
    async with await open_source(stores, options=options) as source:
        stores[2].acknowledging.clear()
        await source.publish(b"0", timeout=60)
        unresponsive = await event_of(source, StoreUnresponsive)
        assert "it acknowledged nothing for 0.2 s" in str(unresponsive.reason)
        stores[2].acknowledge_again()


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_lost_quorum_refuses_and_comes_back_by_itself(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await source.publish(b"0")
        for store in stores[1:]:
            await store.stop()
        await event_of(source, QuorumLost)
        assert not source.registered
        with pytest.raises(NotRegistered):
            await source.send(b"x")
        with pytest.raises(NotRegistered):
            await source.send_many([b"x"])
        await stores[1].start()
        again = await event_of(source, RegistrationComplete, nth=2)
        assert (again.first_sequence, again.epoch) == (1, 1)
        assert await source.send(b"1") == 1
        await source.flush(60)


async def test_named_stores_and_a_policy_over_some_of_them(stores: Stores) -> None:
    named = [StoreAddress(f"s{n}", store.address) for n, store in enumerate(stores)]
    policy = Policy.majority_of(["s0"])
    async with await open_source(stores, stores=named, policy=policy) as source:
        assert (await source.publish(b"x")).stores[0].startswith("s")
        for store in stores:
            await store.until_held(0)


@pytest.mark.expects_log("goes to|cannot go on|does not take")
async def test_a_changed_policy_is_registered_by_way_of_the_old_one(stores: Stores) -> None:
    async with await open_source(stores[:2]) as source:
        await source.send_many(numbered(0, 9))
    before = addresses(stores[:2])
    with pytest.raises(PolicyNotInForce, match="previous_policies") as raised:
        await open_source(stores)
    assert set(raised.value.unnamed.split(",")) == set(before.split(","))
    assert f'previous_policies=["{raised.value.unnamed}"]' in str(raised.value)
    assert "a=host:port" in str(raised.value)
    async with await open_source(stores, previous_policies=[before]) as source:
        await source.publish(b"10")
        changed = await event_of(source, MembershipChanged, nth=3)
        assert changed.confirmed
        assert changed.to_policies == (Policy.majority_of(s.address for s in stores),)
        await source.publish(b"11")
    stores[0].refusal = NotRegistered("gone", "for good")
    async with await open_source(stores, previous_policies=[before]) as source:
        assert source.next_sequence == 12


async def test_reg_ids(stores: Stores) -> None:
    async with await open_source(stores, session_id=None, reg_id=77) as source:
        assert source.name.session_id == 77
        assert [entry.reg_id for entry in source._core.information().stores] == [77, 77, 77]


@pytest.mark.parametrize(
    "arguments",
    [
        {"stores": ""},
        {"stores": []},
        {"stores": [StoreAddress("a", "h:1"), StoreAddress("a", "h:2")]},
        {"policy": Policy.majority_of(["nobody"])},
        {"session_id": 0},
        {"reg_id": 0},
        {"topic": ""},
    ],
)
async def test_impossible_arguments(arguments: dict[str, Any]) -> None:
    settings = {"topic": "orders", "stores": "127.0.0.1:1", **arguments}
    with pytest.raises(InvalidArgument):
        await Source.open(settings.pop("topic"), **settings)


async def test_an_address_that_is_taken_can_not_be_listened_on(stores: Stores) -> None:
    with pytest.raises(InvalidArgument, match="listen"):
        await open_source(stores, options=SourceOptions(listen=stores[0].address))
