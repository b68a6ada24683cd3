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
    information,
)

from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    CorruptBatch,
    Fenced,
    InvalidArgument,
    NotRegistered,
    OutOfOrder,
    RegIdInUse,
    SourceActive,
    TopicRefused,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.wire import membership_to_wire
from quorate.store.rules.readmission import Adoption
from quorate.store.rules.source_state import Change
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.reader import read
from quorate.v1 import messages_pb2 as v1


@pytest.fixture
def world() -> World:
    return World()


def held(world: World) -> list[tuple[int, int, int]]:
    state = world.core.sources[ORDERS]
    return [(item.first, item.last, item.epoch) for item in state.held_by_epoch()]


def stored(world: World, first: int, last: int) -> list[tuple[int, int, bytes]]:
    """What a read of [first, last] gives, all of which must be held."""
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(first, last), 100)
    assert [item.problem for item in found if item.problem] == []
    return [(item.part.first, item.part.last, item.frame) for item in found]


# Promises.


def test_the_first_promise_assigns_a_reg_id_and_knows_nothing(world: World) -> None:
    promised = world.promise(1)
    assert promised.state.reg_id == 1
    assert (promised.registration.begun_epoch, promised.held, promised.stable_upto) == (
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
    assert stream.state.registration.begun_epoch == 2
    # Who opens may take over from whomever it likes.
    world.promise(3, b"c", take_over=True)


def test_one_that_was_open_goes_on_after_a_promise_that_came_to_nothing(world: World) -> None:
    world.stream()
    world.promise(2, b"b", take_over=True)
    promised = world.promise(3, b"a", decided_epoch=1)
    assert promised.registration.promised_to == b"a"


def test_one_that_was_open_is_not_kept_out_by_an_older_one_that_lives(world: World) -> None:
    world.stream()
    with pytest.raises(SourceActive):
        world.promise(2, b"b")
    assert world.promise(3, b"b", decided_epoch=2).registration.promised_to == b"b"


def test_epoch_zero_is_no_epoch(world: World) -> None:
    with pytest.raises(InvalidArgument, match="epoch"):
        world.promise(0)


def test_a_promise_tells_all_that_is_known(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 9), stable_upto=4)
    promised = world.promise(2)
    assert promised.held == (HeldRange(0, 9, 1),)
    assert promised.stable_upto == 4
    assert promised.registration.lineage == FIRST_LINEAGE
    assert promised.registration.begun_epoch == 1


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
    assert [(ending.stream, type(ending.error)) for ending in change.endings] == [(stream, Fenced)]
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
        world.core.begin(ORDERS, 3, lineage, MEMBERSHIP, b"a", INCARNATION)
    world.promise(3, b"b")
    with pytest.raises(NotRegistered, match="has not promised"):
        world.core.begin(ORDERS, 3, lineage, MEMBERSHIP, b"a", INCARNATION)
    world.promise(2, b"b", source=TRADES)
    with pytest.raises(NotRegistered, match="has not promised"):
        world.core.begin(TRADES, 3, lineage, MEMBERSHIP, b"b", INCARNATION)
    world.promise(3, b"b", source=TRADES)
    world.done(world.core.begin(TRADES, 3, lineage, MEMBERSHIP, b"b", INCARNATION))
    assert world.append(world.open(3, b"b", source=TRADES), batch(0, 0, 3, TRADES))


def test_who_dealt_with_another_incarnation_can_neither_begin_nor_send(world: World) -> None:
    """A copy of this directory may run beside it, and have promised in its place."""
    world.promise(1)
    with pytest.raises(NotRegistered, match="another incarnation"):
        world.core.begin(ORDERS, 1, FIRST_LINEAGE, MEMBERSHIP, b"a", b"another")
    world.begin(FIRST_LINEAGE)
    with pytest.raises(NotRegistered, match="another incarnation"):
        world.core.streams.open(information(), b"a", b"another", 0, NOTHING)
    assert world.core.sources[ORDERS].stream is None


def test_a_lineage_must_end_with_its_epoch(world: World) -> None:
    with pytest.raises(InvalidArgument, match="lineage"):
        world.core.begin(ORDERS, 2, FIRST_LINEAGE, MEMBERSHIP, b"a", INCARNATION)


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
    policy = v1.Policy(groups=[v1.Group(name="g", stores=["a"], rule=v1.INTRAGROUP_RULE_ALL)])
    membership = v1.Membership(to_policies=[policy])
    world.begin(FIRST_LINEAGE, membership=membership)
    assert world.restarted().core.sources[ORDERS].registration.membership == membership


