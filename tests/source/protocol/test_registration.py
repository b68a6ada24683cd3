"""A registration asks stores, and decides by their answers: which, what for, and when."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import inf

import pytest
from tests.begun import rebegun
from tests.source.protocol.registering import (
    DOWN,
    NAME,
    NOTHING_OWN,
    begin_all,
    decided,
    grant,
    held,
    promise_all,
    registration,
    streaming,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import (
    STREAM_IS_OPEN,
    Fenced,
    InLimbo,
    MissingMessages,
    NoQuorum,
    NotAStore,
    NotRegistered,
    QuorateError,
    RegIdInUse,
    SourceActive,
    SourceDeleted,
    StorageFailed,
    TakenOver,
    Unreachable,
)
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.protection import INSIST_SECONDS
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Promise
from quorate.source.protocol.registration import (
    AskBegin,
    AskPromise,
    Grant,
    Hold,
    OpenStream,
    OwnKnowledge,
    Phase,
    Registration,
)


def test_all_stores_are_asked_and_waited_for() -> None:
    made = registration()
    assert [made.step(store) for store in "abc"] == [AskPromise(1)] * 3
    promise_all(made, "ab")
    assert made.step("a") == Hold()
    assert made.decide(2.9, NOTHING_OWN) is None
    made.promised("c", 1, grant())
    decision = decided(made)
    assert decision.kept_upto == -1
    assert isinstance(made.step("a"), AskBegin)


def test_after_the_interval_a_blocking_set_will_do_and_the_late_one_takes_the_same_steps() -> None:
    made = registration()
    promise_all(made, "ab")
    made.failed("c", DOWN, 1.0)
    decided(made, 3.0)
    for store in "ab":
        assert made.begun(store, 1)
    assert made.begun_enough()
    made.streaming()
    assert made.step("a") == OpenStream(1)
    assert made.step("c") == AskPromise(1)
    made.promised("c", 1, grant())
    assert isinstance(made.step("c"), AskBegin)
    made.begun("c", 1)
    assert made.step("c") == OpenStream(1)


def test_while_something_is_missing_stores_are_asked_again_until_it_is_accepted_as_lost() -> None:
    made = registration()
    made.start(0.0, 2)
    short = dataclasses.replace(held(0), stable_upto=1)
    promise_all(made, "ab", short)
    made.failed("c", DOWN, 1.0)
    assert made.decide(3.0, NOTHING_OWN) is None
    assert isinstance(made.unfinished(), MissingMessages)
    assert [made.step(store) for store in "abc"] == [AskPromise(2)] * 3
    accepted = dataclasses.replace(short, losses=(HeldRange(1, 1, 1),))
    made.promised("a", 2, grant(accepted))
    assert decided(made, 4.0).kept_upto == 1
    assert isinstance(made.step("a"), AskBegin)


def test_a_begin_names_the_data_directory_that_promised() -> None:
    """Who has another one asks for a promise anew: a copy may run beside a store."""
    made = registration()
    promise_all(made, "abc")
    decided(made)
    asked = made.step("c")
    assert isinstance(asked, AskBegin)
    assert asked.incarnation == b"disk"
    made.failed("c", NotRegistered("orders", "another incarnation"), 1.0)
    assert made.step("c") == AskPromise(1)
    made.promised("c", 1, grant(disk="copy"))
    asked = made.step("c")
    assert isinstance(asked, AskBegin)
    assert asked.incarnation == b"copy"


def test_one_answer_of_three_decides_nothing_and_the_error_names_the_stores() -> None:
    made = registration()
    promise_all(made, "a")
    made.failed("b", Unreachable("b:1", "refused"), 1.0)
    assert made.decide(100.0, NOTHING_OWN) is None
    error = made.unfinished()
    assert isinstance(error, NoQuorum)
    assert (error.answered, error.silent) == ("a", "b, c")
    assert "refused" in error.detail
    assert "c: no answer yet" in error.detail


def test_fenced_while_promising_goes_above_what_was_heard() -> None:
    made = registration()
    promise_all(made, "a")
    made.failed("b", Fenced("x", 1, 5), 0.1)
    assert made.epoch == 6
    assert [made.step(store) for store in "abc"] == [AskPromise(6)] * 3
    made.failed("c", Fenced("x", 1, 5), 0.1)
    assert made.epoch == 6
    made.promised("a", 1, grant())
    assert made.step("a") == AskPromise(6)


def test_the_newest_lineage_is_extended_behind_what_is_kept() -> None:
    made = registration()
    made.failed("a", Fenced("x", 1, 1), 0.0)
    made.promised("a", 2, grant(held(9)))
    made.promised("b", 2, grant(held(7)))
    made.promised("c", 2, grant(held(9)))
    assert decided(made).kept_upto == 9
    assert made.lineage == Lineage((Term(1, 0), Term(2, 10)))


def test_a_living_source_is_waited_for_and_then_reported() -> None:
    made = registration()
    promise_all(made, "bc")
    made.failed("a", SourceActive("orders", "a"), 0.1)
    assert made.decide(2.9, NOTHING_OWN) is None
    assert made.error is None
    assert made.decide(3.0, NOTHING_OWN) is None
    assert isinstance(made.error, SourceActive)


def kept_out(made: Registration, stores: str, free_in_ms: int, now: float) -> None:
    for store in stores:
        made.failed(store, SourceActive("orders", store, free_in_ms), now)


def test_a_blocking_set_that_refuses_ends_it_at_once() -> None:
    made = registration()
    kept_out(made, "ab", STREAM_IS_OPEN, 0.1)
    assert made.decide(0.2, NOTHING_OWN) is None
    assert made.error is None, "a store may notice only now that a process was killed"
    assert isinstance(made.unfinished(), SourceActive), "every store that matters has answered"
    assert made.decide(0.1 + INSIST_SECONDS, NOTHING_OWN) is None
    assert isinstance(made.error, SourceActive)


def test_an_activity_timeout_that_ends_too_late_ends_it_at_once() -> None:
    made = registration()
    made.wait_until(5.0)
    kept_out(made, "ab", 6000, 0.1)
    assert made.decide(0.1, NOTHING_OWN) is None
    assert isinstance(made.error, SourceActive)


def test_an_activity_timeout_that_ends_in_time_is_waited_for() -> None:
    made = registration()
    made.wait_until(10.0)
    kept_out(made, "ab", 6000, 0.0)
    for now in (0.1, 2.0, 3.0, 5.9):
        assert made.decide(now, NOTHING_OWN) is None
    assert made.waiting_for_identity(2.0) == (("a", "b"), 4.0)
    assert made.waiting_for(2.0)[0] == ("c",), "a and b have answered"
    assert [made.step(store) for store in "ab"] == [AskPromise(1)] * 2
    promise_all(made, "abc")
    assert made.waiting_for_identity(6.2) is None
    decided(made, 6.2)


def test_without_a_limit_a_living_instance_is_waited_for() -> None:
    made = registration()
    made.wait_until(inf)
    kept_out(made, "abc", STREAM_IS_OPEN, 0.1)
    assert made.decide(1e6, NOTHING_OWN) is None
    assert made.waiting_for_identity(1.0) == (("a", "b", "c"), inf)
    assert made.error is None


def test_a_predecessor_that_ends_in_time_does_no_harm() -> None:
    made = registration()
    promise_all(made, "bc")
    made.failed("a", SourceActive("orders", "a"), 0.1)
    made.promised("a", 1, grant())
    decided(made, 3.0)


@pytest.mark.parametrize("error", [RegIdInUse(5, "a", "other")])
def test_what_waiting_can_not_heal_ends_it_at_once(error: QuorateError) -> None:
    made = registration()
    made.failed("a", error, 0.0)
    assert made.error is error


def test_an_address_that_is_no_store_is_not_waited_for() -> None:
    made = registration()
    promise_all(made, "ab")
    made.failed("c", NotAStore("c:1", "web"), 0.1)
    decided(made, 0.2)


def test_with_nothing_but_addresses_that_are_no_stores_the_reason_is_raised() -> None:
    made = registration()
    for store in "abc":
        made.failed(store, NotAStore(f"{store}:1", "web"), 0.1)
    assert made.decide(0.2, NOTHING_OWN) is None
    assert isinstance(made.error, NotAStore)


def test_a_store_in_limbo_is_asked_again_and_does_not_vouch() -> None:
    made = registration()
    promise_all(made, "a")
    promise_all(made, "bc", Promise(limbo=True))
    assert made.decide(5.0, NOTHING_OWN) is None
    assert made.step("b") == AskPromise(1)
    assert isinstance(made.unfinished(), NoQuorum)
    made.promised("b", 1, grant())
    decided(made, 5.0)


def test_the_error_says_who_is_in_limbo_and_why_and_does_not_call_them_missing() -> None:
    made = registration()
    promise_all(made, "a")
    unreadable = dataclasses.replace(
        grant(Promise(limbo=True)), limbo_reason="it can not read [300, 599]"
    )
    made.promised("b", 1, unreadable)
    made.promised("c", 1, unreadable)
    made.failed("c", DOWN, 1.0)
    assert made.decide(5.0, NOTHING_OWN) is None
    error = made.unfinished()
    assert isinstance(error, NoQuorum)
    assert (error.answered, error.silent, error.limbo) == ("a, b", "c", "b"), "c is down by now"
    assert "b: it can not read [300, 599]" in str(error)


def test_whoever_waits_no_longer_is_told_why_stores_that_have_begun_take_no_stream() -> None:
    made = registration()
    promise_all(made, "abc")
    decided(made, 0.0)
    made.failed("a", StorageFailed("a", "slow disk"), 0.1)
    assert "slow disk" in str(made.unfinished()), "it was to begin"
    for store in "abc":
        made.begun(store, 1)
    error = made.unfinished()
    assert isinstance(error, NoQuorum)
    assert (error.answered, error.silent) == ("a, b, c", ""), "it has begun after all"
    made.streaming()
    for store in "bc":
        made.failed(store, StorageFailed(store, "full disk"), 0.2)
    error = made.unfinished({"a", "c"})
    assert isinstance(error, NoQuorum)
    assert (error.answered, error.silent) == ("a, c", "b")
    assert "full disk" in error.detail


def test_what_the_publish_store_knows_to_be_stable_must_be_found() -> None:
    made = registration()
    promise_all(made, "ab")
    assert made.decide(3.0, OwnKnowledge(9, None)) is None
    error = made.unfinished()
    assert isinstance(error, MissingMessages)
    assert (error.first, error.last, error.might_have) == (0, 9, "c")
    assert made.decide(3.0, OwnKnowledge(-1, 5)) is None
    assert made.error is None
    made.promised("c", 1, grant())
    assert made.decide(3.0, OwnKnowledge(9, None)) is None
    assert isinstance(made.error, MissingMessages)


ENDED = Promise(BeginRecord(Lineage((Term(3, 0),)), generation=3))
"""The promise of a store that knows of nothing but an end in epoch 3."""


@pytest.mark.parametrize("was_open", [False, True])
def test_who_knows_of_more_than_an_ended_stream_is_told_that_it_ended(was_open: bool) -> None:
    made = streaming() if was_open else registration()
    made.start(0.0, 4)
    promise_all(made, "abc", ENDED)
    assert made.decide(3.0, OwnKnowledge(9, None)) is None
    assert isinstance(made.error, SourceDeleted)
    assert made.error.upto == 9


def test_who_knows_of_more_than_another_stream_that_has_begun_is_not_told_that_it_is_deleted() -> (
    None
):
    made = registration()
    made.start(0.0, 6)
    promise_all(made, "ab", rebegun(held(3, epoch=5), generation=4))
    assert made.decide(3.0, OwnKnowledge(9, None)) is None
    assert made.error is None
    assert isinstance(made.unfinished(), MissingMessages)


def test_who_knows_of_nothing_that_was_stable_begins_the_next_stream() -> None:
    made = streaming()
    made.start(0.0, 4)
    promise_all(made, "abc", ENDED)
    assert decided(made, 3.0, OwnKnowledge(-1, 0)).kept_upto == -1
    step = made.step("a")
    assert isinstance(step, AskBegin)
    assert (step.begin.lineage, step.begin.generation) == (Lineage((Term(4, 0),)), 3)


def test_fenced_by_a_blocking_set_is_the_end() -> None:
    made = streaming()
    made.failed("a", Fenced("x", 1, 2), 1.0)
    assert made.step("c") == OpenStream(1)
    made.failed("b", Fenced("x", 1, 2), 1.0)
    assert isinstance(made.error, Fenced)
    assert made.step("c") == Hold()


def test_one_store_that_tells_of_a_take_over_ends_the_older_one() -> None:
    made = streaming()
    made.failed("c", TakenOver("x of c", 1, 4), 1.0)
    assert isinstance(made.error, TakenOver)
    assert (made.error.who, made.error.promised) == (str(NAME), 4)
    assert made.overtake_epoch(100.0) is None
    assert [made.step(store) for store in "abc"] == [Hold()] * 3


def test_a_take_over_ends_the_older_one_while_that_one_registers_anew() -> None:
    made = streaming()
    made.start(1.0, 2)
    # The late end of its own older stream says nothing.
    made.failed("b", TakenOver("x", 1, 2), 1.1)
    assert made.error is None
    made.failed("c", TakenOver("x", 2, 2), 1.1)
    assert isinstance(made.error, Fenced)


def test_a_take_over_ends_one_that_has_decided_and_was_never_open() -> None:
    made = registration()
    promise_all(made, "abc")
    decided(made)
    made.failed("c", TakenOver("x", 1, 2), 0.1)
    assert isinstance(made.error, Fenced)


def test_a_take_over_of_the_epoch_that_was_decided_is_no_newer_one() -> None:
    """Store c promised epoch 1 to an instance that has died, and missed this one's promise."""
    made = streaming()
    made.failed("c", TakenOver("x", 1, 1), 1.0)
    assert made.error is None
    assert made.overtake_epoch(4.0) == 2


