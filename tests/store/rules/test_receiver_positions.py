from __future__ import annotations

from dataclasses import replace

import pytest
from tests.begun import rebegun
from tests.store.support import ORDERS, TRADES, World, batch

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import NO_LINEAGE
from quorate.protocol.policy import Policy
from quorate.store.rules import receiver_positions
from quorate.store.rules.identity_records import End
from quorate.store.rules.peer_knowledge import SourceKnowledge
from quorate.store.rules.receiver_positions import ReceiverKnowledge
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.records import ReceiverRecord
from quorate.v1.store_pb2 import EndedReceiver, ReceiverStatus


@pytest.fixture
def world() -> World:
    """A store that was started anew, and is in limbo: it has a receiver on its disk."""
    world = World()
    world.append(world.stream(), batch(0, 9), stable_upto=9)
    world.done(world.receivers.register(ORDERS, 1, 0, 5))
    world.write(world.receivers.acknowledge(ORDERS, 1, 5, 8))
    world.write(world.core.sources[ORDERS].enter_limbo("for a test"))
    return world.restarted()


def known(**receivers: tuple[int, int, int]) -> SourceKnowledge:
    """What a store says; of a receiver its epoch, position, and where that was confirmed."""
    return SourceKnowledge(
        receivers=tuple(
            ReceiverStatus(
                session_id=int(name[1:]), epoch=epoch, acknowledged_upto=upto, confirmed_epoch=last
            )
            for name, (epoch, upto, last) in receivers.items()
        )
    )


def over(epoch: int) -> SourceKnowledge:
    return SourceKnowledge(ended_receivers=(EndedReceiver(session_id=1, epoch=epoch),))


def together(*told: SourceKnowledge) -> dict[int, tuple[int, int, int]]:
    found = receiver_positions.positions(told, NO_LINEAGE)
    return {
        receiver: (one.epoch, one.acknowledged_upto, one.confirmed_epoch)
        for receiver, one in found.items()
    }


def test_what_one_store_says_is_over_no_other_brings_back() -> None:
    assert together(known(r1=(3, 8, 3)), over(3)) == {}
    assert together(known(r1=(4, 8, 3)), over(3)) == {1: (4, NOTHING, 3)}
    assert together(known(r1=(4, 8, 3)), known(r1=(4, 2, 4)), over(3)) == {1: (4, 2, 4)}
    assert together(known(r1=(4, 8, 4)), over(3)) == {1: (4, 8, 4)}


def test_a_position_keeps_the_epoch_that_it_is_of() -> None:
    assert together(known(r1=(4, 8, 3)), known(r1=(4, 2, 4))) == {1: (4, 8, 3)}


def test_of_two_instances_with_one_epoch_the_greater_is_told_and_taken_over(world: World) -> None:
    statuses = [ReceiverStatus(session_id=1, epoch=6, instance=each) for each in (b"a", b"b")]
    for told in (statuses, statuses[::-1]):
        sources = [SourceKnowledge(receivers=(each,)) for each in told]
        found = receiver_positions.positions(sources, NO_LINEAGE)
        assert found[1].ballot == (6, b"b")
        assert take_over(world, found)[1].ballot == (6, b"b")


# Taking over.


def take_over(
    world: World, receivers: dict[int, ReceiverKnowledge], ended: dict[int, End] | None = None
) -> dict[int, ReceiverRecord]:
    state = _state(world)
    core = world.core
    world.write(
        receiver_positions.take_over(state, receivers, ended or {}, core.identities, core.reg_ids)
    )
    return _state(world.restarted()).receivers


def _state(world: World) -> SourceState:
    return world.core.sources[ORDERS]


def test_what_is_on_the_disk_of_a_store_in_limbo_does_not_count(world: World) -> None:
    after = take_over(world, {1: ReceiverKnowledge(2, 3, confirmed_epoch=2)})
    assert (after[1].epoch, after[1].acknowledged_upto) == (5, 3), "it still fences"
    assert take_over(world, {}) == {}


