"""A registration of a source while its policy changes, or a backup stands in."""

from __future__ import annotations

from tests.begun import rebegun
from tests.source.protocol.registering import (
    NAME,
    NOTHING_OWN,
    begin_all,
    decided,
    grant,
    held,
    promise_all,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    Fenced,
    NoQuorum,
    PolicyNotInForce,
)
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, Membership, Policy
from quorate.protocol.recovery import Promise
from quorate.source.protocol.registration import (
    AskBegin,
    Registration,
)

OLD, NEW = Policy.majority_of("abc"), Policy.majority_of("bcd")


def moving(stores: str = "abcd", new: Policy = NEW) -> Registration:
    made = Registration(NAME, new, tuple(stores), Behaviour.HIGHEST, 3.0, [OLD])
    made.start(0.0)
    made.failed("a", Fenced("x", 1, 1), 0.0)
    return made


def test_a_new_policy_comes_in_by_way_of_both_and_the_record_then_forgets() -> None:
    made = moving()
    promise_all(made, "abcd", held(9))
    decided(made)
    assert made.membership == Membership((OLD,), (OLD, NEW))
    begin_all(made, "abcd")
    made.streaming()
    answer = Promise(BeginRecord(made.lineage, made.membership))
    made.start(5.0, made.epoch + 1, advance=True)
    promise_all(made, "abcd", answer)
    decided(made, 5.0)
    assert made.membership == Membership((OLD, NEW), (NEW,))
    assert made.changing
    begin_all(made, "ab")
    assert not made.begun_enough()
    begin_all(made, "c")
    assert made.begun_enough()
    made.confirm()
    assert made.final
    assert made.wanted() == ("a", "b", "c", "d")
    # An answer to the begin that was on its way is no confirmation.
    made.begun("d", made.epoch, Membership((OLD, NEW), (NEW,)))
    made.begun("b", made.epoch)
    assert not made.confirmed_enough()
    assert isinstance(made.step("d"), AskBegin)
    made.begun("d", made.epoch)
    assert made.confirmed_enough()


def test_a_registration_for_another_reason_does_not_drop_the_old_policy() -> None:
    made = moving()
    promise_all(made, "abcd", held(9))
    decided(made)
    begin_all(made, "abcd")
    made.streaming()
    answer = Promise(BeginRecord(made.lineage, made.membership))
    made.start(5.0, made.epoch + 1)
    promise_all(made, "abcd", answer)
    decided(made, 5.0)
    assert made.membership == Membership((OLD, NEW), (OLD, NEW))


def test_a_begin_counts_only_on_a_stable_set_of_the_old_stores_too() -> None:
    made = moving("abcdef", Policy.majority_of("def"))
    promise_all(made, "abcdef", held(9))
    decided(made)
    begin_all(made, "def")
    assert not made.begun_enough()
    begin_all(made, "ab")
    assert made.begun_enough()


def test_while_nothing_was_ever_begun_the_previous_policies_are_in_force() -> None:
    made = Registration(
        NAME, Policy.majority_of("def"), tuple("def"), Behaviour.HIGHEST, 3.0, [OLD]
    )
    made.start(0.0)
    assert made.wanted() == tuple("defabc")
    promise_all(made, "def")
    assert made.decide(5.0, NOTHING_OWN) is None
    assert isinstance(made.unfinished(), NoQuorum)
    promise_all(made, "ab")
    decided(made, 5.0)
    assert made.membership.from_policies == (OLD, Policy.majority_of("def"))


def test_a_stable_set_decides_nothing_where_stable_sets_do_not_meet() -> None:
    """What is stable on a and b may be unknown to c, which is a stable set by itself."""
    either = Policy((Group("here", ("a", "b")), Group("there", ("c",))))
    made = Registration(NAME, either, tuple("abc"), Behaviour.HIGHEST, 3.0, [])
    made.start(0.0)
    made.failed("b", Fenced("x", 1, 1), 0.0)
    known = Promise(BeginRecord(Lineage((Term(1, 0),)), Membership((either,), (either,))))
    promise_all(made, "c", known)
    assert made.decide(5.0, NOTHING_OWN) is None
    promise_all(made, "a", known)
    decided(made, 5.0)


