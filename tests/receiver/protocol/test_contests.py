"""A receiver and another instance of it: which one goes on, by what the stores say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.receiver.protocol.registering import (
    AWAY,
    INTERVAL,
    NEW,
    ONE,
    POLICY,
    YES,
    Registering,
    Said,
    asked,
)

from quorate.protocol.delays import CONTEST
from quorate.protocol.errors import (
    Fenced,
    NotRegistered,
)
from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Group, IntragroupRule, Policy
from quorate.receiver.protocol.registration import (
    Answered,
    Ask,
    Contested,
    Joined,
    Refused,
    TooFewTake,
    is_replaced,
)

# Another instance in the same epoch.


def contesting(**others: Said) -> Registering:
    """C has another instance in this one's epoch."""
    one = Registering()
    one.registered(a=YES, b=YES, c=AWAY)
    one.core.keep_house()
    one.said(c=1)
    assert asked(one.ask) == (("a", "b", "c"), 2)
    assert one.core.joined == frozenset(), "nobody is told anything meanwhile"
    (contested,) = one.told(Contested)
    assert (contested.error.epoch, contested.error.promised) == (1, 1)
    if others:
        one.said(**others)
    return one


def test_who_finds_its_epoch_elsewhere_goes_above_it() -> None:
    newest = ONE.extended(9, 2)
    one = contesting(a=YES, b=YES, c=replace(YES, lineage=newest))
    one.said(a=YES, b=YES, c=YES)
    assert one.is_done()
    assert one.error() is None
    assert one.core.joined == {"a", "b", "c"}
    assert one.told(Joined) == [Joined(frozenset("abc"))]
    assert [each.answer.lineage for each in one.told(Answered)] == [ONE, ONE, newest]


def test_who_finds_its_epoch_among_the_others_goes_above_it() -> None:
    one = Registering()
    one.registered(a=YES, b=YES)
    one.core.keep_house()
    one.said(c=YES)
    one.said(a=1, b=YES)
    assert asked(one.ask) == (("a", "b", "c"), 2)
    assert one.told(Contested)


def test_silent_stores_hold_a_contest_up_for_the_interval() -> None:
    one = contesting(a=YES, b=YES)
    assert not one.is_done()
    one.now += INTERVAL
    one.said(a=YES, b=YES)
    assert not one.is_done()
    one.now += INTERVAL
    assert one.is_done()
    assert one.core.joined == {"a", "b"}
    assert [each.store for each in one.told(Refused)] == ["c"]


def test_who_contests_where_too_few_take_it_tells_nobody() -> None:
    one = contesting(a=AWAY, b=AWAY, c=YES)
    assert one.is_done()
    assert one.error() is None
    assert one.core.joined == frozenset()
    assert not one.told(Joined)


def test_who_contests_tells_nobody_where_one_has_a_newer_instance_since() -> None:
    """A took it long before B did: a newer one may have begun with A and C meanwhile."""
    one = contesting(a=YES, c=AWAY)
    one.said(b=YES)
    assert asked(one.ask) == (("a", "b", "c"), 2)
    assert one.core.joined == frozenset()
    one.said(a=3, b=YES, c=AWAY)
    assert one.is_done()
    assert one.told(TooFewTake)
    assert one.core.joined == frozenset()


def test_those_that_had_its_former_epoch_have_no_newer_instance() -> None:
    one = Registering()
    one.registered(a=YES, b=YES)
    one.core.keep_house()
    one.said(c=YES)
    one.said(a=1, b=1)
    one.said(a=AWAY, b=AWAY, c=YES)
    assert one.is_done()
    assert one.error() is None


def test_who_contests_gives_way_to_a_higher_epoch() -> None:
    one = contesting(a=YES, b=5)
    assert one.is_done()
    assert one.fenced() == (2, 5)


@pytest.mark.parametrize(("b", "gives_way"), [(2, True), (3, True), (YES, False), (AWAY, False)])
def test_who_contests_gives_way_to_one_that_enough_stores_have(b: Said, gives_way: bool) -> None:
    """Each took the next epoch at some store; the others are asked too before anybody gives way."""
    one = contesting(a=2)
    assert asked(one.ask) == (("a", "b", "c"), 2)
    one.said(a=2, b=b, c=AWAY)
    if gives_way:
        assert one.is_done()
        assert one.fenced() == (2, max(2, b if isinstance(b, int) else 0))
    else:
        one.rests(CONTEST)
        assert asked(one.ask) == (("a", "b", "c"), 3)


def test_who_compares_waits_for_the_interval_and_no_longer() -> None:
    one = contesting(a=2)
    one.said(a=2)
    assert one.core.wait_until() == one.now + INTERVAL
    one.now += INTERVAL
    one.rests(CONTEST)


def test_who_has_just_taken_it_is_asked_again_too_who_is_how_far() -> None:
    one = contesting(a=YES, b=2)
    assert one.ask.stores == ("a", "b", "c")
    one.said(a=4, b=2)
    one.now += INTERVAL
    assert one.is_done()
    assert one.fenced() == (2, 4)


