"""The rules of access: what is permitted, and that the rest is denied."""

from __future__ import annotations

import pytest

from quorate.protocol.access import (
    EVERYTHING,
    Access,
    AccessRule,
    Limits,
    Subject,
    Verb,
)
from quorate.protocol.errors import AccessDenied, InvalidArgument

DESK = AccessRule(frozenset({"desk"}), frozenset({Verb.SEND}), ("orders\\..*", "trades"))
ALL = AccessRule(frozenset({"*"}), frozenset({Verb.QUERY}))
ACCESS = Access((DESK, ALL))


def may(names: set[str], verb: Verb, *subjects: Subject) -> bool:
    try:
        ACCESS.check(frozenset(names), (verb,), subjects)
    except AccessDenied:
        return False
    return True


@pytest.mark.parametrize(
    ("names", "verb", "subject", "permitted"),
    [
        ({"desk"}, Verb.SEND, Subject("orders.eu"), True),
        ({"desk", "10.0.0.1"}, Verb.SEND, Subject("trades"), True),
        ({"desk"}, Verb.SEND, Subject("orders"), False),
        ({"desk"}, Verb.SEND, Subject("my orders.eu"), False),
        ({"desk"}, Verb.RECEIVE, Subject("orders.eu"), False),
        ({"other"}, Verb.SEND, Subject("orders.eu"), False),
        ({"*"}, Verb.SEND, Subject("orders.eu"), False),
        (set(), Verb.SEND, Subject("orders.eu"), False),
        ({"desk"}, Verb.SEND, Subject("orders\\..*", is_pattern=True), True),
        ({"desk"}, Verb.SEND, Subject("orders\\.e.*", is_pattern=True), False),
        ({"desk"}, Verb.SEND, Subject("trades", is_pattern=True), True),
        ({"desk"}, Verb.SEND, EVERYTHING, False),
        ({"anybody"}, Verb.QUERY, EVERYTHING, True),
        ({"anybody"}, Verb.QUERY, Subject(".*", is_pattern=True), True),
        (set(), Verb.QUERY, EVERYTHING, False),
    ],
)
def test_permitted(names: set[str], verb: Verb, subject: Subject, permitted: bool) -> None:
    assert may(names, verb, subject) is permitted


def test_each_subject_must_be_permitted() -> None:
    assert may({"desk"}, Verb.SEND, Subject("trades"), Subject("orders.eu"))
    assert not may({"desk"}, Verb.SEND, Subject("trades"), Subject("quotes"))


def test_one_of_the_verbs_is_enough() -> None:
    ACCESS.check(frozenset({"desk"}), (Verb.RECEIVE, Verb.SEND), [Subject("trades")])


def test_without_rules_everything_is_denied() -> None:
    with pytest.raises(AccessDenied) as caught:
        Access(()).check(frozenset({"b", "a"}), (Verb.SEND, Verb.QUERY), [Subject("t")])
    error = caught.value
    assert (error.identity, error.verb, error.topic) == ("a, b", "send", "t")
    assert "a, b may not send topic t" in str(error)


def test_the_tightest_limit_of_all_rules_about_a_caller_counts() -> None:
    send = frozenset({Verb.SEND})
    access = Access(
        (
            AccessRule(frozenset({"*"}), send, (), Limits(connections=9, subscriptions=5)),
            AccessRule(frozenset({"a"}), send, (), Limits(connections=2)),
            AccessRule(frozenset({"b"}), send, (), Limits(connections=1)),
            AccessRule(frozenset({"a"}), send),
        )
    )
    assert access.limits(frozenset({"a"})) == Limits(2, 5, 0.0)
    assert access.limits(frozenset({"c"})) == Limits(9, 5, 0.0)
    assert access.limits(frozenset()) == Limits()


def test_a_pattern_that_re2_refuses_is_no_rule() -> None:
    with pytest.raises(InvalidArgument):
        AccessRule(frozenset({"a"}), frozenset({Verb.SEND}), ("(",))
