"""Whom a source waits for: every receiver that a stable set may know, none that is gone."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.pacing import ReceiverPacing, may_send_upto, waited_for
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy

ABC = Policy.majority_of("abc")
POLICIES = [
    Policy.majority_of("a"),
    Policy.majority_of("ab"),
    ABC,
    Policy((Group("one", ("a", "b", "c"), IntragroupRule.ALL),)),
    Policy((Group("one", ("a", "b")), Group("two", ("c", "d"))), IntergroupRule.ANY),
    Policy((Group("one", ("a", "b")), Group("two", ("c", "d"))), IntergroupRule.ALL),
]


def test_a_receiver_counts_where_it_is_furthest_and_the_bound_is_of_the_slowest() -> None:
    told = {"a": {1: 5, 2: 7}, "b": {1: 9, 2: 3}, "c": {}}
    assert waited_for((ABC,), told, {"a", "b", "c"}) == {1: 9, 2: 7}
    pacing = ReceiverPacing(messages=10)
    assert may_send_upto(pacing, 7) == 17
    assert may_send_upto(pacing, -1) == 9, "ten of them"
    assert may_send_upto(pacing, SEQUENCE_MAX - 1) == SEQUENCE_MAX


def test_a_store_that_was_away_when_it_was_deregistered_keeps_no_receiver() -> None:
    told = {"a": {}, "b": {}, "c": {1: 5}}
    assert waited_for((ABC,), told, {"a", "b", "c"}) == {}
    assert waited_for((ABC,), told, {"a", "b"}) == {}


def test_a_store_that_was_away_when_it_was_registered_frees_no_receiver() -> None:
    told = {"a": {1: 5}, "b": {1: 4}, "c": {}}
    assert waited_for((ABC,), told, {"a", "b", "c"}) == {1: 5}
    # One of those that know it is killed: what it said last stands until it says something else.
    assert waited_for((ABC,), told, {"b", "c"}) == {1: 5}
    assert waited_for((ABC,), told, {"c"}) == {1: 5}


def test_what_a_store_does_not_say_now_frees_nobody() -> None:
    told = {"a": {}, "b": {}, "c": {1: 5}}
    assert waited_for((ABC,), told, {"a", "c"}) == {1: 5}


def test_while_the_stores_change_either_side_may_know_it() -> None:
    moving = (ABC, Policy.majority_of("def"))
    told = {"a": {1: 5}, "b": {1: 5}, "c": {1: 5}, "d": {}, "e": {}, "f": {}}
    assert waited_for(moving, told, set("abcdef")) == {1: 5}
    assert waited_for(moving[1:], told, set("abcdef")) == {}, "as its position is gone there, too"


@pytest.mark.parametrize("policy", POLICIES)
def test_in_every_small_world_who_is_registered_counts_and_who_is_gone_does_not(
    policy: Policy,
) -> None:
    stores = sorted(policy.stores)
    sets = [set(some) for n in range(len(stores) + 1) for some in combinations(stores, n)]
    for knowing, streaming in product(sets, repeat=2):
        told = {store: {1: 4} if store in knowing else {} for store in stores}
        counted = 1 in waited_for((policy,), told, streaming)
        if policy.stable(knowing):
            assert counted, "it is registered: enough stores know it"
        if policy.blocks(streaming - knowing):
            assert not counted, "it can not be: too few stores are left that could know it"
        if not knowing:
            assert not counted


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.dictionaries(st.integers(1, 4), st.integers(-1, 20)),
    ),
    st.sets(st.sampled_from("abc")),
    st.sampled_from("abc"),
    st.integers(1, 4),
    st.integers(0, 20),
)
def test_more_that_is_acknowledged_never_holds_a_source_back(
    told: dict[str, dict[int, int]], streaming: set[str], store: str, receiver: int, upto: int
) -> None:
    before = waited_for((ABC,), told, streaming)
    if receiver in told.get(store, {}):
        told[store][receiver] = max(upto, told[store][receiver])
        after = waited_for((ABC,), told, streaming)
        assert after.keys() == before.keys()
        assert all(after[each] >= before[each] for each in before)
    for said in told.values():
        said.pop(receiver, None)
    left = waited_for((ABC,), told, streaming)
    assert left == {each: before[each] for each in before if each != receiver}


@pytest.mark.parametrize("bound", [{"messages": 0}, {"bytes": 0}, {"messages": -1}])
def test_a_bound_must_let_something_pass(bound: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="receiver_pacing"):
        ReceiverPacing(**bound)
