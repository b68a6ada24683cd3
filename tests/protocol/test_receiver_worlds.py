"""Where receivers may start, brute force over small worlds against the definitions alone.

A world: which position each store was told (the receiver itself has acknowledged the highest of
them), which stores were wiped since and what little they have again, and which do not answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest

from quorate.protocol.consensus import (
    Behaviour,
    enough_for_receivers,
    receiver_consensus,
)
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy

THREE = Policy.majority_of("abc")
FIVE = Policy.majority_of("abcde")
ALL_OF_THREE = Policy((Group("g", ("a", "b", "c"), IntragroupRule.ALL),))


def groups(rule: IntergroupRule) -> Policy:
    return Policy((Group("g", ("a", "b", "c")), Group("h", ("d", "e"))), rule)


POLICIES = [
    THREE,
    pytest.param(FIVE, marks=pytest.mark.big),
    ALL_OF_THREE,
    *(
        pytest.param(groups(rule), marks=[pytest.mark.big] if rule is IntergroupRule.ANY else [])
        for rule in IntergroupRule
    ),
]
"""The policies. Two have very many worlds, so only `make test-big` goes through these."""
WIPED_HAS = (0, 1)
"""What a wiped store may answer: nothing, or what it was told since."""


def subsets(stores: frozenset[str]) -> Iterator[frozenset[str]]:
    for size in range(len(stores) + 1):
        yield from map(frozenset, combinations(sorted(stores), size))


def worlds(policy: Policy) -> Iterator[tuple[dict[str, int], frozenset[str], dict[str, int]]]:
    """What each store was told, who was wiped, and the answers of a registration that goes on.

    Positions are as they are compared: the first number that was not acknowledged.
    """
    stores = sorted(policy.stores)
    values = (0, 1, 2) if len(stores) > 3 else (0, 1, 2, 3)
    for told_values in product(values, repeat=len(stores)):
        told = dict(zip(stores, told_values, strict=True))
        for wiped in subsets(policy.stores):
            if not enough_for_receivers(policy, policy.stores - wiped):
                continue  # too few are left outside limbo, whoever answers: it waits
            for has in WIPED_HAS if wiped else (0,):
                for silent in subsets(policy.stores):
                    if enough_for_receivers(policy, policy.stores - wiped - silent):
                        yield (
                            told,
                            wiped,
                            {
                                store: min(has, upto) if store in wiped else upto
                                for store, upto in told.items()
                                if store not in silent
                            },
                        )


def sure_upto(policy: Policy, told: dict[str, int], among: frozenset[str]) -> int:
    """The highest position that a stable set among these stores was told."""
    return max(
        (
            value
            for value in set(told.values())
            if policy.stable({store for store in among if told[store] >= value})
        ),
        default=0,
    )


def start(
    behaviour: Behaviour, policy: Policy, answers: dict[str, int], wiped: frozenset[str]
) -> int:
    return receiver_consensus(behaviour, policy, answers, answers.keys() - wiped)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_nobody_is_restarted_above_what_was_acknowledged(policy: Policy) -> None:
    count = 0
    for told, wiped, answers in worlds(policy):
        for behaviour in Behaviour:
            first = start(behaviour, policy, answers, wiped)
            assert first <= max(told.values()), (behaviour, told, wiped, answers)
            assert first in answers.values()
        count += 1
    assert count >= 64


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_what_a_stable_set_was_told_is_not_forgotten(policy: Policy) -> None:
    """By `majority` and `highest`: whoever is wiped or away, as long as that much is tolerated."""
    stable_sets = list(filter(policy.stable, subsets(policy.stores)))
    meet = all(one & two for one, two in product(stable_sets, repeat=2))
    count = 0
    for told, wiped, answers in worlds(policy):
        if policy.stable(wiped):
            continue  # what only these had is gone
        # Where stable sets need not meet, only of those that answered can anything be known.
        among = policy.stores if meet else answers.keys() - wiped
        sure = sure_upto(policy, told, frozenset(among))
        for behaviour in (Behaviour.MAJORITY, Behaviour.HIGHEST):
            assert start(behaviour, policy, answers, wiped) >= sure, (told, wiped, answers)
        count += sure > 0
    assert count >= 27


def test_what_would_throw_a_receiver_back() -> None:
    """Told 3: a and c; b lagged. Then c is wiped: it answers nothing, refuses, or is away."""
    for answers, vouching in (
        ({"a": 3, "b": 0, "c": 0}, {"a", "b"}),
        ({"a": 3, "b": 0}, {"a", "b"}),
    ):
        assert receiver_consensus(Behaviour.MAJORITY, THREE, answers, vouching) == 3
    # Taking its word for a "no" would: this is what limbo is for.
    answers = {"a": 3, "b": 0, "c": 0}
    assert receiver_consensus(Behaviour.MAJORITY, THREE, answers, set("abc")) == 0


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_store_in_limbo_never_pulls_down(policy: Policy) -> None:
    """What it answers has no say by `lowest`, and nobody starts lower because it answered at all
    instead of keeping silent."""
    for _, wiped, answers in worlds(policy):
        if not wiped & answers.keys():
            continue
        others = {store: upto for store, upto in answers.items() if store not in wiped}
        for behaviour in Behaviour:
            with_it = start(behaviour, policy, answers, wiped)
            assert with_it >= start(behaviour, policy, others, wiped), (answers, wiped)
        assert start(Behaviour.LOWEST, policy, answers, wiped) == min(others.values())


@pytest.mark.parametrize(
    ("positions", "limbo", "lowest", "majority", "highest"),
    [
        # What it has counts as "at least this".
        ({"a": 5, "b": 7, "c": 9}, "c", 5, 7, 9),
        ({"a": 5, "b": 5, "c": 9}, "c", 5, 5, 9),
        # None, or a lower one, counts as unknown.
        ({"a": 5, "b": 7, "c": 0}, "c", 5, 7, 7),
        ({"a": 5, "b": 7, "c": 6}, "c", 5, 7, 7),
        ({"a": 0, "b": 7, "c": 0}, "c", 0, 7, 7),
        # So does silence.
        ({"a": 5, "b": 7}, "", 5, 7, 7),
        # The same with all of them outside limbo.
        ({"a": 5, "b": 7, "c": 9}, "", 5, 7, 9),
        ({"a": 0, "b": 7, "c": 0}, "", 0, 0, 7),
        ({"a": 0, "b": 0, "c": 0}, "c", 0, 0, 0),
    ],
)
def test_examples(
    positions: dict[str, int], limbo: str, lowest: int, majority: int, highest: int
) -> None:
    wiped = frozenset(limbo)
    assert start(Behaviour.LOWEST, THREE, positions, wiped) == lowest
    assert start(Behaviour.MAJORITY, THREE, positions, wiped) == majority
    assert start(Behaviour.HIGHEST, THREE, positions, wiped) == highest


def test_stores_that_the_stream_leaves_have_their_say() -> None:
    """It goes from a, b and c to d, e and f, which have not heard of the receiver yet."""
    policy = Policy.majority_of("def")
    answers = {"a": 7, "b": 5, "c": 5, "d": 0, "e": 0, "f": 1}
    everyone = frozenset(answers)
    assert receiver_consensus(Behaviour.MAJORITY, policy, answers, everyone) == 5
    assert receiver_consensus(Behaviour.HIGHEST, policy, answers, everyone) == 7
    assert receiver_consensus(Behaviour.LOWEST, policy, answers, everyone) == 0
    ahead = answers | {"d": 9, "e": 9}
    assert receiver_consensus(Behaviour.MAJORITY, policy, ahead, everyone) == 9


def test_enough_is_a_stable_set_outside_limbo() -> None:
    assert enough_for_receivers(THREE, {"a", "b"})
    assert not enough_for_receivers(THREE, {"a"})
    assert not enough_for_receivers(ALL_OF_THREE, {"a", "b"})
    assert enough_for_receivers(groups(IntergroupRule.ANY), {"d", "e"})
    assert not enough_for_receivers(groups(IntergroupRule.ALL), {"a", "b", "d"})


def test_a_backup_that_stands_in_no_more_has_its_say() -> None:
    policy = Policy((Group("main", ("a", "b", "c"), backups=("x",)),))
    answers = {"a": 1, "b": 1, "c": 1, "x": 5}
    assert receiver_consensus(Behaviour.MAJORITY, policy, answers, set(answers)) == 5
