"""In which order a store does what an operator accepts: nothing is answered that may not be so."""

from __future__ import annotations

import pytest
from tests.store.held_back import Store
from tests.store.support import FIRST_LINEAGE, ORDERS, TRADES, World, batch

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import NOTHING
from quorate.protocol.wire import source_to_wire
from quorate.store import startup
from quorate.store.rules.source_state import SourceState
from quorate.store.storage import index
from quorate.v1 import store_pb2 as store_v1

pytestmark = pytest.mark.expects_log("accepted by an operator")

LEAVE = store_v1.AcceptLossRequest(first=NOTHING, reason="for a test")
LEAVE_ORDERS = store_v1.AcceptLossRequest(
    source=source_to_wire(ORDERS), first=NOTHING, reason="for a test"
)


@pytest.fixture
async def store() -> Store:
    return Store()


def lost(first: int, last: int) -> store_v1.AcceptLossRequest:
    return store_v1.AcceptLossRequest(
        source=source_to_wire(ORDERS), first=first, last=last, reason="for a test"
    )


def on_disk(store: Store) -> World:
    """What a restart would find."""
    return store.world.restarted()


def leaving(state: SourceState) -> tuple[str, bool]:
    """Why it is in limbo, and whether receivers of it may be missed."""
    return state.limbo, state.registration.may_miss_receivers


async def test_a_loss_is_accepted_when_that_is_durable(store: Store) -> None:
    world = store.world
    stream = world.stream()
    world.write(store.core.streams.keepalive(stream, 9))
    world.write(store.core.streams.skip(stream, 0, 9))
    asked = await store.held_up(store.upkeep.accept_loss(lost(0, 9)))
    assert not startup.losses(on_disk(store).storage)
    store.writer.let()
    (said,) = (await asked).records
    (record,) = startup.losses(on_disk(store).storage)
    assert said == str(record)


async def test_of_what_is_on_its_way_to_the_disk_nothing_stays_that_was_accepted_as_lost(
    store: Store,
) -> None:
    stream = store.world.stream()
    state = stream.state
    store.engine.submit(state, store.core.streams.append(stream, batch(0, 9), NOTHING) or ())
    state.found_unreadable(2, 4)
    asked = await store.held_up(store.upkeep.accept_loss(lost(2, 4)))
    await store.finished(asked)
    assert not [*index.entries(store.world.storage, state.reg_id, 2, 4)]


async def test_a_store_has_left_limbo_when_that_is_durable(store: Store) -> None:
    """Of what it has, too, it may have missed receivers."""
    await store.registered()
    store.is_put_back()
    store.writer.let()
    asked = await store.held_up(store.upkeep.accept_loss(LEAVE))
    found = on_disk(store)
    assert leaving(found.core.sources[ORDERS]) == ("it was put back", False)
    assert not startup.losses(found.storage)
    store.writer.let()
    (said,) = (await asked).records
    found = on_disk(store)
    assert leaving(found.core.sources[ORDERS]) == ("", True)
    assert [str(record) for record in startup.losses(found.storage)] == [said]


async def test_a_store_that_is_in_limbo_for_one_source_leaves_it_for_that_one(
    store: Store,
) -> None:
    world = store.world
    for source in (ORDERS, TRADES):
        world.begin(FIRST_LINEAGE, source)
    world.write(store.core.sources[ORDERS].enter_limbo("its host went down"))
    await store.done(store.upkeep.accept_loss(LEAVE_ORDERS))
    assert not store.core.in_limbo
    sources = on_disk(store).core.sources
    assert leaving(sources[ORDERS]) == ("", True)
    assert leaving(sources[TRADES]) == ("", False)
    assert not store.core.standing.record.by_hand
    with pytest.raises(InvalidArgument, match="not in limbo"):
        await store.upkeep.accept_loss(LEAVE_ORDERS)
