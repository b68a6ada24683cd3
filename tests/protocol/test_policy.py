"""The stability predicate against its plain definition, for every configuration up to five stores.

The definition is written from the rules' text, over bit masks, and shares nothing with the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

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

NAMES = "abcde"


@dataclass(frozen=True)
class Configuration:
    """Sizes and rules of the groups, the intergroup rule, and the definition over bit masks."""

    groups: tuple[tuple[int, IntragroupRule], ...]
    rule: IntergroupRule

    def __str__(self) -> str:
        groups = "+".join(f"{size}:{rule.value}" for size, rule in self.groups)
        return f"{groups}/{self.rule.value}"

    @property
    def stores(self) -> int:
        return sum(size for size, _ in self.groups)

    @property
    def sets(self) -> range:
        """Every set of stores, as a bit mask."""
        return range(1 << self.stores)

    @property
    def policy(self) -> Policy:
        groups, at = [], 0
        for number, (size, rule) in enumerate(self.groups):
            groups.append(Group(f"g{number}", tuple(NAMES[at : at + size]), rule))
            at += size
        return Policy(tuple(groups), self.rule)

    def defined(self, holders: int, active: int) -> bool:
        """Whether a message on the holders is stable while these stores are active."""
        complete: list[bool] = []
        taking_part: list[bool] = []
        for size, rule in self.groups:
            mine, awake = holders & (1 << size) - 1, active & (1 << size) - 1
            holders, active = holders >> size, active >> size
            majority = mine.bit_count() > size / 2
            complete.append(
                {
                    IntragroupRule.QUORUM: majority,
                    IntragroupRule.ALL: mine.bit_count() == size,
                    IntragroupRule.ALL_ACTIVE: majority and awake & ~mine == 0,
                }[rule]
            )
            taking_part.append(awake.bit_count() > size / 2)
        most = sum(complete) > len(complete) / 2
        return {
            IntergroupRule.ANY: any(complete),
            IntergroupRule.MAJORITY: most,
            IntergroupRule.ALL: all(complete),
            IntergroupRule.ALL_ACTIVE: most
            and all(done for done, part in zip(complete, taking_part, strict=True) if part),
        }[self.rule]

    @cached_property
    def may_be(self) -> list[bool]:
        """By set of holders: whether the message is stable under some set of active stores."""
        return [any(self.defined(held, active) for active in self.sets) for held in self.sets]

    def blocks(self, blocking: int) -> bool:
        """Whether no set without these stores may be stable."""
        return not any(self.may_be[held] for held in self.sets if held & blocking == 0)


def configurations() -> Iterator[Configuration]:
    for count in (1, 2, 3):
        kinds = [(size, rule) for size in range(1, 6) for rule in IntragroupRule]
        for groups in combinations_with_replacement(kinds, count):
            if sum(size for size, _ in groups) <= 5:
                yield from (Configuration(groups, rule) for rule in IntergroupRule)


ALL = list(configurations())
SETS = [frozenset(NAMES[at] for at in range(5) if mask >> at & 1) for mask in range(32)]


def test_the_configurations_are_many() -> None:
    assert len(ALL) > 500


def test_stable_is_as_defined_for_every_set_of_active_stores() -> None:
    for configuration in ALL:
        if configuration.stores > 4:
            continue
        policy = configuration.policy
        for holders in configuration.sets:
            for active in configuration.sets:
                assert policy.stable(SETS[holders], SETS[active]) == configuration.defined(
                    holders, active
                ), (str(configuration), SETS[holders], SETS[active])


def test_stable_without_active_stores_is_whether_it_may_be_stable() -> None:
    for configuration in ALL:
        policy = configuration.policy
        for holders in configuration.sets:
            assert policy.stable(SETS[holders]) == configuration.may_be[holders], (
                str(configuration),
                SETS[holders],
            )


def test_stable_is_monotone_in_the_holders() -> None:
    for configuration in ALL:
        policy = configuration.policy
        for holders in configuration.sets:
            if policy.stable(SETS[holders]):
                for one in range(configuration.stores):
                    assert policy.stable(SETS[holders | 1 << one]), (str(configuration), holders)


def test_all_stores_together_are_always_stable_and_none_never() -> None:
    for configuration in ALL:
        policy = configuration.policy
        assert policy.stable(policy.stores, policy.stores)
        assert not policy.stable(frozenset())


def test_blocking_sets_are_as_defined() -> None:
    for configuration in ALL:
        policy = configuration.policy
        for members in configuration.sets:
            assert policy.blocks(SETS[members]) == configuration.blocks(members), (
                str(configuration),
                SETS[members],
            )


def test_minimal_blocking_sets_are_exactly_the_minimal_ones() -> None:
    for configuration in ALL:
        blocking = {members for members in configuration.sets if configuration.blocks(members)}
        minimal = {
            members
            for members in blocking
            if not any(other != members and other & members == other for other in blocking)
        }
        found = list(configuration.policy.minimal_blocking_sets())
        assert len(found) == len(set(found))
        assert set(found) == {SETS[members] for members in minimal}, str(configuration)
        assert [len(each) for each in found] == sorted(len(each) for each in found)


def test_a_blocking_set_meets_every_set_that_may_be_stable() -> None:
    for configuration in ALL:
        policy = configuration.policy
        for blocking in policy.minimal_blocking_sets():
            for holders in configuration.sets:
                if policy.stable(SETS[holders]):
                    assert blocking & SETS[holders], (str(configuration), blocking, SETS[holders])


@pytest.mark.parametrize(
    ("groups", "rule", "sizes"),
    [
        # Two groups of three: to exclude stability under `any`, a majority of both must say no.
        ((3, 3), IntergroupRule.ANY, {4}),
        ((3, 3), IntergroupRule.ALL, {2}),
        ((3,), IntergroupRule.ANY, {2}),
        ((5,), IntergroupRule.ANY, {3}),
        # Of four, two are enough to deny three.
        ((4,), IntergroupRule.ANY, {2}),
        ((5, 3, 5), IntergroupRule.ANY, {8}),
    ],
)
def test_sizes_of_blocking_sets_known_from_the_literature(
    groups: tuple[int, ...], rule: IntergroupRule, sizes: set[int]
) -> None:
    policy = Policy(
        tuple(
            Group(f"g{at}", tuple(f"g{at}s{store}" for store in range(size)))
            for at, size in enumerate(groups)
        ),
        rule,
    )
    assert {len(each) for each in policy.minimal_blocking_sets()} == sizes


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
