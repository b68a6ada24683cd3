from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import permutations, product

import pytest
from tests.store.support import ORDERS, TRADES, World, batch

from quorate.protocol.errors import (
    EpochTooFar,
    Fenced,
    InvalidArgument,
    NotRegistered,
    RegIdInUse,
    UnknownTopic,
)
from quorate.protocol.limits import EPOCH_STEP_MAX, NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.store.rules.deregistration import check_receiver
from quorate.store.rules.lifetimes import Who

SESSION = 0x20


@pytest.fixture
def world() -> World:
    world = World()
    world.append(world.stream(), batch(0, 9), stable_upto=4)
    return world


def register(world: World, epoch: int, reg_id: int = 0) -> tuple[int, bool]:
    """Where the receiver was, and whether it was known."""
    registered = world.done(world.receivers.register(ORDERS, SESSION, reg_id, epoch))
    return registered.acknowledged_upto, registered.known


def acknowledge(world: World, epoch: int, upto: int, source_epoch: int = 0) -> int:
    """The position after it."""
    world.write(world.receivers.acknowledge(ORDERS, SESSION, epoch, upto, source_epoch))
    return world.core.sources[ORDERS].receivers[SESSION].acknowledged_upto


def test_a_new_receiver_is_told_what_is_there(world: World) -> None:
    registered = world.done(world.receivers.register(ORDERS, SESSION, 0, 1))
    assert (registered.low, registered.high, registered.stable_upto) == (0, 9, 4)
    assert (registered.acknowledged_upto, registered.known) == (NOTHING, False)
    assert registered.reg_id == 2
    assert registered.lineage == world.core.sources[ORDERS].lineage


@pytest.mark.parametrize("ended_epoch", [0, 2, 5])
@pytest.mark.parametrize("limbo", ["", "it was wiped"])
@pytest.mark.parametrize("acknowledged", [None, NOTHING, 7])
def test_a_question_is_answered_as_a_registration_and_changes_nothing(
    world: World, acknowledged: int | None, limbo: str, ended_epoch: int
) -> None:
    state = world.core.sources[ORDERS]
    if acknowledged is not None:
        register(world, 3)
        acknowledge(world, 3, acknowledged)
    state.limbo = limbo
    before = deepcopy((state.receivers, state.ended, state.registration))
    told = world.receivers.look_up(ORDERS, SESSION, 0, ended_epoch=ended_epoch)
    assert (state.receivers, state.ended, state.registration) == before
    assert told.epoch == max(ended_epoch, 3 if acknowledged is not None else 0)
    registered = world.receivers.register(ORDERS, SESSION, 0, 6, ended_epoch=ended_epoch).answer
    assert replace(told, epoch=6, reg_id=registered.reg_id) == registered
    assert told.reg_id in (0, registered.reg_id)


def test_a_question_finds_a_reg_id_that_another_has(world: World) -> None:
    world.done(world.receivers.register(ORDERS, SESSION + 1, 5, 1))
    with pytest.raises(RegIdInUse):
        world.receivers.look_up(ORDERS, SESSION, 5)


def test_no_registration_leaves_the_next_instance_without_an_epoch(world: World) -> None:
    for known in (0, EPOCH_STEP_MAX):
        with pytest.raises(EpochTooFar) as caught:
            register(world, known + EPOCH_STEP_MAX + 1)
        assert caught.value.admitted == known + EPOCH_STEP_MAX
        register(world, known + EPOCH_STEP_MAX)


def test_an_unknown_source_is_named_with_those_there_are(world: World) -> None:
    with pytest.raises(UnknownTopic, match="orders"):
        world.receivers.register(TRADES, SESSION, 0, 1)
    with pytest.raises(UnknownTopic):
        world.receivers.acknowledge(TRADES, SESSION, 1, 0)


def test_another_source_of_a_known_topic_has_ended(world: World) -> None:
    ended = ORDERS._replace(session_id=0x99)
    with pytest.raises(UnknownTopic, match="Topic 'orders' is known, but its source is not there"):
        world.receivers.register(ended, SESSION, 0, 1)


