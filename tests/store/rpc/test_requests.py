"""In which order a store does what it is asked for: nothing is answered that may not be so."""

from __future__ import annotations

import pytest
from tests.store.ended import end, filled, rows
from tests.store.held_back import SESSION, Store, position, receiver
from tests.store.support import (
    FIRST_LINEAGE,
    INCARNATION,
    MEMBERSHIP,
    ORDERS,
    TRADES,
    World,
    batch,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import Fenced, InLimbo, ReceiverActive, UnknownTopic
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange
from quorate.store import startup
from quorate.store.rpc.requests import (
    AskedBegin,
    AskedPromise,
)
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Who,
)
from quorate.store.storage.interface import Table
from quorate.store.turns import Turn

SECOND_LINEAGE = Lineage((Term(1, 0), Term(2, 6)))


@pytest.fixture
async def store() -> Store:
    return Store()


def promise(epoch: int = 1, instance: bytes = b"a", *, take_over: bool = False) -> AskedPromise:
    return AskedPromise(ORDERS, epoch, instance, take_over, 0)


def begin(lineage: Lineage = FIRST_LINEAGE, *losses: HeldRange) -> AskedBegin:
    return AskedBegin(ORDERS, BeginRecord(lineage, MEMBERSHIP), b"a", INCARNATION, losses)


# Sources.


async def test_a_promise_is_answered_when_it_is_durable(store: Store) -> None:
    asked = await store.held_up(store.requests.promise(promise()))
    assert rows(store.world, Table.REGISTRATIONS) == 0
    store.writer.let()
    granted = await asked
    assert rows(store.world, Table.REGISTRATIONS) == 1
    assert granted.incarnation == b"incarnation"
    assert granted.promised.registration.promised_epoch == 1


async def test_a_promise_that_was_given_before_is_answered_when_that_is_durable(
    store: Store,
) -> None:
    first = await store.held_up(store.requests.promise(promise()))
    again = await store.held_up(store.requests.promise(promise()))
    store.writer.let()
    assert await first == await again


async def test_a_promise_of_who_the_store_was_before_is_not_given(store: Store) -> None:
    asked = await store.held_up(store.requests.promise(promise()))
    store.is_put_back()
    store.writer.let()
    with pytest.raises(InLimbo, match="copy"):
        await asked


async def test_a_begin_at_who_the_store_was_before_does_not_count(store: Store) -> None:
    await store.done(store.requests.promise(promise()))
    asked = await store.held_up(store.requests.begin(begin()))
    store.is_put_back()
    store.writer.let()
    with pytest.raises(InLimbo, match="copy"):
        await asked


def void(world: World) -> None:
    """End the source on a stable set. Its messages are still filed."""
    world.write(world.core.identities.became_durable(end(world), world.core.reg_ids))


async def test_what_is_left_of_a_deleted_source_makes_way_for_the_next_one(store: Store) -> None:
    world = store.world
    filled(world)
    void(world)
    asked = await store.held_up(store.requests.promise(promise(4, b"b")))
    assert ORDERS not in store.core.sources, "first the old one has to be gone"
    granted = await store.finished(asked)
    assert granted.promised.registration.promised_epoch == 4


async def test_what_a_deleted_source_had_on_its_way_to_the_disk_makes_way_too(store: Store) -> None:
    """Else it came up under the RegID that is the next one's."""
    world = store.world
    world.begin(FIRST_LINEAGE)
    stream = world.open()
    store.engine.submit(stream.state, store.core.streams.append(stream, batch(0, 9), NOTHING) or ())
    reg_id = stream.state.reg_id
    void(world)
    asked = await store.held_up(store.requests.promise(promise(4, b"b")))
    granted = await store.finished(asked)
    assert granted.promised.state.reg_id == reg_id
    assert rows(world, Table.INDEX) == 0
    assert (rows(world, Table.INDEX), rows(world, Table.RECEIVERS)) == (0, 0)


@pytest.mark.expects_log("set 4 messages aside")
async def test_an_epoch_begins_when_all_that_it_may_set_aside_can_be_read(store: Store) -> None:
    world, engine = store.world, store.engine
    world.begin(FIRST_LINEAGE)
    stream = world.open()
    state = stream.state
    taken = store.core.streams.append(stream, batch(0, 4), -1)
    assert taken is not None
    engine.submit(state, taken)
    rest = store.core.streams.append(stream, batch(5, 9), -1)
    assert rest is not None
    engine.submit(state, rest)
    store.core.promise(ORDERS, 2, b"a", 0, True)
    asked = await store.held_up(store.requests.begin(begin(SECOND_LINEAGE)))
    assert state.registration.begun.epoch == 1
    assert await store.finished(asked) == 4
    assert rows(world, Table.SET_ASIDE) == 1


async def test_who_asks_is_heard_before_that_is_durable(store: Store) -> None:
    """Else it could be deleted meanwhile as if nobody had asked."""
    lives = store.core.identities.lives
    store.world.promise(1)
    for request in (
        store.requests.promise(promise(2, take_over=True)),
        store.requests.begin(begin(Lineage((Term(2, 0),)))),
    ):
        lives.observed.look(lives.observed.now + 1.0)
        assert lives.silent(Who(ORDERS)) > 0
        asked = await store.held_up(request)
        assert lives.silent(Who(ORDERS)) == 0
        store.writer.let()
        await asked


