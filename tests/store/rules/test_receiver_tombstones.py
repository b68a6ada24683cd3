from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tests.begun import rebegun
from tests.store.ended import MEMBERSHIP, end_for_good
from tests.store.support import FIRST_LINEAGE, INCARNATION, ORDERS, World, batch

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import Deregistered, Fenced
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.store.rules import receiver_tombstones
from quorate.store.rules.identity_records import End
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.peer_wire import knowledge_of
from quorate.store.rules.receiver_tombstones import (
    Forgetting,
    Said,
    Step,
    merged,
    news,
    next_step,
)
from quorate.store.rules.receivers import (
    Registered,
    ended_receivers,
    statuses,
)
from quorate.store.rules.source_state import SourceState
from quorate.v1.store_pb2 import (
    EndedReceiver,
    ReceiverStatus,
)

SESSION = 0x20


@pytest.fixture
def world() -> World:
    world = World()
    world.append(world.stream(), batch(0, 9), stable_upto=9)
    return world


def state(world: World) -> SourceState:
    return world.core.sources[ORDERS]


def register(world: World, epoch: int, ended_epoch: int = 0) -> Registered:
    change = world.receivers.register(ORDERS, SESSION, 0, epoch, ended_epoch=ended_epoch)
    registered = world.done(change)
    assert isinstance(registered, Registered)
    return registered


def known_epoch(world: World) -> int:
    """The epoch above which the receiver is to register."""
    return world.receivers.look_up(ORDERS, SESSION, 0).epoch


def acknowledge(world: World, epoch: int, upto: int) -> None:
    world.write(world.receivers.acknowledge(ORDERS, SESSION, epoch, upto))


def end(world: World, epoch: int) -> None:
    core = world.core
    world.write(core.identities.end_receiver(state(world), SESSION, epoch, core.reg_ids))


def ended(epoch: int, *, settled: bool = False) -> EndedReceiver:
    return EndedReceiver(session_id=SESSION, epoch=epoch, settled=settled)


# At one store.


def test_an_end_fences_every_epoch_up_to_it_also_after_a_restart(world: World) -> None:
    register(world, 3)
    acknowledge(world, 3, 5)
    end(world, 3)
    for one in (world, world.restarted()):
        assert state(one).receivers == {}
        for epoch in (1, 3):
            with pytest.raises(Fenced) as caught:
                register(one, epoch)
            assert caught.value.promised == 3
        for epoch in (2, 3):
            with pytest.raises(Deregistered):
                acknowledge(one, epoch, 6)
            with pytest.raises(Deregistered):
                one.receivers.register(ORDERS, SESSION, 0, epoch, is_open=True)
        assert state(one).receivers == {}, "nothing that is late brings it back"


def test_the_next_registration_is_that_of_a_new_receiver(world: World) -> None:
    register(world, 3)
    acknowledge(world, 3, 5)
    end(world, 3)
    registered = register(world, 4)
    assert (registered.known, registered.acknowledged_upto) == (False, NOTHING)
    assert registered.ended_epoch == 3, "others may not have heard it"
    acknowledge(world, 4, 1)
    assert state(world.restarted()).receivers[SESSION].acknowledged_upto == 1


def test_two_ends_in_a_row(world: World) -> None:
    register(world, 1)
    end(world, 1)
    register(world, 2)
    acknowledge(world, 2, 5)
    end(world, 1)
    assert state(world).receivers[SESSION].acknowledged_upto == 5, "that one came late"
    end(world, 2)
    assert state(world).ended == {SESSION: End(2)}
    assert register(world, 3).ended_epoch == 2


def test_a_store_that_was_away_hears_of_it_from_the_new_receiver(world: World) -> None:
    register(world, 1)
    acknowledge(world, 1, 5)
    registered = register(world, 2, ended_epoch=1)
    assert (registered.known, registered.acknowledged_upto) == (False, NOTHING)
    assert state(world.restarted()).ended_upto(SESSION) == 1