def test_a_source_that_never_began_makes_no_topic_known(world: World) -> None:
    world.core.promise(TRADES, 1, b"a", 0, False)
    assert world.receivers.topics() == ["orders"]


def test_a_higher_epoch_fences_the_lower(world: World) -> None:
    register(world, 3)
    assert acknowledge(world, 3, 4) == 4
    with pytest.raises(Fenced) as caught:
        register(world, 2)
    assert caught.value.promised == 3
    assert register(world, 4) == (4, True)
    with pytest.raises(Fenced) as caught:
        acknowledge(world, 3, 6)
    assert caught.value.promised == 4


def test_epochs_and_positions_survive_a_restart(world: World) -> None:
    register(world, 3, reg_id=90)
    acknowledge(world, 3, 6)
    after = world.restarted()
    with pytest.raises(Fenced):
        register(after, 2)
    assert register(after, 4) == (6, True)
    with pytest.raises(RegIdInUse):
        after.promise(1, source=TRADES, reg_id=90)


def test_a_position_never_moves_back_nor_past_what_is_held(world: World) -> None:
    register(world, 1)
    assert acknowledge(world, 1, 5) == 5
    assert world.receivers.acknowledge(ORDERS, SESSION, 1, 3) == ()
    assert acknowledge(world, 1, 99) == 9


def test_what_is_stable_elsewhere_can_be_acknowledged_though_it_is_not_here(world: World) -> None:
    """Else who was told that all of it is lost would hold up a source that waits for it."""
    register(world, 1)
    world.write(world.core.streams.learn_stable(world.core.sources[ORDERS], 14))
    assert acknowledge(world, 1, 99) == 14


def test_who_did_not_register_can_not_acknowledge(world: World) -> None:
    with pytest.raises(NotRegistered):
        acknowledge(world, 1, 5)
    register(world, 1)
    with pytest.raises(NotRegistered):
        acknowledge(world, 2, 5)


def test_reg_ids_are_shared_with_sources(world: World) -> None:
    with pytest.raises(RegIdInUse, match="source orders"):
        register(world, 1, reg_id=1)
    register(world, 1, reg_id=50)
    register(world, 2, reg_id=51)
    assert world.core.sources[ORDERS].receivers[SESSION].reg_id == 50, "it keeps what it has"
    with pytest.raises(RegIdInUse, match="receiver 0x20 of orders"):
        world.promise(1, source=TRADES, reg_id=50)


def test_epoch_zero_is_no_epoch(world: World) -> None:
    with pytest.raises(InvalidArgument):
        register(world, 0)


def test_a_sign_of_life_moves_nothing_and_is_refused_to_the_fenced(world: World) -> None:
    register(world, 1)
    assert world.receivers.acknowledge(ORDERS, SESSION, 1, NOTHING) == ()
    assert acknowledge(world, 1, 5) == 5
    assert world.receivers.acknowledge(ORDERS, SESSION, 1, NOTHING) == ()
    register(world, 2)
    with pytest.raises(Fenced):
        acknowledge(world, 1, NOTHING)


@pytest.mark.parametrize("restart", [False, True])
def test_of_two_instances_with_one_epoch_the_greater_fences_the_lower(
    world: World, *, restart: bool
) -> None:
    def ask(instance: bytes, epoch: int = 1) -> tuple[int, bool]:
        answer = world.done(world.receivers.register(ORDERS, SESSION, 0, epoch, instance))
        return answer.acknowledged_upto, answer.known

    def late(epoch: int, instance: bytes) -> None:
        with pytest.raises(Fenced):
            world.receivers.acknowledge(ORDERS, SESSION, epoch, 6, 1, instance)
        with pytest.raises(Fenced):
            ask(instance, epoch)
        record = world.core.sources[ORDERS].receivers[SESSION]
        with pytest.raises(Fenced):
            check_receiver(Who(ORDERS, SESSION), record, epoch, instance)

    assert ask(b"k") == (NOTHING, False)
    world.write(world.receivers.acknowledge(ORDERS, SESSION, 1, 5, 1, b"k"))
    world = world.restarted() if restart else world
    assert ask(b"k") == (5, True), "the same may ask again"
    late(1, b"j")
    with pytest.raises(NotRegistered):
        world.receivers.acknowledge(ORDERS, SESSION, 1, 6, 1, b"l")
    assert ask(b"l") == (5, True)
    world = world.restarted() if restart else world
    late(1, b"k")
    assert ask(b"a", 2) == (5, True), "the epoch comes first"
    late(1, b"l")
    record = world.core.sources[ORDERS].receivers[SESSION]
    check_receiver(Who(ORDERS, SESSION), record, 2, b"a")
    check_receiver(Who(ORDERS, SESSION), record, 2)


