from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.store.support import (
    FIRST_LINEAGE,
    INCARNATION,
    MEMBERSHIP,
    ORDERS,
    TRADES,
    World,
    batch,
    held,
    information,
    stored,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    EpochTooFar,
    Fenced,
    InvalidArgument,
    NotRegistered,
    RegIdInUse,
    SourceActive,
    TakenOver,
    TopicRefused,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import EPOCH_STEP_MAX, NOTHING
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.policy import Group, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store.storage.interface import (
    Table,
)


@pytest.fixture
def world() -> World:
    return World()


# Promises.


def test_the_first_promise_assigns_a_reg_id_and_knows_nothing(world: World) -> None:
    promised = world.promise(1)
    assert promised.state.reg_id == 1
    assert (promised.registration.begun.epoch, promised.held, promised.stable_upto) == (
        0,
        (),
        NOTHING,
    )


def test_a_promise_is_written_before_it_is_answered(world: World) -> None:
    change = world.core.promise(ORDERS, 5, b"a", 0, False)
    assert {write.table for write in change.writes} == {Table.REGISTRATIONS, Table.HELD}


def test_no_promise_to_the_same_or_a_lower_epoch(world: World) -> None:
    world.promise(5)
    for epoch, instance in ((5, b"b"), (4, b"b"), (4, b"a")):
        with pytest.raises(Fenced) as caught:
            world.promise(epoch, instance)
        assert caught.value.promised == 5


def test_the_same_instance_is_granted_the_same_epoch_again(world: World) -> None:
    world.promise(5)
    assert world.promise(5).state.reg_id == 1


def test_the_same_instance_is_granted_its_epoch_again_after_a_restart(world: World) -> None:
    world.promise(5)
    after = world.restarted()
    assert after.promise(5).state.reg_id == 1
    with pytest.raises(Fenced):
        after.promise(5, b"b")


def test_one_that_was_open_is_refused_where_another_has_begun_since(world: World) -> None:
    stream = world.stream()
    world.promise(2, b"b", take_over=True)
    world.begin(FIRST_LINEAGE.extended(NOTHING, 2))
    with pytest.raises(Fenced) as caught:
        world.promise(3, b"a", take_over=True, decided_epoch=1)
    assert (caught.value.epoch, caught.value.promised) == (3, 2)
    assert world.core.sources[ORDERS].registration.promised_to == b"b"
    assert stream.state.registration.begun.epoch == 2
    # Who opens may take over from whomever it likes.
    world.promise(3, b"c", take_over=True)


def test_one_that_was_open_is_refused_where_another_takes_over(world: World) -> None:
    stream = world.stream()
    world.promise(2, b"b", take_over=True)
    with pytest.raises(TakenOver):
        world.append(stream, batch(0, 9))
    # It registers anew, also at a store that was restarted since.
    for each in (world, world.restarted()):
        with pytest.raises(TakenOver) as caught:
            each.promise(3, b"a", take_over=True, decided_epoch=1)
        assert caught.value.promised == 2
    # The one that takes over may ask for more, and is told of no take-over by itself.
    assert world.promise(3, b"b").registration.by_take_over
    assert world.promise(4, b"b", decided_epoch=3).registration.by_take_over


def test_one_that_was_open_and_takes_its_identity_back_takes_over_from_nobody(
    world: World,
) -> None:
    world.stream()
    world.core.sources[ORDERS].stream = None
    world.promise(2, b"b")
    assert not world.promise(3, b"a", take_over=True, decided_epoch=1).registration.by_take_over


def test_one_that_was_open_goes_on_after_a_promise_that_came_to_nothing(world: World) -> None:
    world.stream()
    world.core.sources[ORDERS].stream = None
    world.promise(2, b"b")
    promised = world.promise(3, b"a", decided_epoch=1)
    assert promised.registration.promised_to == b"a"


def test_one_that_was_open_is_not_kept_out_by_an_older_one_that_lives(world: World) -> None:
    world.stream()
    with pytest.raises(SourceActive):
        world.promise(2, b"b")
    assert world.promise(3, b"b", decided_epoch=2).registration.promised_to == b"b"


def test_no_promise_leaves_the_next_instance_without_an_epoch(world: World) -> None:
    for known in (0, EPOCH_STEP_MAX, 2 * EPOCH_STEP_MAX):
        with pytest.raises(EpochTooFar) as caught:
            world.promise(known + EPOCH_STEP_MAX + 1, take_over=True)
        assert caught.value.admitted == known + EPOCH_STEP_MAX
        world.promise(known + EPOCH_STEP_MAX, take_over=True)


def test_a_store_in_limbo_promises_nothing_and_so_refuses_no_epoch(world: World) -> None:
    world.promise(1)
    world.core.sources[ORDERS].limbo = "wiped"
    assert world.promise(2**63).limbo


def test_no_stream_is_of_a_generation_above_its_begin(world: World) -> None:
    world.promise(1)
    with pytest.raises(InvalidArgument, match="generation"):
        world.core.begin(ORDERS, BeginRecord(FIRST_LINEAGE, MEMBERSHIP, 2), b"a", INCARNATION)


def test_epoch_zero_is_no_epoch(world: World) -> None:
    with pytest.raises(InvalidArgument, match="epoch"):
        world.promise(0)


def test_a_promise_tells_all_that_is_known(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 9), stable_upto=4)
    promised = world.promise(2)
    assert promised.held == (HeldRange(0, 9, 1),)
    assert promised.stable_upto == 4
    assert promised.registration.begun.lineage == FIRST_LINEAGE
    assert promised.registration.begun.epoch == 1