@pytest.mark.parametrize("acknowledged", [False, True])
def test_who_registered_before_the_store_was_told_has_no_part_in_the_old_position(
    world: World, acknowledged: bool
) -> None:
    """Unless it has acknowledged: then it never heard of the end either, and it is its own."""
    register(world, 1)
    acknowledge(world, 1, 5)
    assert register(world, 2).acknowledged_upto == 5
    if acknowledged:
        acknowledge(world, 2, NOTHING)
    end(world, 1)
    record = state(world.restarted()).receivers[SESSION]
    assert record.epoch == 2
    assert record.acknowledged_upto == (5 if acknowledged else NOTHING)


def test_an_end_is_remembered_where_the_receiver_was_not_known(world: World) -> None:
    end(world, 4)
    with pytest.raises(Fenced):
        register(world, 4)
    assert register(world, 5).known is False


def test_ends_go_with_their_source(world: World) -> None:
    end(world, 4)
    assert [each.epoch for each in knowledge_of(state(world), False).ended_receivers] == [4]
    end_for_good(world)
    after = world.restarted()
    assert ORDERS not in after.core.sources
    assert ORDERS in after.core.identities.ended


def test_ends_of_a_stream_that_ended_itself_are_forgotten(world: World) -> None:
    end(world, 4)
    world.write(receiver_tombstones.forget_all(state(world)))
    assert state(world.restarted()).ended == {}


# The fence that stays.


def test_a_receiver_without_a_row_begins_above_all_that_were_over(world: World) -> None:
    register(world, 3)
    end(world, 3)
    end(world, 2)
    for one in (world, world.restarted()):
        assert knowledge_of(state(one), False).spent_receiver_epoch == 3
        asked = one.receivers.look_up(ORDERS, SESSION + 1, 0)
        assert (asked.epoch, asked.ended_epoch) == (3, 0)
        with pytest.raises(Fenced) as caught:
            one.receivers.register(ORDERS, SESSION + 1, 0, 3)
        assert caught.value.promised == 3
        assert one.receivers.register(ORDERS, SESSION + 1, 0, 4).answer.ended_epoch == 0


def test_a_receiver_that_runs_goes_on_below_the_fence(world: World) -> None:
    world.done(world.receivers.register(ORDERS, SESSION + 1, 0, 1))
    end(world, 3)
    assert world.receivers.register(ORDERS, SESSION + 1, 0, 1).answer.known
    assert not world.receivers.register(ORDERS, SESSION + 2, 0, 1, is_open=True).answer.known


def test_it_stays_when_the_end_is_forgotten(world: World) -> None:
    end(world, 3)
    world.write(receiver_tombstones.forget_all(state(world)))
    assert known_epoch(world.restarted()) == 3


def test_one_whose_time_is_over_has_spent_its_epoch(world: World) -> None:
    register(world, 3)
    core = world.core
    world.write(core.identities.expire_receiver(state(world), SESSION, core.reg_ids))
    after = state(world.restarted())
    assert (after.receivers, after.ended) == ({}, {})
    assert after.registration.spent_receiver_epoch == 3


@pytest.mark.parametrize("restart", [False, True])
def test_it_stays_when_its_source_is_deleted_and_begins_anew(
    world: World, *, restart: bool
) -> None:
    """A receiver of the deleted stream may be frozen, and follow the new one."""
    register(world, 3)
    end_for_good(world)
    if restart:
        world = world.restarted()
    world.begin(Lineage((Term(9, 0),)))
    assert known_epoch(world) == 3
    assert state(world.restarted()).registration.spent_receiver_epoch == 3


def test_it_stays_where_a_store_hears_of_the_stream_that_begins_anew_first(world: World) -> None:
    register(world, 3)
    world.promise(5)
    lineage = Lineage((Term(5, 0),))
    world.done(world.core.begin(ORDERS, BeginRecord(lineage, MEMBERSHIP, 2), b"a", INCARNATION))
    assert not state(world).receivers
    assert known_epoch(world) == 3
    assert state(world.restarted()).registration.spent_receiver_epoch == 3


def test_the_highest_that_any_peer_tells_is_spent(world: World) -> None:
    told = [SourceKnowledge(spent_receiver_epoch=epoch) for epoch in (2, 5, 0)]
    assert receiver_tombstones.spent_epoch(told) == 5
    assert receiver_tombstones.spent_epoch(()) == 0
    assert receiver_tombstones.spend(state(world), 5) != []
    assert (
        receiver_tombstones.spend(state(world), 5)
        == receiver_tombstones.spend(state(world), 4)
        == []
    )