def test_one_that_opens_goes_on_after_a_take_over_that_came_to_nothing() -> None:
    made = registration()
    made.failed("a", TakenOver("x", 1, 4), 0.1)
    assert made.step("b") == AskPromise(5)


def test_a_promise_that_went_nowhere_is_overtaken() -> None:
    made = streaming()
    made.failed("c", Fenced("x", 1, 4), 1.0)
    assert made.overtake_epoch(3.9) is None
    assert made.overtake_epoch(4.0) == 5
    made.start(4.0, 5)
    assert [made.step(store) for store in "abc"] == [AskPromise(5)] * 3
    # Our own promise ends our own older streams.
    made.failed("a", Fenced("x", 1, 5), 4.1)
    assert made.error is None
    assert made.epoch == 5


def test_who_waited_long_for_promises_has_as_long_to_begin_as_any_other() -> None:
    made = registration()
    made.promised("a", 1, grant())
    assert made.decide(100.0, NOTHING_OWN) is None
    made.promised("b", 1, grant())
    assert made.decide(100.0, NOTHING_OWN)
    assert made.overtake_epoch(129.9) is None
    assert made.overtake_epoch(130.0) == 2


def test_one_that_opens_asks_for_a_higher_epoch_at_once() -> None:
    made = registration()
    made.failed("a", Fenced("x", 1, 4), 0.1)
    assert made.step("b") == AskPromise(5)