def test_a_store_that_cannot_read_what_it_had_does_not_vouch_in_its_promise(world: World) -> None:
    world.append(world.stream(), batch(0, 9))
    world.write(world.core.sources[ORDERS].found_unreadable(3, 4))
    for each in (world, world.restarted()):
        assert "cannot read" in each.promise(2, b"b", take_over=True).limbo


def test_topics_are_admitted_by_pattern() -> None:
    world = World(topics=("order.*", "quotes"))
    world.promise(1)
    with pytest.raises(TopicRefused, match=r"order\.\*, quotes"):
        world.promise(1, source=TRADES)
    with pytest.raises(TopicRefused):
        world.begin(FIRST_LINEAGE, TRADES)
    assert list(world.core.sources) == [ORDERS]


# RegIDs.


def test_a_chosen_reg_id_is_taken(world: World) -> None:
    assert world.promise(1, reg_id=77).state.reg_id == 77
    assert world.promise(1, source=TRADES).state.reg_id == 1


def test_a_reg_id_of_another_identity_is_refused(world: World) -> None:
    world.promise(1, reg_id=77)
    with pytest.raises(RegIdInUse) as caught:
        world.promise(1, source=TRADES, reg_id=77)
    assert "source orders/0x10" in str(caught.value)
    assert TRADES not in world.core.sources


def test_an_identity_keeps_its_reg_id(world: World) -> None:
    world.promise(1, reg_id=77)
    assert world.promise(2, reg_id=78).state.reg_id == 77
    world.promise(1, source=TRADES, reg_id=79)
    with pytest.raises(RegIdInUse, match="trades"):
        world.promise(3, reg_id=79)
    assert world.promise(3, reg_id=77).state.reg_id == 77


def test_reg_ids_survive_a_restart(world: World) -> None:
    world.promise(1, reg_id=1)
    world.done(world.receivers.register(ORDERS, 0x20, 2, 1))
    after = world.restarted()
    assert after.promise(1, source=TRADES).state.reg_id == 3
    with pytest.raises(RegIdInUse, match="receiver 0x20"):
        after.promise(1, source=SourceName("other", 1), reg_id=2)


# Two sources with one identity.


def test_a_live_source_keeps_others_away(world: World) -> None:
    world.stream()
    with pytest.raises(SourceActive):
        world.promise(2, b"b")
    assert world.promise(2, b"a").registration.promised_epoch == 2


def test_taking_over_ends_the_live_stream_at_once(world: World) -> None:
    stream = world.stream()
    change = world.core.promise(ORDERS, 2, b"b", 0, True)
    assert [(ending.stream, type(ending.error)) for ending in change.endings] == [
        (stream, TakenOver)
    ]
    assert not world.core.sources[ORDERS].live
    with pytest.raises(Fenced) as caught:
        world.append(stream, batch(0, 0))
    assert caught.value.promised == 2