# What peers say.


def test_the_highest_end_counts_and_is_settled_if_all_say_so() -> None:
    def told(*known: EndedReceiver) -> dict[int, End]:
        return merged(SourceKnowledge(ended_receivers=(each,)) for each in known)

    assert told(ended(2), ended(3, settled=True)) == {SESSION: End(3, settled=True)}
    assert told(ended(3, settled=True), ended(3)) == {SESSION: End(3)}
    assert told(ended(3), ended(3, settled=True)) == {SESSION: End(3)}


def test_what_is_said_of_a_stream_that_is_over_ends_nobody() -> None:
    old = SourceKnowledge(begun=BeginRecord(Lineage((Term(2, 0),))), ended_receivers=(ended(9),))
    new = SourceKnowledge(
        begun=BeginRecord(Lineage((Term(4, 0),)), generation=3), ended_receivers=(ended(1),)
    )
    assert merged((old, new)) == {SESSION: End(1)}
    assert (
        merged((old, SourceKnowledge(begun=BeginRecord(Lineage((Term(3, 0),)), generation=3))))
        == {}
    )


def test_news_are_what_is_higher_and_not_settled_and_not_from_limbo(world: World) -> None:
    def heard(**more: Any) -> list[tuple[int, int]]:
        told = SourceKnowledge(
            begun=BeginRecord(Lineage((Term(1, 0),))), ended_receivers=(ended(3),)
        )
        return list(news(state(world), [rebegun(told, **more)]))

    assert heard() == [(SESSION, 3)]
    assert heard(limbo=True) == []
    assert heard(ended_receivers=(ended(3, settled=True),)) == []
    end(world, 3)
    assert heard() == []
    assert heard(ended_receivers=(ended(4),)) == [(SESSION, 4)]


# When they go.


def heard(asked: float = 1.0, limbo: bool = False, **known: object) -> Heard:
    knowledge = SourceKnowledge(begun=BeginRecord(Lineage((Term(1, 0),))), limbo=limbo, **known)  # type: ignore[arg-type]
    answer = PeerAnswer("b", "b:1", b"b", sources={ORDERS: knowledge})
    return Heard(answer, asked, asked, 0.0)


def step(mine: End, *peers: Heard, named: str = "bc") -> Step:
    said = {name: Said.of(ORDERS, each) for name, each in zip("bc", peers, strict=False)}
    return next_step(SESSION, mine, named, said, since=0.5)


def test_it_is_settled_when_all_remember_it_and_nobody_has_a_row() -> None:
    knows = heard(ended_receivers=(ended(3),))
    assert step(End(3), knows, knows) is Step.SETTLE
    assert step(End(3), knows) is Step.WAIT, "c is not heard"
    assert step(End(3), knows, heard()) is Step.WAIT, "c was not told"
    assert step(End(3), knows, heard(0.1, ended_receivers=(ended(3),))) is Step.WAIT, "too old"
    assert step(End(3), knows, heard(limbo=True, ended_receivers=(ended(3),))) is Step.WAIT
    old = ReceiverStatus(session_id=SESSION, epoch=4, confirmed_epoch=3, acknowledged_upto=7)
    assert step(End(3), knows, heard(receivers=(old,), ended_receivers=(ended(3),))) is Step.WAIT
    new = ReceiverStatus(session_id=SESSION, epoch=4, confirmed_epoch=4, acknowledged_upto=7)
    knows_new = heard(receivers=(new,), ended_receivers=(ended(3),))
    assert step(End(3), knows, knows_new) is Step.SETTLE
    assert step(End(3), named="") is Step.SETTLE, "there is nobody else"


def test_it_is_forgotten_when_nobody_tells_it_any_more() -> None:
    mine = End(3, settled=True)
    knows, forgot = heard(ended_receivers=(ended(3, settled=True),)), heard()
    assert step(mine, knows, forgot) is Step.FORGET
    assert step(mine, knows, heard(ended_receivers=(ended(3),))) is Step.WAIT
    assert step(mine, knows, heard(ended_receivers=(ended(4),))) is Step.FORGET