def test_what_was_acknowledged_of_a_former_stream_moves_nothing_in_the_one_after_it() -> None:
    """The source was deregistered and began anew; the receiver and its epoch are the same."""
    world = World()
    world.append(world.stream(epoch=3), batch(0, 9, epoch=3))
    register(world, 1)
    assert world.receivers.acknowledge(ORDERS, SESSION, 1, 9, 2) == ()
    assert world.receivers.acknowledge(ORDERS, SESSION, 1, 9, 3)


FIRST = Lineage((Term(1, 0),))


def begun(kept: int, kept_next: int) -> tuple[Lineage, Lineage]:
    """The lineages of epochs 2 and 3."""
    second = FIRST.extended(kept, 2)
    return second, second.extended(kept_next, 3)


def histories() -> list[tuple[int, int, int, int, int, int]]:
    """How far was stable in epoch 1, kept by 2, stable in 2, kept by 3; and, of epoch 1, how far
    the store held the stream and knew it to be stable."""
    return [
        (stable, kept, stable_next, kept_next, held, told)
        for stable, kept, stable_next, kept_next in product(range(-1, 2), repeat=4)
        if stable <= kept and stable <= stable_next <= kept_next
        for held in range(-1, 3)
        for told in range(-1, min(stable, held) + 1)
    ]


@pytest.mark.parametrize(
    ("every", "least"), [(6, 1_000), pytest.param(1, 5_000, marks=pytest.mark.big)]
)
def test_positions_never_move_back_whatever_order_things_come_in(every: int, least: int) -> None:
    """Receivers acknowledge what is stable, and begins keep that. The store may be behind: it holds
    a tail that is void by now, and hears of acknowledgements, late, repeated or reordered, before
    the begins that they speak of, or never of one of the begins."""
    count = 0
    for stable, kept, stable_next, kept_next, held, told in histories()[::every]:
        lineages = dict(zip((2, 3), begun(kept, kept_next), strict=True))
        acknowledged = [(stable, 1), (stable_next, 2), (stable_next, 3), (stable, 1)]
        for begins in ((2, 3), (3,)):
            for order in permutations([*acknowledged[:3], *begins]):
                if order.index(3) < order.index(begins[0]):
                    continue
                world = World()
                stream = world.stream()
                if held >= 0:
                    world.append(stream, batch(0, held))
                world.write(world.core.streams.keepalive(stream, told))
                register(world, 1)
                position = NOTHING
                for step in (*order, acknowledged[3]):
                    if isinstance(step, int):
                        world.promise(step)
                        world.begin(lineages[step])
                    else:
                        acknowledge(world, 1, *step)
                    state = world.core.sources[ORDERS]
                    after = state.receivers[SESSION].acknowledged_upto
                    assert after >= position, (lineages, held, told, order)
                    assert after <= stable_next
                    position = after
                count += 1
    assert count > least


def test_a_position_never_stays_above_where_the_stream_begins_anew(world: World) -> None:
    """Not even if something had been acknowledged that was not stable: the new messages with these
    numbers are not to be skipped."""
    register(world, 1)
    assert acknowledge(world, 1, 9) == 9
    world.promise(2)
    world.begin(FIRST.extended(6, 2))
    assert register(world, 2) == (6, True)
    assert register(world.restarted(), 3) == (6, True)
