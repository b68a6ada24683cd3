"""A receiver and another instance of it: which one goes on, by what the stores say."""

from __future__ import annotations

import pytest
from tests.receiver.protocol.registering import (
    AWAY,
    POLICY,
    YES,
    Registering,
)

from quorate.protocol.errors import (
    Deregistered,
    Fenced,
    NotRegistered,
)
from quorate.protocol.policy import Group, IntragroupRule, Policy
from quorate.receiver.protocol.registration import (
    Ask,
    is_replaced,
)

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
    one.core.acknowledgement_refused("b", NotRegistered("receiver", "not known"))
    assert one.core.joined == {"a", "c"}
    assert sorted(one.core.answers) == ["a", "c"]
    one.core.keep_house()
    assert one.ask.stores == ("b",)


@pytest.mark.parametrize("promised", [1, 2])
def test_one_store_with_a_greater_ballot_ends_it(promised: int) -> None:
    one = Registering()
    one.registered()
    fenced = Fenced("receiver", 1, promised)
    one.core.acknowledgement_refused("b", fenced)
    assert one.error() is fenced
    one.core.keep_house()
    assert one.is_done()


def test_one_store_that_has_heard_of_its_end_ends_it() -> None:
    for is_acknowledged in (True, False):
        one = Registering()
        one.registered(a=YES, b=YES)
        ended = Deregistered("receiver")
        if is_acknowledged:
            one.core.acknowledgement_refused("b", ended)
        else:
            one.core.keep_house()
            assert one.ask.request.is_open
            one.said(c=ended)
        assert one.is_done()
        assert one.error() is ended


def test_what_ends_it_ends_what_is_under_way() -> None:
    one = Registering()
    one.registered(a=YES, b=YES)
    one.core.keep_house()
    assert not one.is_done()
    one.core.acknowledgement_refused("a", Fenced("receiver", 1, 2))
    assert one.is_done()