def test_a_begin_that_was_on_its_way_for_long_takes_no_confirmation_back(world: World) -> None:
    """The stores that it came from may be switched off: no recovery may ask for them again."""
    world.stream()
    former, present = Policy.majority_of("abc"), Policy.majority_of("def")
    moving = Membership((former,), (present,))
    world.begin(FIRST_LINEAGE, membership=membership_to_wire(moving))
    confirmed = membership_to_wire(moving.confirmed())
    world.begin(FIRST_LINEAGE, membership=confirmed)
    world.begin(FIRST_LINEAGE, membership=membership_to_wire(moving))
    assert world.core.sources[ORDERS].registration.membership == confirmed
    assert world.restarted().core.sources[ORDERS].registration.membership == confirmed


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


# Streams.


def test_a_stream_needs_a_known_source_and_a_begun_epoch(world: World) -> None:
    with pytest.raises(NotRegistered, match="does not know"):
        world.open(1)
    world.promise(1)
    with pytest.raises(NotRegistered, match="not begun"):
        world.open(1)
    world.begin(FIRST_LINEAGE)
    world.open(1)
    world.promise(2)
    with pytest.raises(Fenced):
        world.open(1)
    with pytest.raises(NotRegistered):
        world.open(2)


def test_batches_in_order_are_held_and_indexed(world: World) -> None:
    stream = world.stream()
    for first in range(0, 12, 4):
        assert world.append(stream, batch(first, first + 3))
    assert held(world) == [(0, 11, 1)]
    assert [item[:2] for item in stored(world, 2, 9)] == [(2, 3), (4, 7), (8, 9)]
    assert world.core.streams.position == 3


def test_a_gap_is_refused_and_nothing_is_taken(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3))
    with pytest.raises(OutOfOrder) as caught:
        world.append(stream, batch(5, 6))
    assert (caught.value.expected, caught.value.first) == (4, 5)
    assert held(world) == [(0, 3, 1)]


@pytest.mark.parametrize("flip", [0, 5, 20, 45, 60])
def test_a_flipped_bit_is_refused_and_nothing_is_taken(world: World, flip: int) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3))
    frame = bytearray(batch(4, 7))
    frame[flip] ^= 0x10
    with pytest.raises(CorruptBatch):
        world.append(stream, bytes(frame))
    assert held(world) == [(0, 3, 1)]
    assert world.append(stream, batch(4, 7))


def test_a_cut_batch_is_refused(world: World) -> None:
    stream = world.stream()
    for length in (0, 10, len(batch(0, 3)) - 1):
        with pytest.raises(CorruptBatch):
            world.append(stream, batch(0, 3)[:length])
    assert held(world) == []


def test_a_batch_of_another_source_or_epoch_is_refused(world: World) -> None:
    stream = world.stream()
    with pytest.raises(InvalidArgument, match="trades"):
        world.append(stream, batch(0, 3, source=TRADES))
    with pytest.raises(InvalidArgument, match="epoch 2"):
        world.append(stream, batch(0, 3, epoch=2))
    assert held(world) == []


def test_a_batch_across_two_epochs_is_refused(world: World) -> None:
    world.promise(2)
    world.begin(Lineage((Term(1, 0), Term(2, 5))))
    stream = world.open(2)
    with pytest.raises(InvalidArgument, match="lineage names 2"):
        world.append(stream, batch(0, 9, 1))
    assert world.append(stream, batch(0, 4, 1))
    assert world.append(stream, batch(5, 9, 2))
    assert held(world) == [(0, 4, 1), (5, 9, 2)]


def test_duplicates_are_acknowledged_and_not_written(world: World) -> None:
    stream = world.stream()
    for first in (0, 4, 8):
        world.append(stream, batch(first, first + 3))
    assert not world.append(stream, batch(4, 7))
    assert not world.append(stream, batch(2, 9)), "the same content in other batches"
    assert stream.expected == 12
    assert world.core.streams.position == 3


def test_an_overlap_is_taken_where_it_is_new(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 7))
    assert world.append(stream, batch(4, 11))
    assert held(world) == [(0, 11, 1)]
    assert stored(world, 0, 11) == [(0, 7, batch(0, 7)), (8, 11, batch(4, 11))]
    assert [item[:2] for item in stored(world, 5, 9)] == [(5, 7), (8, 9)]


