from __future__ import annotations

import pytest
from tests.store.support import ORDERS, TRADES, World, batch

from quorate.protocol.errors import (
    Fenced,
    InvalidArgument,
    NotRegistered,
    RegIdInUse,
    UnknownTopic,
)
from quorate.protocol.limits import NOTHING

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


def acknowledge(world: World, epoch: int, upto: int) -> int:
    """The position after it."""
    world.write(world.receivers.acknowledge(ORDERS, SESSION, epoch, upto))
    return world.core.sources[ORDERS].receivers[SESSION].acknowledged_upto


def test_a_new_receiver_is_told_what_is_there(world: World) -> None:
    registered = world.done(world.receivers.register(ORDERS, SESSION, 0, 1))
    assert (registered.low, registered.high, registered.stable_upto) == (0, 9, 4)
    assert (registered.acknowledged_upto, registered.known) == (NOTHING, False)
    assert registered.reg_id == 2
    assert registered.lineage == world.core.sources[ORDERS].lineage


def test_an_unknown_source_is_named_with_those_there_are(world: World) -> None:
    with pytest.raises(UnknownTopic, match="orders"):
        world.receivers.register(TRADES, SESSION, 0, 1)
    with pytest.raises(UnknownTopic):
        world.receivers.acknowledge(TRADES, SESSION, 1, 0)


def test_a_source_that_never_began_makes_no_topic_known(world: World) -> None:
    world.core.promise(TRADES, 1, b"a", 0, False)
    assert world.receivers.topics() == ["orders"]


def test_a_higher_epoch_fences_the_lower(world: World) -> None:
    register(world, 3)
    assert acknowledge(world, 3, 4) == 4
    for epoch in (3, 2):
        with pytest.raises(Fenced) as caught:
            register(world, epoch)
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
        register(after, 3)
    assert register(after, 4) == (6, True)
    with pytest.raises(RegIdInUse):
        after.promise(1, source=TRADES, reg_id=90)


def test_a_position_never_moves_back_nor_past_what_is_held(world: World) -> None:
    register(world, 1)
    assert acknowledge(world, 1, 5) == 5
    assert world.receivers.acknowledge(ORDERS, SESSION, 1, 3) == ()
    assert acknowledge(world, 1, 99) == 9


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
    with pytest.raises(RegIdInUse):
        register(world, 2, reg_id=51)
    with pytest.raises(RegIdInUse, match="receiver 0x20 of orders"):
        world.promise(1, source=TRADES, reg_id=50)


def test_epoch_zero_is_no_epoch(world: World) -> None:
    with pytest.raises(InvalidArgument):
        register(world, 0)
