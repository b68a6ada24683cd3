"""What a store takes from an archive, and what it says meanwhile; over memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.begun import rebegun
from tests.store.ended import end
from tests.store.support import INCARNATION, ORDERS, TRADES, World, batch, information

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.errors import (
    BeingDeleted,
    ContentConflict,
    CorruptBatch,
    Fenced,
    InLimbo,
    InvalidArgument,
    NotRegistered,
    OtherHistory,
    RestoreRefused,
    TopicRefused,
)
from quorate.protocol.framing import encode_batch
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Decision, Lost, Marker, Promise, decide
from quorate.protocol.wire import (
    held_to_wire,
    lineage_to_wire,
    markers_to_wire,
    membership_to_wire,
    source_to_wire,
)
from quorate.store.rules import retention
from quorate.store.rules.acceptor import Promised
from quorate.store.rules.archive_restore import (
    RESTORING,
    History,
    Refill,
    close_refill,
    history_from_wire,
    lacking,
    open_refill,
    take,
)
from quorate.store.storage.reader import read
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

POLICY = Policy.majority_of(("s1", "s2", "s3"))
RECORD = Membership((POLICY,), (POLICY,))
LINEAGE = Lineage((Term(1, 0), Term(4, 50)))
HISTORY = History(ORDERS, BeginRecord(LINEAGE, RECORD), 0, 99, information=information(epoch=4))


def open_it(world: World, history: History = HISTORY) -> Refill:
    refill: Refill = world.done(open_refill(world.core, history))
    return refill


def fill(world: World, refill: Refill, *parts: tuple[int, int], salt: str = "") -> None:
    for first, last in parts:
        epoch = LINEAGE.epoch_at(first)
        frame = batch(first, last, epoch, salt=salt)
        world.done(take(world.core, refill, frame, first, last))


def restore(world: World, history: History = HISTORY) -> Refill:
    refill = open_it(world, history)
    fill(world, refill, (0, 49), (50, 99))
    assert world.done(close_refill(world.core, refill))
    return refill


def frames(world: World, first: int = 0, last: int = 99) -> list[bytes]:
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(first, last), 1000)
    assert [each.problem for each in found if each.problem] == []
    return [each.frame for each in found]


def as_promise(promised: Promised) -> Promise:
    """As a source hears it."""
    record = promised.registration
    return Promise(
        BeginRecord(
            record.begun.lineage, Membership((POLICY,), (POLICY,)) if record.begun.epoch else None
        ),
        promised.held,
        promised.stable_upto,
        bool(promised.limbo),
        promised.markers,
    )


@pytest.fixture
def world() -> World:
    return World()


# A source that the store does not know.


def test_an_unknown_source_comes_back_whole(world: World) -> None:
    restore(world)
    after = world.restarted()
    state = after.core.sources[ORDERS]
    record = state.registration
    assert (record.begun.epoch, record.promised_epoch, record.promised_to) == (4, 4, b"")
    assert (record.begun.lineage, record.begun.membership, record.taken_over) == (
        LINEAGE,
        RECORD,
        True,
    )
    assert record.information == information(epoch=4)
    assert (state.held.stable_upto, state.held.next_sequence, state.limbo) == (99, 100, "")
    assert state.held_by_epoch() == (HeldRange(0, 49, 1), HeldRange(50, 99, 4))
    assert frames(after) == [batch(0, 49, 1), batch(50, 99, 4)]


def test_it_goes_on_behind_the_archive_with_a_higher_epoch(world: World) -> None:
    restore(world)
    for epoch in (3, 4):
        with pytest.raises(Fenced):
            world.promise(epoch, b"z")
    promise = as_promise(world.promise(5, b"n"))
    nothing = Promise(NOT_BEGUN)
    decision = decide(POLICY, {"s1": promise, "s2": nothing})
    assert isinstance(decision, Decision)
    assert (decision.kept_upto, decision.floor) == (99, 99)
    lineage = decision.begun.lineage.extended(decision.kept_upto, 5)
    world.done(world.core.begin(ORDERS, BeginRecord(lineage, RECORD), b"n", INCARNATION))
    stream = world.open(5, b"n", retained_from=100, stable_upto=99)
    assert world.append(stream, batch(100, 109, 5))
    assert frames(world)[0] == batch(0, 49, 1)


def test_until_all_is_there_no_number_can_be_given_away(world: World) -> None:
    refill = open_it(world)
    fill(world, refill, (0, 49))
    assert not world.done(close_refill(world.core, refill))
    after = world.restarted()
    assert after.core.limbo_of(after.core.sources[ORDERS]) == RESTORING
    promised = after.promise(5, b"n")
    assert promised.registration.promised_epoch == 4, "in limbo nothing is promised"
    # The others of the group were founded anew: they vouch for having nothing.
    nothing = Promise(NOT_BEGUN)
    outcome = decide(POLICY, {"s1": as_promise(promised), "s2": nothing, "s3": nothing})
    assert outcome == Lost(Range(50, 99), ("s1",))
    with pytest.raises(InLimbo):
        after.core.begin(ORDERS, BeginRecord(LINEAGE, RECORD), b"z", INCARNATION)


def test_a_crash_leaves_what_running_it_again_completes(world: World) -> None:
    fill(world, open_it(world), (50, 99))
    after = world.restarted()
    refill = open_it(after)
    assert lacking(refill.state) == RangeSet([Range(0, 49)])
    fill(after, refill, (0, 49), (50, 99))
    assert after.done(close_refill(after.core, refill))
    assert frames(after) == [batch(0, 49, 1), batch(50, 99, 4)]
    position = after.core.streams.position
    restore(after)
    assert after.core.streams.position == position, "the third time nothing is written"
    assert not after.core.sources[ORDERS].limbo


def test_it_is_not_over_before_the_whole_history_is_there(world: World) -> None:
    """Also if a call ends that had less of it: several may run at the same time."""
    refill = open_it(world)
    open_it(world, rebegun(replace(HISTORY, first=0, last=49), lineage=Lineage((Term(1, 0),))))
    fill(world, refill, (0, 49))
    assert not world.done(close_refill(world.core, refill))
    assert world.core.sources[ORDERS].limbo == RESTORING


def test_what_was_promised_when_it_was_archived_stays_fenced(world: World) -> None:
    restore(world, replace(HISTORY, promised_epoch=9))
    record = world.core.sources[ORDERS].registration
    assert (record.promised_epoch, record.begun.epoch) == (9, 4)
    with pytest.raises(Fenced) as caught:
        world.promise(9, b"z")
    assert caught.value.promised == 9


def test_the_instance_that_had_the_epoch_can_not_go_on_without_asking(world: World) -> None:
    restore(world)
    with pytest.raises(NotRegistered):
        world.core.streams.open(information(epoch=4), b"a", INCARNATION, 100, 99)
    with pytest.raises(NotRegistered):
        world.core.begin(ORDERS, BeginRecord(LINEAGE, RECORD), b"a", INCARNATION)


def test_the_reg_id_is_the_same_again_if_it_is_free(world: World) -> None:
    assert open_it(world, replace(HISTORY, reg_id=77)).state.reg_id == 77
    other = open_it(world, replace(HISTORY, source=TRADES, information=None, reg_id=77))
    assert other.state.reg_id not in (0, 77)


def test_markers_come_back_with_their_batches(world: World) -> None:
    frame = encode_batch(ORDERS, 1, 0, [b"x"] * 100, 5, b"job 7")
    history = rebegun(HISTORY, lineage=Lineage((Term(1, 0),)))
    refill = open_it(world, history)
    world.done(take(world.core, refill, frame, 0, 99))
    world.done(close_refill(world.core, refill))
    promised = world.restarted().promise(5)
    assert [(each.sequence, each.epoch, each.value) for each in promised.markers] == [
        (99, 1, b"job 7")
    ]


def test_a_topic_that_is_not_admitted_is_refused() -> None:
    world = World(topics=("quotes",))
    with pytest.raises(TopicRefused):
        open_refill(world.core, HISTORY)
    assert not world.core.sources


def test_a_store_in_limbo_takes_no_history(world: World) -> None:
    world.done(world.core.enter_limbo("its disk was put back", b"new"))
    with pytest.raises(RestoreRefused, match="put back"):
        open_refill(world.core, HISTORY)


def test_a_source_in_limbo_for_another_reason_takes_none(world: World) -> None:
    refill = open_it(world)
    world.write(refill.state.enter_limbo("its host went down"))
    with pytest.raises(RestoreRefused, match="went down"):
        open_refill(world.core, HISTORY)
    with pytest.raises(RestoreRefused, match="went down"):
        take(world.core, refill, batch(0, 49), 0, 49)
    assert not world.done(close_refill(world.core, refill))
    assert refill.state.limbo == "its host went down"


def test_what_is_being_deleted_is_refused(world: World) -> None:
    world.stream()
    end(world)
    with pytest.raises(BeingDeleted):
        open_refill(world.core, HISTORY)


def test_what_is_deleted_while_it_is_restored_takes_nothing_more(world: World) -> None:
    refill = open_it(world)
    world.core.remove(ORDERS, NotRegistered("orders", "it ends"))
    with pytest.raises(BeingDeleted):
        take(world.core, refill, batch(0, 49), 0, 49)


# A source that has been promised something, but never began.


def test_whoever_was_promised_more_must_ask_again(world: World) -> None:
    world.promise(9, b"n")
    restore(world)
    record = world.core.sources[ORDERS].registration
    assert (record.promised_epoch, record.begun.epoch) == (9, 4)
    # What it was answered, that there is nothing, is not true any more.
    with pytest.raises(NotRegistered):
        world.core.begin(ORDERS, BeginRecord(Lineage((Term(9, 0),)), RECORD), b"n", INCARNATION)
    promised = world.promise(9, b"n")
    assert (promised.stable_upto, promised.limbo) == (99, "")
    world.done(
        world.core.begin(ORDERS, BeginRecord(LINEAGE.extended(99, 9), RECORD), b"n", INCARNATION)
    )
    assert world.core.sources[ORDERS].held.ranges == RangeSet([Range(0, 99)])


def test_also_if_all_of_it_is_lost(world: World) -> None:
    """Then there is nothing to wait for, but what was answered is not true any more, either."""
    world.promise(9, b"n")
    state = open_it(world, replace(HISTORY, losses=LINEAGE.parted(RangeSet([Range(0, 99)])))).state
    assert (state.limbo, state.held.stable_upto) == ("", 99)
    with pytest.raises(NotRegistered):
        world.core.begin(ORDERS, BeginRecord(Lineage((Term(9, 0),)), RECORD), b"n", INCARNATION)


def test_a_promise_of_the_archived_epoch_is_nobodys(world: World) -> None:
    world.promise(4, b"n")
    restore(world)
    with pytest.raises(Fenced):
        world.promise(4, b"n")


# A source that the store knows.


def known(world: World, last: int = 99, stable_upto: int = 99) -> None:
    """The history, as far as `last`, from the source itself."""
    stream = world.stream()
    world.append(stream, batch(0, 49), min(stable_upto, 49))
    world.done(world.core.promise(ORDERS, 4, b"n", 0, True))
    world.done(world.core.begin(ORDERS, BeginRecord(LINEAGE, RECORD), b"n", INCARNATION))
    stream = world.open(4, b"n", retained_from=50)
    if last >= 50:
        world.append(stream, batch(50, last, 4), stable_upto)
    world.write(world.core.streams.keepalive(stream, stable_upto))
    world.write(world.core.streams.closed(stream))


def test_what_agrees_is_left_as_it_is(world: World) -> None:
    known(world)
    before = replace(world.core.sources[ORDERS].registration)
    position = world.core.streams.position
    restore(world)
    assert world.core.sources[ORDERS].registration == before
    assert world.core.streams.position == position


def test_other_content_is_a_conflict_and_nothing_is_overwritten(world: World) -> None:
    known(world)
    refill = open_it(world)
    with pytest.raises(ContentConflict) as caught:
        fill(world, refill, (50, 99), salt="other ")
    assert (caught.value.first, caught.value.last) == (50, 99)
    assert frames(world) == [batch(0, 49, 1), batch(50, 99, 4)]


def test_only_what_lacks_is_written(world: World) -> None:
    known(world)
    state = world.core.sources[ORDERS]
    world.write(state.found_unreadable(0, 49))
    refill = open_it(world)
    assert lacking(state) == RangeSet([Range(0, 49)])
    assert not state.limbo, "that it was stable the store knew, and knows"
    fill(world, refill, (0, 49), (50, 99))
    assert not lacking(state)


def test_a_store_that_did_not_know_how_far_it_is_stable_learns_it(world: World) -> None:
    """Its tail was stable: no later epoch may give these numbers away."""
    known(world, last=69, stable_upto=59)
    refill = open_it(world)
    state = world.core.sources[ORDERS]
    assert (state.limbo, state.held.stable_upto) == (RESTORING, 99)
    fill(world, refill, (50, 99))
    assert world.done(close_refill(world.core, refill))
    assert state.held.ranges == RangeSet([Range(0, 99)])
    # Who had decided from what was here before must look again.
    with pytest.raises(NotRegistered):
        world.core.streams.open(information(epoch=4), b"n", INCARNATION, 70, 69)
    assert world.promise(4, b"n").stable_upto == 99


def test_nothing_is_given_to_a_source_that_streams_above_what_is_stable(world: World) -> None:
    known(world, last=69, stable_upto=59)
    world.promise(5, b"m")
    world.done(
        world.core.begin(ORDERS, BeginRecord(LINEAGE.extended(69, 5), RECORD), b"m", INCARNATION)
    )
    stream = world.open(5, b"m", retained_from=70, stable_upto=59)
    history = replace(HISTORY, last=69)
    refill = open_it(world, history)
    state = world.core.sources[ORDERS]
    assert refill.upto == 59
    assert (state.live, state.limbo, state.held.stable_upto) == (True, "", 59)
    assert world.append(stream, batch(70, 79, 5))


def test_a_history_that_went_on_otherwise_is_refused(world: World) -> None:
    stream = world.stream(epoch=6)
    world.append(stream, batch(0, 9, 6))
    world.write(world.core.streams.closed(stream))
    with pytest.raises(OtherHistory) as caught:
        open_refill(world.core, HISTORY)
    assert (caught.value.first, caught.value.epoch, caught.value.archived_epoch) == (0, 6, 1)
    state = world.core.sources[ORDERS]
    assert (state.held.stable_upto, state.limbo) == (NOTHING, "")


def test_an_archive_can_not_take_back_what_is_stable(world: World) -> None:
    """A store that knows less epochs, but that more of the old one is stable."""
    stream = world.stream()
    world.append(stream, batch(0, 59), 55)
    world.write(world.core.streams.closed(stream))
    with pytest.raises(OtherHistory) as caught:
        open_refill(world.core, HISTORY)
    assert caught.value.first == 50


def test_an_epoch_that_the_store_missed_is_taken_from_the_archive(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 59), 40)
    with pytest.raises(OtherHistory):
        open_refill(world.core, HISTORY)  # it streams
    world.write(world.core.streams.closed(stream))
    refill = open_it(world)
    state = world.core.sources[ORDERS]
    assert (state.lineage, state.held.set_aside) == (LINEAGE, 10)
    fill(world, refill, (0, 49), (50, 99))
    assert world.done(close_refill(world.core, refill))
    assert frames(world) == [batch(0, 59), batch(50, 99, 4)]


def test_a_newer_epoch_is_not_disturbed(world: World) -> None:
    known(world)
    world.promise(7, b"m")
    world.done(
        world.core.begin(ORDERS, BeginRecord(LINEAGE.extended(99, 7), RECORD), b"m", INCARNATION)
    )
    stream = world.open(7, b"m", retained_from=100, stable_upto=99)
    restore(world)
    assert world.append(stream, batch(100, 109, 7), 109)
    assert world.core.sources[ORDERS].registration.begun.epoch == 7


# What lacks in the archive itself.


def test_what_is_below_the_archive_need_not_be_had_by_anybody(world: World) -> None:
    history = replace(HISTORY, first=50)
    below = Marker(30, 1, b"job 7")
    refill = open_it(world, replace(history, markers=(below,)))
    assert lacking(refill.state) == RangeSet([Range(50, 99)])
    fill(world, refill, (50, 99))
    assert world.done(close_refill(world.core, refill))
    promised = world.restarted().promise(5)
    assert promised.state.held.retained_from == 50
    assert promised.markers == (below,)


def test_what_the_store_let_go_on_purpose_is_not_lacking(world: World) -> None:
    known(world)
    state = world.core.sources[ORDERS]
    world.write(retention.take_over(world.storage, state, 50))
    state.held.ranges.remove(0, 49)
    assert not lacking(open_it(world).state)


def test_what_an_operator_accepted_as_lost_need_not_either(world: World) -> None:
    history = replace(HISTORY, losses=(HeldRange(20, 29, 1),))
    refill = open_it(world, history)
    assert lacking(refill.state, refill.losses) == RangeSet([Range(0, 19), Range(30, 99)])


# What is not a history.


def test_batches_of_another_lineage_source_or_checksum_are_refused(world: World) -> None:
    refill = open_it(world)
    with pytest.raises(InvalidArgument, match="lineage"):
        take(world.core, refill, batch(0, 49, 4), 0, 49)
    with pytest.raises(InvalidArgument, match="trades"):
        take(world.core, refill, batch(0, 49, source=TRADES), 0, 49)
    with pytest.raises(CorruptBatch):
        take(world.core, refill, batch(0, 49)[:-1] + b"?", 0, 49)
    assert not refill.state.held.ranges


def wire(**fields: object) -> store_v1.RestoreOpen:
    values: dict[str, object] = {
        "source": source_to_wire(ORDERS),
        "lineage": lineage_to_wire(LINEAGE),
        "membership": membership_to_wire(RECORD),
        "first": 0,
        "last": 99,
        "protocol_version": PROTOCOL_VERSION,
    }
    return store_v1.RestoreOpen(**(values | fields))  # type: ignore[arg-type]


def test_the_history_crosses_the_wire() -> None:
    made = wire(
        accepted_losses=held_to_wire((HeldRange(1, 2, 1),)),
        information=information(epoch=4),
        promised_epoch=8,
        reg_id=3,
        markers=markers_to_wire((Marker(5, 1, b"m"),)),
    )
    assert history_from_wire(made) == History(
        ORDERS,
        BeginRecord(LINEAGE, RECORD),
        0,
        99,
        (HeldRange(1, 2, 1),),
        information(epoch=4),
        8,
        3,
        (Marker(5, 1, b"m"),),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"first": 5, "last": 4},
        {"first": -1},
        {"lineage": []},
        {"last": 49},
        {"lineage": lineage_to_wire(Lineage((Term(1, 5),)))},
        {"membership": v1.Membership()},
        {"information": information(TRADES)},
        {"source": v1.SourceName(topic="", session_id=1)},
    ],
    ids=str,
)
def test_what_can_not_be_a_history_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        history_from_wire(wire(**fields))