def test_one_that_was_open_leaves_whoever_opens_the_time_to_begin() -> None:
    made = streaming()
    made.start(1.0, 2)
    for store in "abc":
        made.failed(store, Fenced("x", 2, 2), 1.1)
    assert [made.step(store) for store in "abc"] == [AskPromise(2)] * 3
    assert made.error is None
    assert made.overtake_epoch(4.0) is None
    # It had the time, and has begun nowhere.
    assert made.overtake_epoch(4.1) == 3


def test_one_that_was_open_goes_on_without_the_store_that_promised_to_nobody() -> None:
    made = streaming()
    made.start(1.0, 2)
    made.failed("c", Fenced("x", 2, 7), 1.1)
    promise_all(made, "ab")
    decided(made, 1.2)
    assert made.overtake_epoch(4.1) == 8


def test_stores_are_told_what_was_decided_last_by_one_that_was_open() -> None:
    made = registration()
    promise_all(made, "abc")
    decided(made)
    assert made.decided_epoch == 0
    for store in "abc":
        made.begun(store, 1)
    made.streaming()
    assert made.decided_epoch == 1
    made.start(1.0, 5)
    assert made.decided_epoch == 1
    promise_all(made, "abc")
    decided(made)
    assert made.decided_epoch == 5


@pytest.mark.parametrize("again", [False, True], ids=["promising", "after the decision"])
def test_where_another_one_has_begun_since_is_no_way_back(again: bool) -> None:
    made = streaming()
    made.failed("c", Fenced("x", 1, 4), 1.0)
    made.start(4.0, made.overtake_epoch(4.0) or 0)
    if again:
        promise_all(made, "ab")
        decided(made, 7.0)
    # Epoch 5 is high enough, but 4 was begun: the store has promised nothing.
    made.failed("c", Fenced("x", 5, 4), 7.1)
    assert isinstance(made.error, Fenced)
    assert made.error.promised == 4
    assert made.step("a") == Hold()