def test_what_is_heard_one_by_one_in_a_contest_counts_together() -> None:
    one = contesting(a=2)
    one.said(a=8, b=AWAY, c=AWAY)
    one.rests(CONTEST)
    one.said(b=3)
    one.said(a=AWAY, b=9, c=AWAY)
    one.rests(CONTEST)
    one.said(a=AWAY, b=AWAY, c=AWAY)
    assert one.is_done()
    assert one.fenced() == (4, 9)


def test_who_contests_tells_also_that_it_had_ended() -> None:
    one = contesting(a=replace(NEW, told_ended=1), b=YES, c=AWAY)
    assert asked(one.ask) == (("b", "c"), 2)
    assert one.ask.request.ended_epoch == 1
    one.said(b=NEW, c=AWAY)
    one.said(a=NEW, b=NEW, c=AWAY)
    assert one.is_done()
    assert one.core.joined == {"a", "b"}
    assert one.core.answers["b"].acknowledged_upto == NOTHING


# The place of another.


def test_one_that_is_newer_at_enough_stores_has_taken_its_place() -> None:
    """The source has moved: none of those that knew the older one says so."""
    one = Registering()
    one.registered()
    for store in "ab":
        one.core.forget(store)
    one.core.keep_house()
    one.said(a=7)
    one.said(b=AWAY)
    assert one.is_done()
    assert one.error() is None, "a alone may be of one that reached nobody else"
    one.core.keep_house()
    one.said(a=AWAY)
    one.said(b=7)
    assert one.is_done()
    assert one.fenced() == (1, 7)


def test_a_store_that_takes_it_again_has_no_newer_one() -> None:
    one = Registering()
    one.registered()
    for store, said in (("a", 7), ("a", YES), ("b", 7)):
        one.core.forget(store)
        one.core.keep_house()
        one.said(**{store: said})
        one.said(**dict.fromkeys(one.ask.stores, YES)) if isinstance(one.step, Ask) else None
        assert one.is_done()
        assert one.error() is None


def test_of_two_that_each_have_too_few_the_older_one_gives_way() -> None:
    every = Policy((Group("g", tuple("abc"), IntragroupRule.ALL),))
    joined, nowhere = frozenset("abc"), frozenset[str]()
    assert is_replaced(every, nowhere, {"a"}), "it would need a"
    assert not is_replaced(every, joined, {"a"}), "it has what it needs, until a tells it"
    assert not is_replaced(every, nowhere, nowhere)
    assert not is_replaced(POLICY, nowhere, {"a"}), "b and c are enough"
    assert is_replaced(POLICY, nowhere, {"a", "b"})
    assert is_replaced(POLICY, joined, {"a", "b"})


# Acknowledgements that are refused.


def test_a_store_that_takes_no_position_is_asked_again_to_register_it() -> None:
    one = Registering()
    one.registered()
    one.core.acknowledgement_refused("b", 1, NotRegistered("receiver", "not known"))
    assert one.core.joined == {"a", "c"}
    assert sorted(one.core.answers) == ["a", "c"]
    one.core.keep_house()
    assert one.ask.stores == ("b",)


def test_one_store_with_a_higher_epoch_ends_it() -> None:
    one = Registering()
    one.registered()
    fenced = Fenced("receiver", 1, 2)
    one.core.acknowledgement_refused("b", 1, fenced)
    assert one.error() is fenced
    one.core.keep_house()
    assert one.is_done()


def test_its_epoch_ends_it_where_enough_stores_have_another_in_it() -> None:
    one = Registering()
    one.registered()
    for _ in range(2):
        one.core.acknowledgement_refused("b", 1, Fenced("receiver", 1, 1))
    assert one.error() is None
    assert one.core.joined == {"a", "b", "c"}
    one.core.acknowledgement_refused("c", 1, Fenced("receiver", 1, 1))
    assert one.fenced() == (1, 1)


def test_a_store_that_registers_it_again_has_no_other_in_its_epoch() -> None:
    one = Registering()
    one.registered()
    one.core.acknowledgement_refused("b", 1, Fenced("receiver", 1, 1))
    one.core.forget("b")
    one.core.keep_house()
    one.said(b=YES)
    one.said(a=YES, c=YES)
    assert one.is_done()
    one.core.acknowledgement_refused("c", 1, Fenced("receiver", 1, 1))
    assert one.error() is None


def test_it_is_not_ended_by_itself() -> None:
    """A store may refuse an acknowledgement that was sent before its higher epoch."""
    one = contesting(a=YES, b=YES, c=YES)
    one.said(a=YES, b=YES, c=YES)
    assert one.is_done()
    for store in "abc":
        one.core.acknowledgement_refused(store, 1, Fenced("receiver", 1, 2))
    assert one.error() is None
    assert one.core.joined == {"a", "b", "c"}


def test_what_ends_it_ends_what_is_under_way() -> None:
    one = Registering()
    one.registered(a=YES, b=YES)
    one.core.keep_house()
    assert not one.is_done()
    one.core.acknowledgement_refused("a", 1, Fenced("receiver", 1, 2))
    assert one.is_done()
