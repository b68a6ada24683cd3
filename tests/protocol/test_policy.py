"""Policies by themselves. What the predicate means is in tests/brute_force, for all small ones."""

from __future__ import annotations

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.policy import (
    Group,
    IntergroupRule,
    IntragroupRule,
    Membership,
    Policy,
    quorum,
)


def test_a_shrinking_set_of_active_stores_never_becomes_a_quorum_of_one() -> None:
    policy = Policy((Group("g", ("a", "b", "c"), IntragroupRule.ALL_ACTIVE),))
    assert not policy.stable({"a"}, {"a"})
    assert policy.stable({"a", "b"}, {"a", "b"})
    assert not policy.stable({"a", "b"}, {"a", "b", "c"})


@pytest.mark.parametrize(
    ("members", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)]
)
def test_quorum(members: int, majority: int) -> None:
    assert quorum(members) == majority


def test_majority_of_is_one_group_with_a_quorum() -> None:
    policy = Policy.majority_of(["a", "b", "c"])
    assert policy.stores == {"a", "b", "c"}
    assert policy.stable({"a", "c"})
    assert not policy.stable({"a"})


@pytest.mark.parametrize(
    "groups",
    [
        (),
        (Group("g", ()),),
        (Group("g", ("a",)), Group("g", ("b",))),
        (Group("g", ("a",)), Group("h", ("a", "b"))),
        (Group("g", ("a", "a")),),
    ],
)
def test_impossible_policies_are_refused(groups: tuple[Group, ...]) -> None:
    with pytest.raises(InvalidArgument, match="policy"):
        Policy(groups)


def test_membership_names_each_policy_once() -> None:
    old, new = Policy.majority_of("abc"), Policy.majority_of("abd")
    assert Membership((old,), (old, new)).policies == (old, new)
    assert Membership((), (new,)).policies == (new,)


def test_who_could_stand_in_makes_no_difference_to_the_rules() -> None:
    without = Policy((Group("g", tuple("abc")),))
    spared = Policy((Group("g", tuple("abc"), backups=("d", "e")),))
    assert without == spared
    assert hash(without) == hash(spared)
    assert spared.stores == frozenset("abc")
    assert spared.backups == frozenset("de")
    assert not spared.stable({"a", "d"})


@pytest.mark.parametrize(
    "groups",
    [
        (Group("g", ("a",), backups=("a",)),),
        (Group("g", ("a",), backups=("b", "b")),),
        (Group("g", ("a",), backups=("b",)), Group("h", ("b",))),
        (Group("g", ("a",), backups=("c",)), Group("h", ("b",), backups=("c",))),
    ],
)
def test_a_backup_has_one_place(groups: tuple[Group, ...]) -> None:
    with pytest.raises(InvalidArgument, match="twice"):
        Policy(groups)


def test_what_is_a_variant_of_a_policy() -> None:
    declared = Policy((Group("g", tuple("abc"), backups=("d", "e")), Group("h", ("x",))))

    def variant(stores: str, name: str = "g", rule: IntragroupRule = IntragroupRule.QUORUM) -> bool:
        made = Policy((Group(name, tuple(stores), rule), Group("h", ("x",))))
        return made.is_variant_of(declared)

    assert variant("abc")
    assert variant("abd")
    assert variant("edc")
    assert not variant("abf")
    assert not variant("ab")
    assert not variant("abcd")
    assert not variant("abd", name="i")
    assert not variant("abd", rule=IntragroupRule.ALL)
    assert not Policy((Group("g", tuple("abc")),)).is_variant_of(declared)
    other_rule = Policy((Group("g", tuple("abc")), Group("h", ("x",))), IntergroupRule.ALL)
    assert not other_rule.is_variant_of(declared)


def test_a_confirmed_record_has_forgotten_where_it_came_from() -> None:
    old, new = Policy.majority_of("abc"), Policy.majority_of("def")
    record = Membership((old,), (new,), (("a", "a:1"),))
    assert record.stores == frozenset("abcdef")
    assert record.confirmed() == Membership((new,), (new,))
    assert record.confirmed().addresses == (("a", "a:1"),)


def test_policies_for_people() -> None:
    one = Policy((Group("g", tuple("abc"), backups=("d",)),))
    assert str(one) == "g (quorum of a, b, c; backups d)"
    two = Policy((*one.groups, Group("h", ("x",), IntragroupRule.ALL)), IntergroupRule.MAJORITY)
    assert str(two) == "majority of g (quorum of a, b, c; backups d) and h (all of x)"