def test_another_key_is_other_content(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 7, key=b"key"))
    assert world.append(stream, batch(4, 11, key=b"key"))
    for key in (None, b"", b"other"):
        with pytest.raises(ContentConflict):
            world.append(world.stream(), batch(10, 12, key=key))
    assert held(world) == [(0, 11, 1)]


def test_other_content_is_a_conflict_and_nothing_is_taken(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3))
    world.append(stream, batch(4, 7))
    with pytest.raises(ContentConflict) as caught:
        world.append(stream, batch(2, 9, salt="other "))
    assert (caught.value.first, caught.value.last) == (2, 3)
    assert held(world) == [(0, 7, 1)]
    assert stored(world, 0, 7) == [(0, 3, batch(0, 3)), (4, 7, batch(4, 7))]


def test_a_reopened_stream_goes_on_where_the_store_lacks(world: World) -> None:
    world.append(world.stream(), batch(0, 9))
    assert world.open(retained_from=3).expected == 10
    assert world.restarted().open(retained_from=3).expected == 10


def test_what_the_source_no_longer_has_is_a_hole_if_it_is_stable(world: World) -> None:
    world.append(world.stream(), batch(0, 9))
    with pytest.raises(OutOfOrder):
        world.open(retained_from=20, stable_upto=18)
    stream = world.open(retained_from=20, stable_upto=19)
    assert stream.expected == 20
    world.append(stream, batch(20, 29))
    state = world.restarted().core.sources[ORDERS]
    assert state.holes() == [Range(10, 19)]
    assert held(world) == [(0, 9, 1), (20, 29, 1)]


def test_a_hole_that_the_source_still_has_is_filled_by_its_stream(world: World) -> None:
    world.append(world.stream(), batch(0, 9))
    world.append(world.open(retained_from=20, stable_upto=19), batch(20, 29))
    stream = world.open(retained_from=5)
    assert stream.expected == 10
    assert world.append(stream, batch(10, 19))
    assert not world.append(stream, batch(20, 29))
    assert world.append(stream, batch(30, 31))
    assert held(world) == [(0, 31, 1)]
    assert world.core.sources[ORDERS].holes() == []


def test_only_what_is_stable_and_next_is_skipped(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3), stable_upto=9)
    with pytest.raises(OutOfOrder):
        world.core.streams.skip(stream, 5, 6)
    with pytest.raises(InvalidArgument, match="not all stable"):
        world.core.streams.skip(stream, 4, 10)
    world.write(world.core.streams.skip(stream, 4, 9))
    world.append(stream, batch(10, 10))
    assert world.core.sources[ORDERS].holes() == [Range(4, 9)]


def test_stable_upto_only_grows_and_is_kept(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3), stable_upto=2)
    world.append(stream, batch(4, 7), stable_upto=1)
    world.write(world.core.streams.keepalive(stream, 5))
    assert world.core.streams.keepalive(stream, 4) == ()
    assert world.restarted().core.sources[ORDERS].held.stable_upto == 5


def test_information_only_gets_newer(world: World) -> None:
    stream = world.stream()
    world.write(world.core.streams.inform(stream, information(version=3)))
    assert world.core.streams.inform(stream, information(version=2)) == ()
    with pytest.raises(InvalidArgument):
        world.core.streams.inform(stream, information(TRADES, version=9))
    with pytest.raises(InvalidArgument):
        world.core.streams.inform(stream, information(epoch=2, version=9))
    found = world.restarted().core.sources[ORDERS].registration.information
    assert found is not None
    assert found.version == 3


def test_goodbye_is_remembered_until_the_source_returns(world: World) -> None:
    stream = world.stream()
    world.write(world.core.streams.goodbye(stream))
    world.write(world.core.streams.closed(stream))
    after = world.restarted()
    assert after.core.sources[ORDERS].registration.clean
    after.open(1)
    assert not after.core.sources[ORDERS].registration.clean


# Repair.


@pytest.fixture
def holed(world: World) -> World:
    """Holds [0, 9] and [30, 39]; all is stable."""
    world.append(world.stream(), batch(0, 9))
    world.append(world.open(retained_from=30, stable_upto=39), batch(30, 39))
    return world


def test_a_hole_is_filled_from_peers_batches_as_they_are(holed: World) -> None:
    # The peers' batches begin and end elsewhere.
    for first, last in ((5, 14), (15, 31)):
        assert holed.fill(batch(first, last), Range(10, 29)) == Range(max(first, 10), min(last, 29))
    assert held(holed) == [(0, 39, 1)]
    assert [item[:2] for item in stored(holed, 0, 39)] == [(0, 9), (10, 14), (15, 29), (30, 39)]