def test_for_whom_a_registration_waits() -> None:
    made = registration()
    promise_all(made, "ab")
    assert made.waiting_for(1.0) == (("c",), 2.0)
    assert made.waiting_for(4.0) == (("c",), 0.0)
    made.failed("c", DOWN, 3.0)
    decided(made, 3.0)
    assert made.waiting_for(4.0) == ((), 0.0)
    begin_all(made, "ab")
    made.streaming()
    made.start(5.0, 2)
    assert made.waiting_for(5.1) == ((), 0.0), "stores that are up need a moment to answer"
    promise_all(made, "a")
    assert made.waiting_for(6.0) == (("b", "c"), 2.0), "b is slow, and c is down"
    promise_all(made, "ab")
    decided(made, 5.0)


def test_who_waits_for_other_stores_shows_those_that_answered_that_it_lives() -> None:
    """Else what it waits to go on with may expire there."""
    made = registration()
    promise_all(made, "a")
    made.time_passes(2.9)
    assert made.step("a") == Hold()
    made.time_passes(3.0)
    assert made.step("a") == AskPromise(1)
    promise_all(made, "ab")
    decided(made, 3.0)
    made.begun("a", 1)
    assert isinstance(made.step("a"), AskBegin), "the begin of b is missing"
    made.begun("b", 1)
    made.streaming()
    assert made.step("a") == OpenStream(1)
    made.start(10.0, 2)
    promise_all(made, "a")
    assert made.step("a") == Hold()