def test_previous_stores_are_not_waited_for_once_a_record_without_them_was_found() -> None:
    new = Policy.majority_of("def")
    made = Registration(NAME, new, tuple("def"), Behaviour.HIGHEST, 3.0, [OLD])
    made.start(0.0)
    made.failed("a", Fenced("x", 1, 1), 0.0)
    promise_all(
        made, "def", Promise(BeginRecord(Lineage((Term(1, 0),)), Membership((new,), (new,))))
    )
    assert made.wanted() == tuple("def")
    decided(made)
    assert made.final


def test_a_confirmed_record_is_taken_before_the_same_one_that_is_not() -> None:
    made = Registration(NAME, NEW, tuple("bcd"), Behaviour.HIGHEST, 3.0)
    made.start(0.0)
    made.failed("b", Fenced("x", 1, 5), 0.0)
    lineage = Lineage((Term(5, 0),))
    for store, membership in zip(
        "bc", (Membership((OLD, NEW), (NEW,)), Membership((NEW,), (NEW,))), strict=True
    ):
        made.promised(store, made.epoch, grant(Promise(BeginRecord(lineage, membership))))
    decided(made, 3.0)
    assert made.final


def test_the_old_configuration_may_take_a_change_back_that_is_under_way() -> None:
    made = Registration(NAME, OLD, tuple("abc"), Behaviour.HIGHEST, 3.0)
    made.start(0.0)
    made.failed("a", Fenced("x", 1, 1), 0.0)
    answer = Promise(BeginRecord(Lineage((Term(1, 0),)), Membership((OLD,), (OLD, NEW))))
    promise_all(made, "abc", answer)
    assert made.wanted() == tuple("abcd")
    decided(made, 3.0)
    assert made.membership == Membership((OLD, NEW), (OLD, NEW))


def test_the_old_configuration_is_refused_once_the_new_one_was_confirmed() -> None:
    made = Registration(NAME, OLD, tuple("abc"), Behaviour.HIGHEST, 3.0)
    made.start(0.0)
    made.failed("a", Fenced("x", 1, 1), 0.0)
    answer = Promise(BeginRecord(Lineage((Term(1, 0),)), Membership((NEW,), (NEW,))))
    made.promised("a", made.epoch, grant(answer))
    assert made.decide(3.0, NOTHING_OWN) is None
    # One store alone may have been begun by a minority that never counted.
    assert made.error is None
    made.promised("b", made.epoch, grant(answer))
    assert made.decide(3.0, NOTHING_OWN) is None
    assert isinstance(made.error, PolicyNotInForce)


def test_a_backup_that_stands_in_goes_on_doing_so_after_a_restart() -> None:
    declared = Policy((Group("g", tuple("abc"), backups=("d",)),))
    present = Policy((Group("g", tuple("abd")),))
    made = Registration(NAME, declared, tuple("abc"), Behaviour.HIGHEST, 3.0)
    made.start(0.0)
    made.failed("a", Fenced("x", 1, 1), 0.0)
    promise_all(
        made, "ab", Promise(BeginRecord(Lineage((Term(1, 0),)), Membership((present,), (present,))))
    )
    assert made.wanted() == tuple("abcd")
    decided(made, 3.0)
    assert made.policy == present
    assert made.final


def test_a_backup_that_stands_in_is_enough_for_a_restart_with_one_member() -> None:
    """The instance before went on so. Two of the declared members are away."""
    declared = Policy((Group("g", tuple("abc"), backups=("d",)),))
    present = Policy((Group("g", tuple("abd")),))
    made = Registration(NAME, declared, tuple("abcd"), Behaviour.HIGHEST, 3.0)
    made.start(0.0)
    made.failed("a", Fenced("x", 1, 1), 0.0)
    both = Promise(BeginRecord(Lineage((Term(1, 0),)), Membership((declared, present), (present,))))
    promise_all(made, "ad", both)
    # Nobody knows yet whether the change to the backup counts.
    assert made.decide(3.0, NOTHING_OWN) is None
    alone = Membership((present,), (present,))
    promise_all(made, "d", rebegun(both, membership=alone))
    decided(made, 3.0)
    assert made.policy == present
    begin_all(made, "ad")
    assert made.begun_enough()