@pytest.mark.expects_log("accepted by an operator")
async def test_with_a_begin_the_store_learns_what_was_accepted_as_lost(store: Store) -> None:
    await store.done(store.requests.promise(promise(2)))
    lost = HeldRange(0, 5, 1)
    await store.done(store.requests.begin(begin(SECOND_LINEAGE, lost)))
    (record,) = startup.losses(store.world.storage)
    assert (record.source, record.first, record.last) == (ORDERS, 0, 5)
    assert "source orders" in record.reason


# Receivers.


async def test_a_receiver_is_registered_when_that_is_durable(store: Store) -> None:
    store.world.begin(FIRST_LINEAGE)
    asked = await store.held_up(store.requests.register_receiver(receiver()))
    assert rows(store.world, Table.RECEIVERS) == 0
    store.writer.let()
    assert not (await asked).limbo
    assert rows(store.world, Table.RECEIVERS) == 1


@pytest.mark.parametrize(("before", "after"), [("it was wiped", ""), ("", "it was wiped")])
async def test_positions_that_are_told_in_limbo_are_told_as_that(
    store: Store, before: str, after: str
) -> None:
    """It leaves limbo, or enters it, while that is written."""
    await store.registered()
    state = store.core.sources[ORDERS]
    state.limbo = before
    asked = await store.held_up(store.requests.register_receiver(receiver(epoch=2)))
    state.limbo = after
    store.writer.let()
    assert (await asked).limbo


async def test_a_store_in_limbo_does_not_say_that_there_is_no_such_source(store: Store) -> None:
    with pytest.raises(UnknownTopic):
        await store.done(store.requests.register_receiver(receiver()))
    store.is_put_back()
    with pytest.raises(InLimbo):
        await store.done(store.requests.register_receiver(receiver()))


async def test_a_receiver_that_lives_is_not_replaced_unasked(store: Store) -> None:
    await store.registered(lifetimes=Lifetimes(5, 50))
    other = receiver(epoch=2, instance=b"other")
    with pytest.raises(ReceiverActive):
        await store.done(store.requests.register_receiver(other))
    await store.done(store.requests.register_receiver(other._replace(take_over=True)))


async def test_a_question_registers_nothing(store: Store) -> None:
    await store.registered(lifetimes=Lifetimes(5, 50))
    written = rows(store.world, Table.RECEIVERS)
    other = receiver(instance=b"other", asks_only=True)
    with pytest.raises(ReceiverActive):
        await store.requests.register_receiver(other)
    told = await store.requests.register_receiver(other._replace(take_over=True))
    assert (told.answer.epoch, told.answer.known, told.limbo) == (1, True, False)
    await store.requests.register_receiver(other._replace(session_id=SESSION + 1))
    store.writer.let()
    assert rows(store.world, Table.RECEIVERS) == written
    assert store.core.sources[ORDERS].receivers[SESSION].instance == b"r"
    assert store.core.sources[ORDERS].receivers.keys() == {SESSION}


async def test_what_a_receiver_asks_for_is_kept_with_it(store: Store) -> None:
    await store.registered(lifetimes=Lifetimes(5, 50))
    lives = store.world.restarted().core.identities.lives
    assert lives.of(Who(ORDERS, SESSION)).asked == Lifetimes(5, 50)


async def test_a_position_is_acknowledged_when_it_is_durable(store: Store) -> None:
    await store.registered()
    asked = await store.held_up(store.requests.acknowledge(SESSION, [position(7)], Turn()))
    store.writer.let()
    assert await asked == ([], [])
    restarted = store.world.restarted().core.sources[ORDERS]
    assert restarted.receivers[SESSION].acknowledged_upto == 7


async def test_a_repeated_position_is_acknowledged_when_it_is_durable(store: Store) -> None:
    await store.registered()
    asked = await store.held_up(store.requests.acknowledge(SESSION, [position(7)], Turn()))
    again = await store.held_up(store.requests.acknowledge(SESSION, [position(7)], Turn()))
    store.writer.let()
    assert await asked == await again == ([], [])
    # Nothing is on its way any more.
    assert await store.requests.acknowledge(SESSION, [position(7)], Turn()) == ([], [])


async def test_positions_of_several_sources_are_acknowledged_when_all_are_durable(
    store: Store,
) -> None:
    await store.registered()
    store.world.begin(FIRST_LINEAGE, TRADES)
    await store.done(store.requests.register_receiver(receiver(source=TRADES)))
    first = await store.held_up(store.requests.acknowledge(SESSION, [position(7)], Turn()))
    # The second is nothing new, and nothing of its source is on its way.
    both = [position(7), position(-1, source=TRADES)]
    again = await store.held_up(store.requests.acknowledge(SESSION, both, Turn()))
    store.writer.let()
    assert await first == await again == ([], [])


async def test_one_refused_position_keeps_no_other_back(store: Store) -> None:
    await store.registered(epoch=2)
    asked = [position(3), position(5, source=TRADES), position(4, epoch=2), position(12, epoch=2)]
    moved = await store.done(store.requests.acknowledge(SESSION, asked, Turn()))
    assert [(source, type(error)) for source, error in moved.refused] == [
        (ORDERS, Fenced),
        (TRADES, UnknownTopic),
    ]
    assert moved.shortened == [position(9, epoch=2)]
    assert store.core.sources[ORDERS].receivers[SESSION].acknowledged_upto == 9


async def test_who_acknowledges_is_heard_before_that_is_durable(store: Store) -> None:
    await store.registered()
    lives, who = store.core.identities.lives, Who(ORDERS, SESSION)
    lives.observed.look(lives.observed.now + 1.0)
    assert lives.silent(who) > 0
    asked = await store.held_up(store.requests.acknowledge(SESSION, [position(7)], Turn()))
    assert lives.silent(who) == 0
    store.writer.let()
    await asked
