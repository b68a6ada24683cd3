"""What a receiver asks of which store, and what it is registered as by what they say: no calls."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.receiver.fakes import NAME
from tests.receiver.protocol.registering import (
    AWAY,
    INTERVAL,
    NEW,
    YES,
    Registering,
    Said,
    active,
    asked,
)

from quorate.protocol.delays import REST
from quorate.protocol.errors import (
    Fenced,
    InLimbo,
    ReceiverActive,
    RegIdInUse,
    StoreStopping,
    Unreachable,
)
from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Policy
from quorate.receiver.protocol.registration import (
    Answered,
    Joined,
    OutdatedForgotten,
    Refused,
    RegistrationRequest,
    TooFewTake,
)

# Asking without registering.


def test_whoever_only_asks_joins_nothing_and_then_asks_all_anew_in_a_higher_epoch() -> None:
    one = Registering()
    one.core.ask()
    assert [one.ask.request.asks_only] == [True]
    one.said(a=replace(YES, epoch=3), b=replace(YES, epoch=5), c=NEW)
    assert one.is_done()
    assert one.enough()
    assert not one.core.joined
    assert not one.told(Joined)
    assert [one.core.answers[store].is_new for store in "abc"] == [False, False, True]
    one.core.register()
    assert not one.enough(), "answers to questions are no registration"
    assert [one.ask.request.asks_only] == [False]
    assert asked(one.ask) == (("a", "b", "c"), 6)
    one.said(a=YES, b=YES, c=YES)
    assert one.is_done()
    assert one.core.joined == {"a", "b", "c"}
    assert not one.core.answers["c"].is_new, "another instance has registered there since"


def test_enough_stores_have_to_answer_at_the_same_time() -> None:
    one = Registering()
    one.core.ask()
    one.said(a=YES, b=AWAY, c=AWAY)
    assert one.is_done()
    one.core.ask()
    one.said(a=AWAY, b=YES, c=AWAY)
    assert one.is_done()
    assert not one.enough()


def test_a_store_that_was_silent_when_it_was_asked_is_not_waited_for_again() -> None:
    one = Registering()
    one.core.ask()
    one.said(a=YES, b=YES)
    assert not one.is_done()
    one.now = INTERVAL
    assert one.is_done()
    one.core.register()
    one.said(a=YES)
    assert not one.is_done(), "one is not enough"
    one.said(b=YES)
    assert one.is_done()
    assert one.core.joined == {"a", "b"}
    one.core.keep_house()
    assert one.ask.stores == ("c",), "it joins when it answers"


def test_a_question_tells_the_stores_which_epochs_have_ended() -> None:
    one = Registering()
    one.core.ask()
    one.said(a=replace(YES, told_ended=4, epoch=4), b=YES, c=replace(YES, told_ended=4, epoch=4))
    assert one.ask.stores == ("b",)
    assert (one.ask.request.ended_epoch, one.ask.request.epoch) == (4, 5)
    one.said(b=NEW)
    assert one.is_done()
    assert one.core.answers["b"].acknowledged_upto == NOTHING


def test_questions_fail_for_what_registrations_fail_for() -> None:
    for error in (RegIdInUse(5, "a", "another"), ReceiverActive("it", "a", 60_000)):
        one = Registering()
        one.core.ask()
        one.said(a=error, b=error)
        assert one.is_done()
        assert one.error() is error


# Everybody, in one epoch.


def test_every_store_is_asked_at_once_for_the_same() -> None:
    one = Registering(take_over=True)
    one.core.register()
    assert one.ask.stores == ("a", "b", "c")
    assert one.ask.request == RegistrationRequest(NAME, 0x20, 1, b"this", 0, take_over=True)
    assert one.ask is one.ask, "nothing else is to be done before they answer"


def test_it_is_registered_when_all_have_said_something() -> None:
    one = Registering()
    one.core.register()
    one.said(a=YES, b=YES)
    assert not one.is_done()
    one.said(c=AWAY)
    assert one.is_done()
    assert one.core.joined == {"a", "b"}
    assert one.told(Joined) == [Joined(frozenset("ab"))]
    assert one.core.reg_id == 100
    one.core.register()
    one.said(c=replace(YES, reg_id=101))
    assert one.is_done()
    assert one.core.reg_id == 0, "they assigned different ones"


def test_silent_stores_hold_it_up_no_longer_than_the_interval() -> None:
    one = Registering()
    one.core.register()
    one.said(a=YES)
    assert one.core.wait_until() is None, "one is not enough, so that it waits for another"
    one.now = 5 * INTERVAL
    assert not one.is_done()
    one = Registering()
    one.core.register()
    one.said(a=YES, b=YES)
    assert one.core.wait_until() == INTERVAL
    one.now = INTERVAL - 0.01
    assert not one.is_done()
    one.now = INTERVAL
    assert one.is_done()
    (silent,) = one.told(Refused)
    assert (silent.store, str(silent.error)) == (
        "c",
        str(Unreachable("c:1", "it did not answer in time")),
    )


def test_all_get_one_epoch_above_any_that_some_store_holds() -> None:
    one = Registering()
    one.core.register()
    one.said(a=2, b=4)
    one.rests(REST)
    assert asked(one.ask) == (("a", "b", "c"), 5)
    assert not one.told(Refused), "nobody was waited for in vain"


def test_what_is_not_asked_any_more_is_not_heard() -> None:
    one = Registering()
    one.core.register()
    former = one.ask
    one.said(a=YES, b=1)
    one.rests(REST)
    one.core.answered(former, "a", YES)
    one.core.failed(former, "b", Fenced("it", 1, 8))
    assert not one.core.answers
    assert asked(one.ask) == (("a", "b", "c"), 2)


def test_too_few_are_no_registration_and_the_others_are_asked_again() -> None:
    one = Registering()
    one.core.register()
    one.said(a=YES, b=replace(YES, limbo=True), c=InLimbo("it", "c", "wiped"))
    assert one.is_done()
    assert not one.enough()
    assert not one.core.joined
    assert one.core.in_limbo == {"b", "c"}
    one.core.register()
    assert asked(one.ask) == (("b", "c"), 1)
    one.said(b=InLimbo("it", "b", "wiped"), c=YES)
    assert one.is_done()
    assert one.enough()
    assert one.core.in_limbo == {"b"}


def test_a_store_is_named_once_for_each_kind_of_reason() -> None:
    one = Registering()
    why = (AWAY, AWAY, InLimbo("it", "c", "wiped"), YES, AWAY)
    for each in why:
        one.core.forget("c")
        one.core.register()
        one.said(c=each, **({} if one.core.answers else {"a": YES, "b": YES}))
        assert one.is_done()
    assert [type(each.error) for each in one.told(Refused)] == [
        StoreStopping,
        InLimbo,
        StoreStopping,
    ]


# Stores that come and go.


def test_stores_that_the_source_has_not_any_more_have_no_say() -> None:
    one = Registering()
    one.core.register()
    one.said(a=YES, b=YES)
    one.core.source_has([("c", "c:1"), ("d", "d:1"), ("e", "e:1")], Policy.majority_of("cde"))
    assert not one.core.answers
    one.said(c=YES)
    assert one.is_done()
    assert not one.enough()
    one.core.register()
    assert asked(one.ask) == (("d", "e"), 1)


def test_an_answer_that_comes_when_the_store_is_gone_is_void() -> None:
    one = Registering()
    one.core.register()
    one.said(a=YES)
    one.core.source_has([("a", "a:1"), ("b", "b:1")], Policy.majority_of("ab"))
    one.said(c=9)
    one.said(b=YES)
    assert one.is_done()
    assert one.core.joined == {"a", "b"}


# Ends, and epochs that were used.


def test_who_had_not_heard_that_it_ended_is_told_and_asked_anew() -> None:
    one = Registering()
    one.core.register()
    one.said(a=replace(NEW, told_ended=4), b=YES, c=YES)
    assert asked(one.ask) == (("b", "c"), 1)
    assert one.ask.request.ended_epoch == 4
    assert one.told(OutdatedForgotten) == [OutdatedForgotten(frozenset("bc"))]
    one.said(b=NEW, c=NEW)
    assert one.is_done()
    assert {each.acknowledged_upto for each in one.core.answers.values()} == {NOTHING}
    assert {each.told_ended for each in one.core.answers.values()} == {4}


def test_a_store_that_knew_nobody_before_this_instance_still_did_not() -> None:
    one = Registering()
    one.core.register()
    one.said(a=NEW, b=3)
    one.rests(REST)
    one.said(a=YES, b=YES, c=AWAY)
    assert one.is_done()
    assert {store: each.is_new for store, each in one.core.answers.items()} == {
        "a": True,
        "b": False,
    }


# Identities that others have.


def test_another_that_lives_keeps_it_out_if_too_few_register_it() -> None:
    one = Registering()
    active = ReceiverActive("receiver 0x20", "c")
    one.core.register()
    one.said(a=YES, b=YES, c=active)
    assert one.is_done()
    assert one.error() is None
    one = Registering()
    one.core.register()
    one.said(a=YES, b=AWAY, c=active)
    assert one.is_done()
    assert one.error() is active


def test_what_a_silent_store_would_say_does_not_matter_if_too_few_are_left() -> None:
    one = Registering()
    one.core.register()
    one.said(a=active(6), b=active(6))
    assert one.is_done(), "it does not wait for c"
    assert isinstance(one.error(), ReceiverActive)


def test_a_protection_that_ends_in_time_is_waited_for() -> None:
    one = Registering()
    one.core.protection.until = 10.0
    one.core.register()
    one.said(a=active(6), b=active(5))
    assert one.is_done()
    assert one.error() is None
    assert one.core.waiting_for_identity(2.0) == (("a", "b"), 4.0)
    one.now = 6.5
    one.registered()
    assert one.enough()
    assert one.core.waiting_for_identity(7.0) is None


def test_a_receiver_that_acknowledges_meanwhile_is_not_waited_for() -> None:
    one = Registering()
    one.core.protection.until = 30.0
    for one.now in (0.0, 3.0):
        one.core.register()
        one.said(a=active(6), b=active(6))
        assert one.is_done()
    assert isinstance(one.error(), ReceiverActive)


def test_a_reg_id_that_another_has_ends_only_what_has_not_begun() -> None:
    one = Registering()
    taken = RegIdInUse(5, "c", "another")
    one.core.register()
    one.said(a=YES, c=taken)
    assert one.is_done()
    assert one.error() is taken
    one = Registering()
    one.registered(a=YES, b=YES)
    one.core.keep_house()
    one.said(c=taken)
    assert one.is_done()
    assert one.error() is None
    assert one.told(Refused) == [Refused("c", taken)]


# Those that join later.


def test_those_that_do_not_know_it_are_asked_one_after_the_other() -> None:
    one = Registering("abcde", Policy.majority_of("abcde"))
    one.registered(a=YES, b=YES, c=YES)
    one.core.keep_house()
    assert asked(one.ask) == (("d",), 1)
    assert one.core.wait_until() is None, "a call has its own time"
    one.said(d=AWAY)
    assert asked(one.ask) == (("e",), 1)
    one.said(e=YES)
    assert asked(one.ask) == (("a", "b", "c", "d"), 1), "whether they still take it"
    assert one.told(Answered) == [Answered("e", one.core.answers["e"])]
    assert one.core.joined == {"a", "b", "c"}
    one.said(a=YES, b=YES, c=YES, d=AWAY)
    assert one.is_done()
    assert one.core.joined == {"a", "b", "c", "e"}
    assert one.told(Joined) == [Joined(frozenset("e"))]


def test_nobody_is_asked_when_all_know_it() -> None:
    one = Registering()
    one.registered()
    one.core.keep_house()
    assert one.is_done()


def test_others_that_are_silent_hold_joining_up_for_the_interval() -> None:
    one = Registering()
    one.registered(a=YES, b=YES)
    one.core.keep_house()
    one.said(c=YES)
    one.said(a=YES)
    assert not one.is_done()
    assert one.core.wait_until() == one.now + INTERVAL
    one.now += INTERVAL
    assert one.is_done()
    assert one.core.joined == {"a", "b", "c"}


@pytest.mark.parametrize("others", [{}, {"a": 2, "b": AWAY}, {"a": replace(YES, limbo=True)}])
def test_none_is_joined_where_too_few_others_still_take_it(others: dict[str, Said]) -> None:
    one = Registering()
    one.registered(a=YES, b=YES)
    one.core.keep_house()
    one.said(c=YES)
    one.said(**others)
    one.now += INTERVAL
    assert one.is_done()
    assert one.told(TooFewTake)
    assert one.core.joined == {"a", "b"}
    one.core.keep_house()
    one.said(c=AWAY)
    assert one.is_done(), "nobody is to be joined now"


@pytest.mark.parametrize(("a", "joined"), [(YES, {"a", "b"}), (5, set())])
def test_of_several_that_are_joined_each_is_asked_whether_it_still_takes_it(
    a: Said, joined: set[str]
) -> None:
    """A took it long before B did: a newer one may have begun with A and C meanwhile."""
    one = Registering()
    one.registered()
    for store in "abc":
        one.core.forget(store)
    one.core.keep_house()
    for said in ({"a": YES}, {"b": YES}, {"c": AWAY}):
        one.said(**said)
    assert asked(one.ask) == (("a", "b", "c"), 1)
    one.said(a=a, b=YES, c=AWAY)
    assert one.is_done()
    assert one.core.joined == joined


def test_a_store_that_the_source_has_not_any_more_is_not_asked() -> None:
    one = Registering("abcde", Policy.majority_of("abcde"))
    one.registered(a=YES, b=YES, c=YES)
    one.core.keep_house()
    assert one.ask.stores == ("d",)
    one.core.source_has([(store, f"{store}:1") for store in "abcd"], Policy.majority_of("abcd"))
    one.said(d=AWAY)
    assert one.is_done()


def test_one_that_is_forgotten_while_the_others_are_asked_is_not_joined() -> None:
    one = Registering()
    one.registered(a=YES, b=YES)
    one.core.keep_house()
    one.said(c=YES)
    ask = one.ask
    one.core.forget("c")
    for store in "ab":
        one.core.answered(ask, store, YES)
    assert one.is_done()
    assert one.core.joined == {"a", "b"}