def test_phases() -> None:
    made = registration()
    phases: Sequence[Phase] = [made.phase]
    promise_all(made, "abc")
    decided(made)
    phases = [*phases, made.phase]
    made.confirm()
    phases = [*phases, made.phase]
    made.loading()
    phases = [*phases, made.phase]
    made.begun("a", 1)
    assert made.step("a") == Hold()
    made.streaming()
    assert [*phases, made.phase] == list(Phase)


def test_a_late_answer_that_shows_a_newer_begun_epoch_means_a_new_registration() -> None:
    made = registration()
    made.failed("a", Fenced("x", 1, 4), 0.0)
    promise_all(made, "ab", held(9, epoch=2))
    decided(made, 3.0)
    made.promised("c", 5, grant(held(3, epoch=2)))
    assert made.overtake_epoch(3.0) is None
    made.promised("c", 5, grant(held(3, epoch=3)))
    assert made.overtake_epoch(3.0) == 6
    made.start(3.0, 6)
    assert made.overtake_epoch(3.0) is None


def test_its_own_begun_epoch_in_a_late_answer_is_no_news() -> None:
    made = streaming()
    made.failed("c", NotRegistered("x", "forgotten"), 1.0)
    made.promised("c", 1, grant(held(3, epoch=1)))
    assert made.overtake_epoch(1.0) is None


