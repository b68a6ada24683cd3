"""The core played by hand: registration and streaming."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.source.core_support import (
    DOWN,
    FSYNC,
    NAME,
    POLICY,
    batch,
    begin,
    earlier,
    frames,
    kept,
    may_take,
    new,
    opened,
    payloads,
    promise,
    registered,
    resumed,
    send,
    streams,
    the,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    Fenced,
    InLimbo,
    NotRegistered,
    QuorateError,
)
from quorate.protocol.framing import check_batch
from quorate.protocol.identity import StoreAddress
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, IntergroupRule, Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Promise
from quorate.source import events
from quorate.source.options import FlightBehaviour, SourceOptions, StabilityEvents
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.registration import (
    AskPromise,
    Hold,
    OpenStream,
)
from quorate.v1.messages_pb2 import Frame

# -- registration ---------------------------------------------------------------------------


def test_messages_are_accepted_once_enough_stores_take_the_stream() -> None:
    core = new()
    assert isinstance(core.refusal(), NotRegistered)
    promise(core, dict.fromkeys("abc", Promise()))
    begin(core, "abc")
    assert core.step("a") == OpenStream(1)
    opened(core, "a", core.epoch, 0, FSYNC, 0.0)
    opened(core, "b", core.epoch, 0, FSYNC, 0.0)
    # The third has promised: it is worth a moment.
    assert not core.complete
    opened(core, "c", core.epoch, 0, FSYNC, 0.0)
    assert core.refusal() is None
    complete = the(core, events.RegistrationComplete)
    assert complete == [events.RegistrationComplete(0, 1, ("a", "b", "c"), (), ("stores",))]
    told = the(core, events.RegistrationSucceeded)
    assert [event.store for event in told] == ["a", "b", "c"]
    assert [event.newest for event in told] == [-1, -1, -1], "they had nothing"


def test_a_store_that_promises_and_hangs_is_not_waited_for_long() -> None:
    core = new()
    promise(core, dict.fromkeys("abc", Promise()))
    begin(core, "ab")
    opened(core, "a", core.epoch, 0, FSYNC, 1.0)
    opened(core, "b", core.epoch, 0, FSYNC, 1.0)
    core.tick(2.9)
    assert not core.complete
    core.tick(3.0)
    assert the(core, events.RegistrationComplete)[0].missing == ("c",)


def test_what_a_quorum_holds_after_begin_is_stable_without_sending_it_again() -> None:
    core = resumed(dict.fromkeys("ab", earlier(9)))
    assert core.stable_upto == 9
    assert core.step("a") == OpenStream(2)
    assert core.window.next_sequence == 10
    assert core.retention.first == 10


def test_what_stores_hold_counts_once_they_have_begun() -> None:
    core = new()
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, dict.fromkeys("abc", earlier(9, stable_upto=3)))
    begin(core, "a", 5.0)
    assert core.stable_upto == 3
    begin(core, "b", 5.0)
    assert core.stable_upto == 9


def test_what_was_kept_but_is_not_stable_is_sent_again() -> None:
    core = resumed({"a": earlier(9, stable_upto=3), "b": earlier(5)})
    assert core.stable_upto == 5
    load = core.load()
    assert load is not None
    assert (load.first, load.last) == (6, 9)
    assert load.holders[6] == ("a",)
    assert core.loading
    core.loaded([kept(6, b"6", b"7"), kept(8, b"8", b"9")], 5.0)
    opened(core, "a", core.epoch, 10, FSYNC, 5.0)
    opened(core, "b", core.epoch, 6, FSYNC, 5.0)
    assert core.complete
    assert payloads(frames(core, "b")) == [b"6", b"7", b"8", b"9"]
    assert frames(core, "a") == []
    assert core.stable_upto == 5
    core.acknowledged("b", 9, 5.0)
    assert core.stable_upto == 9


def test_what_a_store_sets_aside_does_not_count_for_what_gets_its_number() -> None:
    core = new(SourceOptions(consensus=Behaviour.LOWEST))
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, {"a": earlier(9), "b": earlier(5), "c": earlier(5)})
    begin(core, "abc")
    for store in "bc":
        opened(core, store, core.epoch, 6, FSYNC, 5.0)
    core.tick(5.0)
    assert core.window.next_sequence == 6
    send(core, b"new 6")
    core.acknowledged("b", 6, 5.0)
    assert core.stable_upto == 5
    core.acknowledged("c", 6, 5.0)
    assert core.stable_upto == 6


def test_a_registration_that_gets_stuck_is_begun_anew_and_forgets_nothing() -> None:
    core = new(stable_upto=3, unstable=[batch(4, b"4", b"5")])
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, dict.fromkeys("ab", earlier(3, 3)))
    core.tick(5.0)
    stuck = core.epoch
    core.begun("b", stuck, 5.0)
    core.failed("a", DOWN, 5.0)
    core.tick(34.0)
    assert core.epoch == stuck
    core.tick(36.0)
    assert core.epoch == stuck + 1
    assert [core.step(store) for store in "abc"] == [AskPromise(stuck + 1)] * 3
    promise(core, dict.fromkeys("bc", earlier(3, 3)))
    core.tick(40.0)
    begin(core, "bc", 40.0)
    for store in "bc":
        opened(core, store, core.epoch, 4, FSYNC, 40.0)
    assert payloads(frames(core, "b")) == [b"4", b"5"]


def test_a_stream_that_somebody_else_went_on_with_is_not_taken_back() -> None:
    core = registered()
    send(core, b"0", b"1")
    core.failed("c", Fenced("orders", 1, 4), 0.0)
    core.tick(9.0)
    assert core.epoch == 5
    theirs = Promise(
        BeginRecord(Lineage((Term(1, 0), Term(4, 1))), Membership((POLICY,), (POLICY,))),
        (HeldRange(0, 0, 1), HeldRange(1, 7, 4)),
    )
    promise(core, {"a": earlier(1), "c": theirs})
    core.tick(20.0)
    assert isinstance(core.error, Fenced)
    assert [core.step(store) for store in "abc"] == [Hold()] * 3


def test_the_publish_store_goes_on_behind_what_was_kept() -> None:
    unstable = [batch(4, b"4", b"5"), batch(6, b"6"), batch(7, b"7", b"8")]
    core = resumed(dict.fromkeys("ab", earlier(6)), stable_upto=3, unstable=unstable)
    load = core.load()
    assert load is not None
    assert (load.first, load.last) == (4, 6)
    core.loaded([kept(4, b"4", b"5", b"6")], 5.0)
    assert core.window.next_sequence == 9
    opened(core, "a", core.epoch, 7, FSYNC, 5.0)
    (frame,) = frames(core, "a")
    header = check_batch(frame.batch)
    assert (header.first, header.last, header.epoch) == (7, 8, 2)
    assert payloads([frame]) == [b"7", b"8"]


def test_what_the_publish_store_kept_is_sent_where_no_store_knows_of_a_stream() -> None:
    core = new(unstable=[batch(0, b"0"), batch(1, b"1", b"2")])
    promise(core, dict.fromkeys("abc", Promise()))
    begin(core, "abc")
    opened(core, "a", core.epoch, 0, FSYNC, 0.0)
    assert payloads(frames(core, "a")) == [b"0", b"1", b"2"]


def test_what_contradicts_the_stores_never_passes_for_stable() -> None:
    """What is stable under the numbers of the publish store is not what the publish store has."""
    core = resumed(
        dict.fromkeys("ab", earlier(6, 6)), stable_upto=3, unstable=[batch(4, b"other", b"5")]
    )
    assert core.load() is not None
    assert core.stable_upto == 3
    core.loaded([kept(4, b"4", b"5", b"6")], 5.0)
    assert isinstance(core.error, ContentConflict)
    assert core.stable_upto == 3


def test_what_the_stores_have_too_is_stable_once_that_was_seen() -> None:
    options = SourceOptions(stability_events=StabilityEvents.MESSAGE)
    unstable = [batch(4, b"4", b"5"), batch(6, b"6"), batch(7, b"7")]
    core = new(options, stable_upto=3, unstable=unstable)
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, dict.fromkeys("ab", earlier(6, 5)))
    core.tick(5.0)
    begin(core, "ab", 5.0)
    assert core.stable_upto == 3
    assert not the(core, events.MessageStable)
    core.loaded([kept(4, b"4", b"5", b"6")], 5.0)
    assert core.stable_upto == 6
    assert [(each.first, each.last) for each in the(core, events.MessageStable)] == [(6, 6)]


def test_the_tail_of_one_that_registers_anew_is_stable_only_if_it_is_what_the_stores_have() -> None:
    core = registered()
    send(core, b"0", b"1")
    core.failed("c", Fenced("orders", 1, 4), 0.0)
    core.tick(9.0)
    theirs = earlier(1, 1, epoch=4)
    promise(core, {"a": earlier(1), "b": theirs, "c": theirs})
    begin(core, "abc", 9.0)
    assert core.stable_upto == -1
    core.loaded([kept(0, b"x", b"y", store="b")], 9.0)
    assert isinstance(core.error, ContentConflict)
    assert core.stable_upto == -1


def test_a_publish_store_that_contradicts_the_stores_is_reported() -> None:
    core = resumed(dict.fromkeys("ab", earlier(6)), stable_upto=3, unstable=[batch(4, b"other")])
    core.loaded([kept(4, b"4", b"5", b"6")], 5.0)
    assert isinstance(core.error, ContentConflict)
    assert (core.error.first, core.error.store) == (4, "a")


def test_a_registration_tells_the_newest_message_of_each_store() -> None:
    released = replace(earlier(-1, 4), retained_from=5)
    core = resumed({"a": earlier(9), "b": earlier(6), "c": released})
    told = {event.store: event.newest for event in the(core, events.RegistrationSucceeded)}
    assert told == {"a": 9, "b": 6, "c": 4}


def test_a_store_that_answers_late_is_brought_up() -> None:
    core = resumed(dict.fromkeys("ab", earlier(9)))
    opened(core, "a", core.epoch, 10, FSYNC, 5.0)
    opened(core, "b", core.epoch, 10, FSYNC, 5.0)
    send(core, b"10")
    assert core.step("c") == AskPromise(2)
    promise(core, {"c": earlier(9)}, 6.0)
    begin(core, "c", 6.0)
    opened(core, "c", core.epoch, 10, FSYNC, 6.0)
    assert payloads(frames(core, "c")) == [b"10"]
    core.acknowledged("c", 10, 6.0)
    assert the(core, events.StoreCaughtUp) == [events.StoreCaughtUp("c", 10)]


# -- streaming ------------------------------------------------------------------------------


def test_every_store_gets_the_same_bytes_and_a_quorum_makes_them_stable() -> None:
    core = registered()
    frame = send(core, b"x", b"y")
    assert [core.next_frame(store, 0.0) for store in "abc"] == [frame] * 3
    core.acknowledged("a", 1, 0.0)
    assert core.stable_upto == -1
    core.acknowledged("c", 1, 0.0)
    assert core.stable_upto == 1
    assert core.tracker.holders(1) == ("a", "c")
    assert Frame.FromString(send(core, b"z")).stable_upto == 1


def test_a_stream_is_idle_once_everything_was_written_and_acknowledged() -> None:
    core = registered()
    assert not core.idle_quorum()
    frames(core, "a")
    frames(core, "b")
    assert core.idle_quorum()
    send(core, b"x")
    assert not core.idle_quorum()
    frames(core, "a")
    frames(core, "b")
    assert not core.idle_quorum()
    core.acknowledged("a", 0, 0.0)
    assert not core.idle_quorum()
    core.acknowledged("b", 0, 0.0)
    assert core.idle_quorum()


def test_a_lagging_store_gets_what_is_retained_and_skips_the_rest() -> None:
    core = registered(SourceOptions(retention_bytes_max=1000))
    for number in range(10):
        send(core, b"%d" % number * 100)
        core.acknowledged("a", number, 0.0)
        core.acknowledged("b", number, 0.0)
    skip, *batches = frames(core, "c")
    assert (skip.skip.first, skip.stable_upto) == (0, 9)
    assert core.retention.first == skip.skip.last + 1 > 0
    assert payloads(batches)[-1] == b"9" * 100
    assert core.retention._settled_memory <= 1000


def test_what_goes_while_a_stream_is_being_opened_is_skipped() -> None:
    core = registered(SourceOptions(retention_bytes_max=0))
    send(core, b"0", b"1")
    core.failed("c", DOWN, 0.0)
    opening = Frame.FromString(core.open_frame("c")).open
    assert (opening.incarnation, opening.retained_from) == (b"disk", 0)
    core.acknowledged("a", 1, 0.0)
    core.acknowledged("b", 1, 0.0)
    send(core, b"2")
    core.opened("c", core.epoch, 0, FSYNC, 0.0)
    skip, *batches = frames(core, "c")
    assert (skip.skip.first, skip.skip.last) == (0, 1)
    assert payloads(batches) == [b"2"]


def test_a_stream_may_go_on_in_the_middle_of_a_batch() -> None:
    core = registered()
    send(core, b"0", b"1", b"2")
    core.failed("c", DOWN, 0.0)
    opened(core, "c", core.epoch, 1, FSYNC, 0.0)
    assert payloads(frames(core, "c")) == [b"0", b"1", b"2"]


def test_what_no_store_lacks_is_not_retained() -> None:
    core = registered()
    send(core, b"x")
    for store in "abc":
        core.acknowledged(store, 0, 0.0)
    assert len(core.retention) == 0


def test_a_store_that_reconnects_goes_on_where_it_is() -> None:
    core = registered()
    send(core, b"x")
    send(core, b"y")
    frames(core, "c")
    core.failed("c", DOWN, 1.0)
    opened(core, "c", core.epoch, 1, FSYNC, 2.0)
    assert payloads(frames(core, "c")) == [b"y"]


def test_a_store_that_lost_its_disk_no_longer_counts_for_what_it_acknowledged() -> None:
    core = registered()
    send(core, b"x")
    core.acknowledged("a", 0, 0.0)
    core.failed("a", NotRegistered("orders", "wiped"), 1.0)
    assert core.step("a") == AskPromise(1)
    promise(core, {"a": Promise()}, 1.0)
    begin(core, "a", 1.0)
    opened(core, "a", core.epoch, 0, FSYNC, 1.0)
    core.acknowledged("b", 0, 1.0)
    assert core.stable_upto == -1
    core.acknowledged("a", 0, 1.0)
    assert core.stable_upto == 0


def test_losing_the_quorum_stops_sending_until_it_is_back() -> None:
    core = registered()
    core.failed("b", DOWN, 1.0)
    assert core.complete
    core.failed("c", DOWN, 1.0)
    assert isinstance(core.refusal(), NotRegistered)
    assert [event.quorum_lost for event in the(core, events.StoreUnresponsive)] == [False, True]
    assert the(core, events.QuorumLost) == [events.QuorumLost(("a",), ())]
    core.failed("c", DOWN, 2.0)
    assert len(the(core, events.StoreUnresponsive)) == 2
    opened(core, "c", core.epoch, 0, FSYNC, 3.0)
    assert core.refusal() is None
    assert the(core, events.RegistrationComplete)[-1].missing == ("b",)


def test_which_groups_are_there_is_told_when_the_quorum_is_lost_and_when_it_is_back() -> None:
    groups = Group("g", tuple("abc")), Group("h", ("d",)), Group("i", tuple("ef"))
    policy = Policy(groups, IntergroupRule.MAJORITY)
    stores = [StoreAddress(store, f"{store}:1") for store in "abcdef"]
    core = SourceCore(NAME, stores, policy, SourceOptions(), b"me")
    core.start(0.0)
    promise(core, dict.fromkeys("abcdef", Promise()))
    begin(core, "abcdef")
    streams(core, "abcdef", 0.0, -1)
    # One of three is none too many for its group, one of two is.
    for store in "afd":
        core.failed(store, DOWN, 1.0)
    assert the(core, events.QuorumLost) == [events.QuorumLost(("b", "c", "e"), ("g",))]
    left = [event.groups for event in the(core, events.StoreUnresponsive)]
    assert left == [("g", "h", "i"), ("g", "h"), ("g",)]
    streams(core, "d", 2.0, -1)
    assert the(core, events.StoreReturned) == [events.StoreReturned("d", ("g", "h"))]
    whole, back = the(core, events.RegistrationComplete)
    assert (whole.groups, back.groups) == (("g", "h", "i"), ("g", "h"))
    assert (back.stores, back.missing) == (("b", "c", "d", "e"), ("a", "f"))
    # Who registers anew has nobody meanwhile.
    core.failed("a", Fenced("orders", 1, 3), 3.0)
    core.tick(8.0)
    assert the(core, events.QuorumLost)[1:] == [events.QuorumLost((), ())]


@pytest.mark.parametrize("error", [DOWN, InLimbo("orders", "c", "wiped")], ids=["down", "limbo"])
def test_who_lost_the_quorum_is_told_before_that_it_is_lost(error: QuorateError) -> None:
    core = registered()
    core.failed("b", DOWN, 1.0)
    core.events.clear()
    core.failed("c", error, 1.0)
    limbo = [events.StoreInLimbo] if isinstance(error, InLimbo) else []
    told = [type(event) for event in core.events]
    assert told == [*limbo, events.StoreUnresponsive, events.QuorumLost]


def test_that_a_store_is_back_is_told_once() -> None:
    core = registered()
    assert the(core, events.StoreReturned) == []
    core.failed("c", DOWN, 1.0)
    core.failed("c", DOWN, 2.0)
    opened(core, "c", core.epoch, 0, FSYNC, 3.0)
    opened(core, "c", core.epoch, 0, FSYNC, 4.0)
    assert the(core, events.StoreReturned) == [events.StoreReturned("c", ("stores",))]


def test_a_fenced_source_accepts_nothing_more() -> None:
    core = registered()
    for store in "ab":
        core.failed(store, Fenced("orders", 1, 2), 1.0)
    assert isinstance(core.refusal(), Fenced)
    assert len(the(core, events.SourceFailed)) == 1


def test_a_store_kept_away_by_a_promise_to_nobody_is_won_back_by_a_higher_epoch() -> None:
    core = registered()
    send(core, b"x")
    core.failed("c", Fenced("orders", 1, 7), 1.0)
    core.tick(2.0)
    assert core.epoch == 1
    core.tick(4.0)
    assert core.epoch == 8
    assert isinstance(core.refusal(), NotRegistered)
    # What has gathered stays gathered.
    core.window.add([b"y"], [], 1, 0)
    answer = earlier(0)
    promise(core, {"a": answer, "b": earlier(-1), "c": earlier(-1)}, 4.0)
    begin(core, "abc", 4.0)
    core.loaded([kept(0, b"x")], 4.0)
    opened(core, "a", core.epoch, 1, FSYNC, 4.0)
    opened(core, "b", core.epoch, 0, FSYNC, 4.0)
    opened(core, "c", core.epoch, 0, FSYNC, 4.0)
    assert core.complete
    assert core.window.next_sequence == 2
    core.release(core.take(), 4.0)
    said = frames(core, "b")
    assert payloads(said) == [b"x", b"y"]
    assert [check_batch(frame.batch).epoch for frame in said] == [1, 8]


def test_other_content_on_most_stores_ends_the_source() -> None:
    core = registered()
    core.failed("a", ContentConflict("orders", 0, 0, "a"), 1.0)
    assert core.refusal() is None, "the others are enough"
    conflict = ContentConflict("orders", 0, 0, "b")
    core.failed("b", conflict, 1.0)
    assert core.refusal() is conflict
    assert "quorate conflict settle --source orders" in str(conflict)


def test_a_store_with_other_content_is_gone_around_and_messages_become_stable() -> None:
    core = registered()
    core.failed("a", ContentConflict("orders", 0, 0, "a"), 1.0)
    send(core, b"0")
    for store in "bc":
        core.next_frame(store, 1.0)
        core.acknowledged(store, 0, 1.0)
    assert (core.stable_upto, core.complete) == (0, True)


def test_a_store_whose_conflict_was_settled_no_longer_counts_against_the_source() -> None:
    core = registered()
    core.failed("a", ContentConflict("orders", 0, 0, "a"), 1.0)
    assert opened(core, "a", core.epoch, 0, FSYNC, 2.0)
    core.failed("b", ContentConflict("orders", 0, 0, "b"), 3.0)
    assert core.refusal() is None


def test_a_begin_that_one_store_refuses_for_its_content_counts_without_it() -> None:
    core = new()
    promise(core, dict.fromkeys("abc", Promise()))
    core.failed("a", ContentConflict("orders", 10, 19, "a"), 1.0)
    begin(core, "bc", 1.0)
    for store in "bc":
        opened(core, store, core.epoch, 0, FSYNC, 1.0)
    core.tick(5.0)
    assert core.complete
    begin(core, "a", 6.0)
    core.failed("b", ContentConflict("orders", 10, 19, "b"), 7.0)
    assert core.error is None, "a has begun since"


def test_a_store_that_acknowledges_nothing_is_noticed() -> None:
    core = registered()
    send(core, b"x")
    core.next_frame("a", 1.0)
    assert core.streams.silent(10.0, 10.0) == []
    assert core.streams.silent(11.5, 10.0) == ["a"]
    core.acknowledged("a", 0, 11.6)
    assert core.streams.silent(100.0, 10.0) == []


def test_quiet_streams_say_once_what_is_stable() -> None:
    core = registered()
    send(core, b"x")
    frames(core, "a")
    core.acknowledged("b", 0, 0.0)
    core.acknowledged("c", 0, 0.0)
    assert frames(core, "a") == []
    core.streams.keepalives_due(core.stable_upto)
    (frame,) = frames(core, "a")
    assert frame.WhichOneof("kind") == "keepalive"
    assert frame.stable_upto == 0
    core.streams.keepalives_due(core.stable_upto)
    assert frames(core, "a") == [], "it knows"


def test_a_store_where_somebody_waits_is_told_until_it_knows() -> None:
    core = registered()
    assert core.streams.stable_awaited("a", True)
    assert not core.streams.stable_awaited("a", True), "that is no news"
    assert not core.streams.awaiting(core.stable_upto)
    send(core, b"x")
    for store in "abc":
        frames(core, store)
        core.acknowledged(store, 0, 0.0)
    assert core.streams.awaiting(core.stable_upto) == {"a": core.streams.cursors["a"]}
    core.streams.cursors["a"].keepalive_due = True
    (frame,) = frames(core, "a")
    assert (frame.WhichOneof("kind"), frame.stable_upto) == ("keepalive", 0)
    assert not core.streams.awaiting(core.stable_upto)
    send(core, b"y")
    core.acknowledged("b", 1, 0.0)
    core.acknowledged("c", 1, 0.0)
    core.streams.stable_awaited("a", False)
    assert not core.streams.awaiting(core.stable_upto), "nobody waits any more"


def test_a_batch_tells_how_far_the_stream_was_stable_when_it_was_released() -> None:
    core = registered()
    core.streams.stable_awaited("a", True)
    for number in range(2):
        send(core, b"x")
        for store in "abc":
            frames(core, store)
            core.acknowledged(store, number, 0.0)
        assert core.streams.awaiting(core.stable_upto) == {"a": core.streams.cursors["a"]}
    send(core, b"y")
    assert not core.streams.awaiting(core.stable_upto), "the batch says it"


def test_a_keepalive_that_is_due_goes_behind_a_batch_that_tells_less() -> None:
    core = registered()
    for payload in (b"x", b"y"):
        send(core, payload)
        for store in "bc":
            frames(core, store)
            core.acknowledged(store, core.packed_upto, 0.0)
    assert core.stable_upto == 1
    core.streams.cursors["a"].keepalive_due = True
    *batches, last = frames(core, "a")
    assert [frame.stable_upto for frame in batches] == [-1, 0]
    assert (last.WhichOneof("kind"), last.stable_upto) == ("keepalive", 1)


def test_what_changes_while_a_stream_is_being_opened_is_told() -> None:
    core = registered()
    core.failed("c", DOWN, 0.0)
    opening = Frame.FromString(core.open_frame("c")).open
    promise(core, {"b": Promise()})
    assert core.information().version > opening.information.version
    core.opened("c", core.epoch, 0, FSYNC, 0.0)
    (frame,) = frames(core, "c")
    assert frame.information.version == core.information().version
    opened(core, "c", core.epoch, 0, FSYNC, 0.0)
    assert frames(core, "c") == []


def test_stores_are_told_when_a_late_one_gives_a_reg_id() -> None:
    core = new()
    promise(core, dict.fromkeys("ab", Promise()))
    core.tick(3.0)
    begin(core, "ab", 3.0)
    for store in "ab":
        opened(core, store, core.epoch, 0, FSYNC, 3.0)
    before = core.version
    promise(core, {"c": Promise()}, 4.0)
    assert core.version > before
    (frame,) = frames(core, "a")
    assert [entry.reg_id for entry in frame.information.stores] == [7, 7, 7]


def test_what_is_not_stable_in_time_is_reported_once() -> None:
    core = registered(SourceOptions(stability_lifetime=60.0))
    send(core, b"x", now=1.0)
    send(core, b"y", now=30.0)
    core.tick(60.0)
    assert the(core, events.NotStable) == []
    core.tick(61.0)
    core.tick(62.0)
    assert the(core, events.NotStable) == [events.NotStable(0, 0, events.NotStableCause.TIMEOUT)]
    core.tick(90.0)
    late = events.NotStable(1, 1, events.NotStableCause.TIMEOUT)
    assert the(core, events.NotStable)[1:] == [late]


def test_an_exceeded_flight_is_told_once_and_relieved_once() -> None:
    core = registered(SourceOptions(flight_messages=2, flight_behaviour=FlightBehaviour.NOTIFY))
    send(core, b"x", b"y", b"z")
    core.note_exceeded()
    core.note_exceeded()
    assert the(core, events.FlightExceeded) == [events.FlightExceeded(3, 3)]
    for store in "ab":
        core.acknowledged(store, 2, 0.0)
    assert the(core, events.FlightRelieved) == [events.FlightRelieved(2)]


def test_closed_it_accepts_nothing_but_what_was_accepted_still_goes_out() -> None:
    core = registered()
    core.window.add([b"x"], [], 1, 0)
    core.stop_accepting()
    assert isinstance(core.refusal(), Closed)
    assert core.can_take
    core.release(core.take(), 0.0)
    assert payloads(frames(core, "a")) == [b"x"]
    assert Frame.FromString(core.goodbye_frame()).goodbye.last_sequence == 0


def test_nothing_is_packed_between_epochs_or_while_a_batch_is_being_written() -> None:
    core = registered()
    for _ in range(2):
        core.window.add([b"x"], [], 1, 0)
    packed = core.take()
    core.window.add([b"y"], [], 1, 0)
    core.failed("c", Fenced("orders", 1, 7), 1.0)
    assert not may_take(core)
    core.tick(5.0)
    assert core.epoch == 1
    core.release(packed, 5.0)
    assert may_take(core)
    core.tick(5.0)
    assert core.epoch == 8
    assert not may_take(core)
