"""How a source's identity ends: told to every store, once, and for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.source.fake_store import FakeStore
from tests.source.support import QUICK, addresses, open_source

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import (
    Closed,
    Deregistered,
    Fenced,
    NoQuorum,
    PolicyNotInForce,
    SourceActive,
)
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.wire import membership_from_wire
from quorate.source import (
    DeregistrationComplete,
    DeregistrationSucceeded,
    FilePublishStore,
    SourceOptions,
)
from quorate.source.blocking import Source as BlockingSource
from quorate.transport.blocking import run_blocking

Stores = list[FakeStore]


async def test_every_store_is_told_and_each_answer_is_an_event(stores: Stores) -> None:
    source = await open_source(stores)
    await source.send(b"0")
    await source.flush(60)
    for store in stores:
        await store.until_held(0)
    await source.deregister(5)
    events = [event async for event in source.events()]
    told = [event for event in events if isinstance(event, DeregistrationSucceeded)]
    assert {event.store for event in told} == {store.address for store in stores}
    assert {(event.reg_id, event.last_sequence) for event in told} == {(7, 0)}
    assert isinstance(events[-1], DeregistrationComplete)
    for store in stores:
        promise, begin, again = store.deregistrations
        assert (promise.epoch, promise.decided_epoch, promise.receiver_session_id) == (2, 1, 0)
        assert not promise.unused_promise_to
        assert not promise.HasField("membership")
        assert membership_from_wire(begin.membership) == store.begun.membership
        assert (begin.incarnation, again.durable) == (store.incarnation, True)


async def test_a_deregistered_source_can_not_be_used_again(stores: Stores) -> None:
    source = await open_source(stores)
    await source.deregister(5)
    with pytest.raises(Deregistered):
        await source.send(b"x")
    with pytest.raises(Deregistered):
        await source.publish(b"x")
    with pytest.raises(Deregistered):
        await source.deregister(5)
    await source.close()
    assert len(stores[0].deregistrations) == 3


async def test_a_closed_source_can_not_be_deregistered(stores: Stores) -> None:
    source = await open_source(stores)
    await source.close()
    with pytest.raises(Closed):
        await source.deregister(5)


async def test_what_waits_for_stability_fails_at_once(stores: Stores) -> None:
    source = await open_source(stores)
    for store in stores:
        store.acknowledging.clear()
    await source.send(b"0")
    await source.deregister(5)
    with pytest.raises(Deregistered):
        await source.flush(60)


async def test_stores_that_do_not_answer_are_named(stores: Stores) -> None:
    source = await open_source(stores)
    for store in stores[1:]:
        store.answering.clear()
    with pytest.raises(NoQuorum) as raised:
        await source.deregister(0.3)
    assert set(stores[1:]) <= {each for each in stores if each.address in raised.value.silent}
    for store in stores[1:]:
        store.answering.set()
    events = [event async for event in source.events()]
    assert not any(isinstance(event, DeregistrationComplete) for event in events)


async def test_one_store_that_is_away_does_not_keep_it_from_ending(stores: Stores) -> None:
    source = await open_source(stores)
    stores[2].answering.clear()
    await source.deregister(5)
    stores[2].answering.set()
    events = [event async for event in source.events()]
    assert isinstance(events[-1], DeregistrationComplete)


async def test_who_was_fenced_can_not_end_the_identity_of_another(
    stores: Stores, tmp_path: Path
) -> None:
    source = await open_source(stores, publish_store=FilePublishStore(tmp_path))
    await source.send(b"0")
    for store in stores[:2]:
        store.refusal = Fenced("source", 1, 2)
    with pytest.raises(Fenced):
        await source.deregister(5)
    assert FilePublishStore(tmp_path).open().source == source.name


async def test_the_publish_store_forgets_too(stores: Stores, tmp_path: Path) -> None:
    source = await open_source(stores, publish_store=FilePublishStore(tmp_path))
    for store in stores:
        store.acknowledging.clear()
    await source.send_many([b"0", b"1"])
    await source.deregister(5)
    kept = FilePublishStore(tmp_path)
    remembered = kept.open()
    assert (remembered.source, remembered.stable_upto, remembered.batches) == (None, -1, [])
    kept.close()


@pytest.mark.expects_log("cannot go on")
async def test_promises_that_led_to_nothing_are_taken_back(stores: Stores) -> None:
    stores[0].refusal = SourceActive("orders/0x10", "s0")
    # It has messages of an earlier instance: that it keeps, but it need not keep the next one out.
    stores[1].begun = BeginRecord(Lineage((Term(1, 0),)), Membership((), ()))
    # The earlier instance names no policy, which ends this one, too, if s0 is late to refuse it.
    with pytest.raises((SourceActive, PolicyNotInForce)):
        await open_source(stores, timeout=5)
    assert stores[0].deregistrations == []
    for store in stores[1:]:
        (request,) = store.deregistrations
        assert request.unused_promise_to == store.promises[0].instance


@pytest.mark.expects_log("cannot go on|limbo")
async def test_only_where_the_store_promised_anything(stores: Stores) -> None:
    stores[0].refusal = SourceActive("orders/0x10", "s0")
    stores[1].limbo = True
    with pytest.raises((SourceActive, NoQuorum)):
        await open_source(stores, timeout=5)
    assert stores[1].deregistrations == []
    assert len(stores[2].deregistrations) == 1


async def test_lifetimes_are_asked_for_when_a_stream_opens(stores: Stores) -> None:
    options = SourceOptions(activity_timeout=4.0, state_lifetime=3600.0)
    async with await open_source(stores, options=options):
        pass
    async with await open_source(stores, options=QUICK):
        pass
    asked = [
        (o.lifetimes.activity_timeout_seconds, o.lifetimes.state_lifetime_seconds)
        for o in stores[0].opens
    ]
    assert asked == [(4.0, 3600.0), (0.0, 0.0)]


def test_without_asyncio() -> None:
    async def make() -> Stores:
        made = [FakeStore() for _ in range(3)]
        for store in made:
            await store.start()
        return made

    group: Any = run_blocking(make())
    try:
        with BlockingSource.open("orders", stores=addresses(group), options=QUICK) as source:
            source.send(b"0")
            source.deregister(5)
            with pytest.raises(Deregistered):
                source.send(b"1")
            with pytest.raises(Deregistered):
                source.deregister(5)
        ended = [store for store in group if len(store.deregistrations) > 1]
        assert len(ended) >= 2  # A quorum has promised, and begun. The third may be slow.
    finally:
        for store in group:
            run_blocking(store.stop())