def test_a_fenced_stream_changes_nothing(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 4))
    world.promise(2, b"b", take_over=True)
    attempts: list[Callable[[], object]] = [
        lambda: world.core.streams.append(stream, batch(5, 5), 4),
        lambda: world.core.streams.append_held(stream, batch(0, 4)),
        lambda: world.core.streams.keepalive(stream, 4),
        lambda: world.core.streams.skip(stream, 5, 5),
        lambda: world.core.streams.inform(stream, information(version=9)),
        lambda: world.core.streams.goodbye(stream),
    ]
    for attempt in attempts:
        with pytest.raises(Fenced):
            attempt()
    state = world.core.sources[ORDERS]
    assert (held(world), state.held.stable_upto) == ([(0, 4, 1)], NOTHING)
    assert world.core.streams.closed(stream) == ()


def test_a_second_stream_of_one_instance_ends_the_first(world: World) -> None:
    first = world.stream()
    change = world.core.streams.open(information(), b"a", INCARNATION, 0, NOTHING)
    assert [(ending.stream, type(ending.error)) for ending in change.endings] == [(first, Closed)]
    with pytest.raises(Closed):
        world.append(first, batch(0, 0))
    world.core.streams.closed(first)
    assert world.core.sources[ORDERS].live
    assert world.append(change.answer.stream, batch(0, 0))


def test_another_instance_can_not_use_an_epoch_that_was_promised_to_one(world: World) -> None:
    world.promise(1, b"a")
    world.begin(FIRST_LINEAGE)
    with pytest.raises(Fenced):
        world.open(1, b"b")


# Begin.


def test_begin_of_a_fenced_epoch_is_refused(world: World) -> None:
    world.promise(3)
    with pytest.raises(Fenced) as caught:
        world.begin(Lineage((Term(2, 0),)))
    assert caught.value.promised == 3


def test_begin_without_a_promise_is_refused(world: World) -> None:
    """What it promised may have been to a source that no other store knows."""
    lineage = Lineage((Term(3, 0),))
    with pytest.raises(NotRegistered, match="has not promised"):
        world.core.begin(ORDERS, BeginRecord(lineage, MEMBERSHIP), b"a", INCARNATION)
    world.promise(3, b"b")
    with pytest.raises(NotRegistered, match="has not promised"):
        world.core.begin(ORDERS, BeginRecord(lineage, MEMBERSHIP), b"a", INCARNATION)
    world.promise(2, b"b", source=TRADES)
    with pytest.raises(NotRegistered, match="has not promised"):
        world.core.begin(TRADES, BeginRecord(lineage, MEMBERSHIP), b"b", INCARNATION)
    world.promise(3, b"b", source=TRADES)
    world.done(world.core.begin(TRADES, BeginRecord(lineage, MEMBERSHIP), b"b", INCARNATION))
    assert world.append(world.open(3, b"b", source=TRADES), batch(0, 0, 3, TRADES))


def test_who_dealt_with_another_incarnation_can_neither_begin_nor_send(world: World) -> None:
    """A copy of this directory may run beside it, and have promised in its place."""
    world.promise(1)
    with pytest.raises(NotRegistered, match="another incarnation"):
        world.core.begin(ORDERS, BeginRecord(FIRST_LINEAGE, MEMBERSHIP), b"a", b"another")
    world.begin(FIRST_LINEAGE)
    with pytest.raises(NotRegistered, match="another incarnation"):
        world.core.streams.open(information(), b"a", b"another", 0, NOTHING)
    assert world.core.sources[ORDERS].stream is None


def test_a_begin_names_its_epoch(world: World) -> None:
    with pytest.raises(InvalidArgument, match="names no epoch"):
        world.core.begin(ORDERS, BeginRecord(NO_LINEAGE, MEMBERSHIP), b"a", INCARNATION)


def test_begin_again_changes_nothing(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 4))
    assert world.begin(FIRST_LINEAGE) == 0
    assert held(world) == [(0, 4, 1)]
    assert world.append(stream, batch(5, 5))