def test_a_store_that_enters_limbo_is_asked_again() -> None:
    made = streaming()
    made.failed("c", InLimbo("x", "c", "wiped"), 1.0)
    assert made.step("c") == AskPromise(1)
    made.promised("c", 1, grant(Promise(limbo=True)))
    assert made.step("c") == AskPromise(1)
    made.promised("c", 1, grant())
    assert isinstance(made.step("c"), AskBegin)


def own(store: str, disk: str | None = None) -> Grant:
    """The answer of a store with a name and a disk of its own."""
    return grant(disk=disk or f"disk of {store}", name=f"store {store}")


def named(made: Registration) -> None:
    for store in "abc":
        made.promised(store, made.epoch, own(store))


def test_a_store_that_was_replaced_is_asked_anew_and_answers_of_the_former_do_not_count() -> None:
    made = registration()
    named(made)
    assert made.known("store b", b"disk of b", [], "c") == []
    assert made.known("store b", b"new disk", [b"disk of b"], "c") == ["b"]
    assert made.step("b") == AskPromise(1)
    # What the former said before it died arrives late; and who has not heard yet still names it.
    made.known("store b", b"disk of b", [], "c")
    for _ in range(2):
        assert not made.promised("b", 1, own("b"))
        assert made.step("b") == AskPromise(1)
    assert "b: other stores know its data directory as a former one" in str(made.unfinished())
    made.promised("b", 1, own("b", "new disk"))
    assert "directory" not in str(made.unfinished())
    assert made.step("b") == Hold()
    assert made.known("store b", b"disk of b", [], "c") == []


def test_while_two_stores_differ_and_nobody_knows_which_was_before_nothing_counts() -> None:
    made = registration()
    named(made)
    assert made.known("store b", b"another disk", [], "c") == ["b"]
    made.promised("b", 1, own("b"))
    assert made.step("b") == AskPromise(1)
    # It knows itself what it was before; a store that did not hear of that is behind.
    made.known("store b", b"", [b"another disk"], "c")
    made.promised("b", 1, own("b"))
    assert made.step("b") == Hold()


def test_what_a_store_said_before_does_not_count_against_what_it_says_now() -> None:
    """Nobody remembers that the second disk was wiped, too."""
    made = registration()
    named(made)
    assert made.known("store b", b"second disk", [b"disk of b"], "c") == ["b"]
    made.known("store b", b"third disk", [b"disk of b"], "c")
    made.promised("b", 1, own("b", "third disk"))
    assert made.step("b") == Hold()


def test_nothing_is_decided_from_the_promise_of_a_former_incarnation() -> None:
    """However the two arrive: the promise, and the word that it is of a store that is no more."""
    for heard_before in (True, False):
        made = registration()
        if heard_before:
            made.known("store a", b"new disk", [b"disk of a"], "c")
        made.promised("a", 1, own("a"))
        made.known("store a", b"new disk", [b"disk of a"], "c")
        made.promised("b", 1, own("b"))
        assert made.decide(10.0, OwnKnowledge(-1, None)) is None
        made.promised("a", 1, own("a", "new disk"))
        assert made.decide(10.0, OwnKnowledge(-1, None)) is not None


def test_a_begin_of_a_former_incarnation_counts_no_more() -> None:
    made = registration()
    named(made)
    decided(made)
    made.begun("a", 1)
    made.begun("b", 1)
    assert made.begun_enough()
    made.known("store b", b"new disk", [], "c")
    assert not made.begun_enough()
    assert not made.begun("b", 1)
    assert made.promised("b", 1, own("b", "new disk")) is False
    assert made.begun("b", 1)
    assert made.begun_enough()


def test_a_promise_of_another_incarnation_says_that_the_former_is_gone() -> None:
    made = streaming()
    made.failed("c", NotRegistered("x", "blank"), 1.0)
    assert made.promised("c", 1, grant(disk="new disk"))
    assert isinstance(made.step("c"), AskBegin)