def test_who_has_nothing_of_the_source_is_not_waited_for() -> None:
    nothing = Heard(PeerAnswer("c", "c:1", b"c"), 1.0, 1.0, 0.0)
    knows = heard(ended_receivers=(ended(3),))
    assert step(End(3), knows, nothing) is Step.SETTLE
    in_limbo = replace(nothing, answer=replace(nothing.answer, limbo=True))
    assert step(End(3), knows, in_limbo) is Step.WAIT


class Peer:
    """A store of a small world, with its answers at hand."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.world = World()
        self.world.stream()
        self.forgetting = Forgetting()
        self.now = 0.0

    def answer(self, now: float) -> Heard:
        return Heard(
            PeerAnswer(self.name, self.name, b"", sources={ORDERS: self.knows()}), now, now, 0.0
        )

    def knows(self) -> SourceKnowledge:
        state = self.world.core.sources[ORDERS]
        return SourceKnowledge(
            begun=BeginRecord(Lineage((Term(1, 0),))),
            receivers=tuple(statuses(state)),
            ended_receivers=tuple(ended_receivers(state)),
        )


def test_every_store_forgets_in_the_end_and_never_one_that_others_still_tell() -> None:
    """Whatever the order in which they look around; c has an old row, and hears of the end last."""
    for order in product(range(3), repeat=6):
        peers = [Peer(name) for name in "abc"]
        register(peers[2].world, 1)
        acknowledge(peers[2].world, 1, NOTHING)
        for one in peers[:2]:
            end(one.world, 1)
        forgot: set[str] = set()
        for now, at in enumerate((*order, *(0, 1, 2) * 6), start=1):
            one, others = peers[at], [each for each in peers if each is not peers[at]]
            told = {each.name: each.answer(float(now)) for each in others}
            mine = one.world.core.sources[ORDERS]
            for session_id, epoch in list(news(mine, [each.knows() for each in others])):
                assert one.name not in forgot, "it hears of it again"
                core = one.world.core
                core.identities.end_receiver(mine, session_id, epoch, core.reg_ids)
            one.forgetting.look(mine, set(told), told, float(now) - 0.5, 100.0 * now)
            forgot = {each.name for each in peers[:2] if not each.world.core.sources[ORDERS].ended}
            if forgot:
                telling = [each for peer in peers for each in peer.knows().ended_receivers]
                assert all(each.settled for each in telling)
                assert not any(peer.knows().receivers for peer in peers)
        assert not any(peer.knows().ended_receivers for peer in peers)


def test_an_end_is_remembered_for_as_long_as_something_may_be_on_its_way() -> None:
    one, forgetting = World(), Forgetting()
    one.stream()
    end(one, 1)
    mine = one.core.sources[ORDERS]
    for observed in (0.0, 0.5, receiver_tombstones.REMEMBERED_SECONDS - 1):
        forgetting.look(mine, (), {}, 0.0, observed)
        assert mine.ended[SESSION].epoch == 1
    assert mine.ended[SESSION].settled
    assert one.core.sources[ORDERS].ended
    one.write(forgetting.look(mine, (), {}, 0.0, receiver_tombstones.REMEMBERED_SECONDS))
    assert mine.ended == {}
    assert one.restarted().core.sources[ORDERS].ended == {}


def test_an_end_is_kept_until_the_source_has_begun() -> None:
    """Before, nothing says which other stores may still have the receiver."""
    one, forgetting = World(), Forgetting()
    one.promise(1)
    end(one, 1)
    mine = one.core.sources[ORDERS]
    for observed in (0.0, 1.0, 2 * receiver_tombstones.REMEMBERED_SECONDS):
        assert forgetting.look(mine, (), {}, 0.0, observed) == []
    one.begin(FIRST_LINEAGE)
    assert mine.ended == {SESSION: End(1)}
    forgetting.look(mine, (), {}, 0.0, 200.0)
    forgetting.look(mine, (), {}, 0.0, 200.0 + receiver_tombstones.REMEMBERED_SECONDS)
    assert mine.ended == {}