def test_a_batch_of_another_lineage_is_not_taken(holed: World) -> None:
    assert holed.fill(batch(10, 19, epoch=2), Range(10, 29)) is None
    assert holed.core.sources[ORDERS].holes() == [Range(10, 29)]


def test_a_batch_beside_the_hole_is_not_taken(holed: World) -> None:
    assert holed.fill(batch(0, 9), Range(10, 29)) is None


def test_a_peer_with_other_content_is_a_conflict(holed: World) -> None:
    with pytest.raises(ContentConflict):
        holed.fill(batch(5, 14, salt="other "), Range(10, 29))
    assert holed.core.sources[ORDERS].holes() == [Range(10, 29)]


def test_a_corrupt_batch_from_a_peer_is_not_taken(holed: World) -> None:
    with pytest.raises(CorruptBatch, match="from a peer"):
        holed.fill(batch(10, 19)[:-1] + b"?", Range(10, 29))
    with pytest.raises(InvalidArgument):
        holed.fill(batch(10, 19, source=TRADES), Range(10, 29))


def test_what_was_fetched_for_a_deleted_source_is_not_taken_for_the_one_after_it(
    holed: World,
) -> None:
    """It has the same name and may have the same epoch and numbers, but is another stream."""
    before = holed.core.sources[ORDERS]
    holed.core.remove(ORDERS, Closed("The source"))
    assert holed.core.streams.fill(before, batch(10, 19), Range(10, 29)) == Change(None)
    holed.stream()
    assert holed.core.streams.fill(before, batch(10, 19), Range(10, 29)) == Change(None)
    assert not holed.core.sources[ORDERS].held.ranges
    adoption = Adoption(1, b"a", lineage=before.lineage)
    assert holed.core.leave_limbo(before, adoption) == Change(False)


def test_a_batch_around_others_serves_the_numbers_between(world: World) -> None:
    world.append(world.stream(), batch(0, 1))
    world.append(world.open(retained_from=5, stable_upto=99), batch(5, 6))
    world.append(world.open(retained_from=20, stable_upto=99), batch(20, 21))
    world.fill(batch(2, 19), Range(2, 4))
    assert held(world) == [(0, 6, 1), (20, 21, 1)]
    world.fill(batch(2, 19), Range(7, 19))
    assert held(world) == [(0, 21, 1)]
    parts = [item[:2] for item in stored(world, 0, 21)]
    assert parts == [(0, 1), (2, 4), (5, 6), (7, 19), (20, 21)]
    assert [item[:2] for item in stored(world, 8, 9)] == [(8, 9)]


def test_a_good_copy_replaces_only_what_it_has(world: World) -> None:
    stream = world.stream()
    for first in (0, 10, 20):
        world.append(stream, batch(first, first + 9), stable_upto=first)
    rows = world.storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 9)
    world.write(Write(Table.JOURNAL, key, b"?") for key, _ in rows)
    assert world.append(stream, batch(5, 24))
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(0, 29), 9)
    assert [(item.part, bool(item.problem)) for item in found] == [
        (Range(0, 4), True),
        (Range(5, 24), False),
        (Range(25, 29), True),
    ]


def test_an_unreadable_batch_is_replaced_by_a_good_copy(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 9), stable_upto=9)
    (key, value), *_ = world.storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 1)
    world.write([Write(Table.JOURNAL, key, value[:-1] + b"?")])
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(0, 9), 9)
    assert [(item.part, item.frame) for item in found] == [(Range(0, 9), b"")]
    assert "checksum" in found[0].problem
    assert world.fill(batch(0, 9), Range(0, 9)) == Range(0, 9)
    assert stored(world, 0, 9) == [(0, 9, batch(0, 9))]


def test_what_the_index_lost_is_unreadable_not_absent(world: World) -> None:
    stream = world.stream()
    for first in (0, 10, 20):
        world.append(stream, batch(first, first + 9))
    rows = world.storage.scan(Table.INDEX, b"", b"\xff" * 16, 9)
    world.write(Write(Table.INDEX, key, None) for key, _ in rows[1:])
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(0, 29), 9)
    assert [(item.part, bool(item.problem)) for item in found] == [
        (Range(0, 9), False),
        (Range(10, 29), True),
    ]
    # The source sends it again: the good copy is taken.
    stream.expected = 30
    assert world.append(stream, batch(10, 19))
    assert world.append(stream, batch(20, 29))
    assert [item[:2] for item in stored(world, 0, 29)] == [(0, 9), (10, 19), (20, 29)]


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