def test_begin_again_with_another_lineage_is_refused(world: World) -> None:
    world.stream()
    with pytest.raises(InvalidArgument, match="another one"):
        world.begin(Lineage((Term(1, 3),)))


def test_begin_again_confirms_a_membership(world: World) -> None:
    world.stream()
    membership = Membership((), (Policy((Group("g", ("a",), IntragroupRule.ALL),)),))
    world.begin(FIRST_LINEAGE, membership=membership)
    assert world.restarted().core.sources[ORDERS].registration.begun.membership == membership


def test_a_begin_that_was_on_its_way_for_long_takes_no_confirmation_back(world: World) -> None:
    """The stores that it came from may be switched off: no recovery may ask for them again."""
    world.stream()
    former, present = Policy.majority_of("abc"), Policy.majority_of("def")
    moving = Membership((former,), (present,))
    world.begin(FIRST_LINEAGE, membership=moving)
    confirmed = moving.confirmed()
    world.begin(FIRST_LINEAGE, membership=confirmed)
    world.begin(FIRST_LINEAGE, membership=moving)
    assert world.core.sources[ORDERS].registration.begun.membership == confirmed
    assert world.restarted().core.sources[ORDERS].registration.begun.membership == confirmed


def test_begin_sets_aside_what_the_lineage_does_not_keep(world: World) -> None:
    stream = world.stream()
    for first in range(0, 30, 10):
        world.append(stream, batch(first, first + 9))
    world.promise(2)
    # 14 is in the middle of a batch.
    assert world.begin(Lineage((Term(1, 0), Term(2, 15)))) == 15
    assert held(world) == [(0, 14, 1)]
    assert stored(world, 0, 14) == [(0, 9, batch(0, 9)), (10, 14, batch(10, 19))]
    assert len(world.storage.scan(Table.SET_ASIDE, b"", b"\xff" * 24, 99)) == 2

    after = world.restarted()
    assert after.core.sources[ORDERS].held.set_aside == 15
    stream = after.open(2, retained_from=0)
    assert stream.expected == 15
    after.append(stream, batch(15, 24, 2, salt="other "))
    assert held(after) == [(0, 14, 1), (15, 24, 2)]
    assert stored(after, 12, 17) == [
        (12, 14, batch(10, 19)),
        (15, 17, batch(15, 24, 2, salt="other ")),
    ]


def test_an_epoch_that_the_lineage_leaves_out_is_void(world: World) -> None:
    world.append(world.stream(), batch(0, 9))
    world.promise(2)
    world.begin(Lineage((Term(1, 0), Term(2, 5))))
    world.append(world.open(2), batch(5, 8, 2))
    # Epoch 3 was decided by stores that never heard of epoch 2.
    world.promise(3)
    assert world.begin(Lineage((Term(1, 0), Term(3, 10)))) == 4
    assert held(world) == [(0, 4, 1)]
    # What the kept lineage has there comes like any other batch.
    stream = world.open(3)
    assert stream.expected == 5
    world.append(stream, batch(5, 9))
    world.append(stream, batch(10, 10, 3))
    assert held(world) == [(0, 9, 1), (10, 10, 3)]


def test_nothing_that_is_stable_is_ever_set_aside(world: World) -> None:
    world.append(world.stream(), batch(0, 9), stable_upto=6)
    world.promise(2)
    with pytest.raises(ContentConflict):
        world.begin(Lineage((Term(1, 0), Term(2, 6))))
    assert held(world) == [(0, 9, 1)]
    assert world.begin(Lineage((Term(1, 0), Term(2, 7)))) == 3


# A restart.


def test_a_restart_knows_all(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 9), stable_upto=3)
    world.append(world.stream(source=TRADES), batch(0, 0, source=TRADES))
    after = world.restarted()
    assert after.core.streams.position == 2
    for source in (ORDERS, TRADES):
        before, now = world.core.sources[source], after.core.sources[source]
        assert now.registration == before.registration
        assert now.held == before.held
        assert now.reg_id == before.reg_id
        assert not now.live
    assert after.core.sources[ORDERS].held.ranges == RangeSet([Range(0, 9)])