def test_who_registered_since_is_kept_with_what_it_acknowledged_since(world: World) -> None:
    answer = world.done(world.receivers.register(ORDERS, 1, 0, 6, b"since"))
    assert answer.acknowledged_upto == NOTHING, "nobody is told what may be over"
    assert take_over(world, {})[1].acknowledged_upto == NOTHING
    world.write(world.receivers.acknowledge(ORDERS, 1, 6, 2, 0, b"since"))
    assert take_over(world, {1: ReceiverKnowledge(5, 1)})[1].acknowledged_upto == 2
    assert take_over(world, {1: ReceiverKnowledge(5, 4)})[1].acknowledged_upto == 4


def test_ends_are_taken_over_and_those_of_the_disk_are_for_the_peers_to_say(world: World) -> None:
    core = world.core
    world.write(core.identities.end_receiver(_state(world), 2, 7, core.reg_ids))
    world = world.restarted()
    assert take_over(world, {}, {1: End(6)}) == {}
    assert _state(world).ended == {1: End(6)}
    core = world.core
    world.write(core.identities.end_receiver(_state(world), 3, 1, core.reg_ids))
    take_over(world, {3: ReceiverKnowledge(1, 5)})
    assert _state(world).ended == {1: End(6), 3: End(1)}, "both were heard since"
    assert _state(world).receivers == {}


def test_who_has_ended_as_peers_know_is_dropped_though_it_registered_since(world: World) -> None:
    world.done(world.receivers.register(ORDERS, 1, 0, 6, b"since"))
    assert take_over(world, {}, {1: End(6)}) == {}


# Out of limbo by an operator's word.


def learn(world: World, **told: SourceKnowledge) -> dict[int, int]:
    """Where the store a has each receiver after that; the policy is a majority of a, b and c."""
    core, three = world.core, (Policy.majority_of("abc"),)
    world.write(receiver_positions.learn(_state(world), three, told, core.identities, core.reg_ids))
    return {each: one.acknowledged_upto for each, one in _state(world).receivers.items()}


def by_hand(world: World) -> World:
    state = _state(world)
    state.registration = replace(state.registration, may_miss_receivers=True)
    world.write((state.registration_row(),))
    return world.restarted()


def test_who_left_by_hand_learns_of_the_receivers_that_it_misses(world: World) -> None:
    world = by_hand(world)
    lineage = _state(world).lineage
    b = rebegun(known(r1=(9, 9, 9), r2=(2, 3, 2)), lineage=lineage)
    c = rebegun(known(r2=(2, 4, 2)), lineage=lineage)
    assert learn(world, b=b) == {1: 8}, "one of three does not know all"
    assert _state(world).registration.may_miss_receivers
    assert learn(world, b=b, c=c) == {1: 8, 2: 4}
    assert not _state(world.restarted()).registration.may_miss_receivers


def test_another_one_that_left_by_hand_tells_it_nothing(world: World) -> None:
    world = by_hand(world)
    others = replace(known(r2=(2, 3, 2)), may_miss_receivers=True)
    assert learn(world, b=others, c=others) == {1: 8}
    assert _state(world).registration.may_miss_receivers


def test_it_learns_of_ends_as_well(world: World) -> None:
    world = by_hand(world)
    assert learn(world, b=over(5), c=known(r1=(5, 8, 5))) == {}
    assert _state(world).ended == {1: End(5)}


def test_what_a_store_that_left_by_hand_takes_up_later_it_may_have_missed(world: World) -> None:
    writes = world.standing.enter_limbo("for a test", b"other")
    writes += world.standing.leave_limbo(by_hand=True)
    world.write(writes)
    world.core.promise(TRADES, 1, b"a", 0, False)
    assert world.core.sources[TRADES].registration.may_miss_receivers
    world.standing.leave_limbo()
    world.core.promise(SourceName("news", 1), 1, b"a", 0, False)
    assert not world.core.sources[SourceName("news", 1)].registration.may_miss_receivers
