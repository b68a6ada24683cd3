"""How far a stream is stable, against a recomputation from the whole history at every step."""

from __future__ import annotations

import random
from itertools import product

import pytest

from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy
from quorate.protocol.tracker import StabilityTracker

THREE = Policy.majority_of("abc")


def naive(
    policies: list[Policy], stable: int, upto: dict[str, int], active: set[str], newest: int
) -> int:
    """Count up while the next number is stable under every policy."""
    while stable < newest:
        holders = {store for store, last in upto.items() if last >= stable + 1}
        if not all(policy.stable(holders, active) for policy in policies):
            break
        stable += 1
    return stable


@pytest.mark.parametrize("start", [-1, 1])
def test_every_short_sequence_of_acknowledgements(start: int) -> None:
    moves = list(product("abc", range(start, start + 4)))
    for sequence in product(moves, repeat=4):
        tracker = StabilityTracker([THREE], start)
        upto = dict.fromkeys("abc", start)
        for store in "abc":
            tracker.join(store)
        for store, number in sequence:
            before = tracker.stable_upto
            moved = tracker.acknowledge(store, number)
            upto[store] = max(upto[store], number)
            assert tracker.stable_upto == naive([THREE], before, upto, set("abc"), start + 4)
            assert moved == (tracker.stable_upto > before)


def _random_policy(chooser: random.Random, stores: str) -> Policy:
    names = list(stores)
    chooser.shuffle(names)
    cut = chooser.randrange(len(names))
    parts = [part for part in (names[:cut], names[cut:]) if part]
    return Policy(
        tuple(
            Group(f"g{at}", tuple(part), chooser.choice(list(IntragroupRule)))
            for at, part in enumerate(parts)
        ),
        chooser.choice(list(IntergroupRule)),
    )


@pytest.mark.parametrize("seed", range(300))
def test_random_lives_with_joins_and_leaves(seed: int) -> None:
    chooser = random.Random(seed)
    policies = [_random_policy(chooser, "abcd") for _ in range(chooser.choice([1, 1, 2]))]
    start = chooser.choice([-1, 7])
    tracker = StabilityTracker(policies, start)
    upto: dict[str, int] = {}
    active: set[str] = set()
    for _ in range(60):
        before = tracker.stable_upto
        store = chooser.choice("abcd")
        step = chooser.random()
        if store not in upto or (step < 0.15 and store not in active):
            tracker.join(store)
            upto.setdefault(store, before)
            active.add(store)
            moved = False
        elif step < 0.05:
            # It came back, and says itself what it has.
            number = chooser.randrange(-1, start + 12)
            moved = tracker.rejoin(store, number)
            upto[store] = number
        elif step < 0.15:
            moved = tracker.leave(store)
            active.discard(store)
        else:
            number = chooser.randrange(max(0, start - 1), start + 12)
            moved = tracker.acknowledge(store, number)
            upto[store] = max(upto[store], number)
        assert tracker.stable_upto == naive(policies, before, upto, active, start + 12)
        assert moved == (tracker.stable_upto > before)
        assert tracker.active == active
        assert tracker.registered() == all(policy.stable(active, active) for policy in policies)
        for number in (tracker.stable_upto, tracker.stable_upto + 1):
            assert set(tracker.holders(number)) == {s for s, last in upto.items() if last >= number}


def test_a_store_that_lost_its_disk_does_not_count_for_what_it_had() -> None:
    tracker = StabilityTracker([THREE], -1)
    for store in "ab":
        tracker.join(store)
    tracker.acknowledge("a", 5)
    tracker.leave("a")
    assert not tracker.rejoin("a", 2)
    assert tracker.acknowledge("b", 9)
    assert tracker.stable_upto == 2
    assert tracker.holders(5) == ("b",)
    assert not tracker.rejoin("b", -1)
    assert tracker.stable_upto == 2


def test_what_a_store_acknowledged_before_it_left_counts() -> None:
    tracker = StabilityTracker([THREE], -1)
    for store in "ab":
        tracker.join(store)
    assert not tracker.acknowledge("a", 5)
    assert not tracker.leave("a")
    assert tracker.acknowledge("b", 5)
    assert tracker.stable_upto == 5


def test_under_all_active_a_store_that_leaves_frees_what_it_held_up() -> None:
    policy = Policy((Group("g", ("a", "b", "c"), IntragroupRule.ALL_ACTIVE),))
    tracker = StabilityTracker([policy], -1)
    for store in "abc":
        tracker.join(store)
    tracker.acknowledge("a", 3)
    tracker.acknowledge("b", 2)
    assert tracker.stable_upto == -1
    assert tracker.leave("c")
    assert tracker.stable_upto == 2
    tracker.join("c")
    assert tracker.stable_upto == 2


def test_two_policies_must_agree() -> None:
    tracker = StabilityTracker([THREE, Policy.majority_of("cde")], -1)
    for store in "abcde":
        tracker.join(store)
    tracker.acknowledge("a", 4)
    tracker.acknowledge("b", 4)
    assert tracker.stable_upto == -1
    tracker.acknowledge("c", 3)
    assert tracker.acknowledge("d", 9)
    assert tracker.stable_upto == 3


def test_a_store_that_never_joined_is_not_known() -> None:
    assert StabilityTracker([THREE], -1).acknowledged_upto("a") is None


def test_a_store_that_comes_back_with_less_no_longer_counts_for_more() -> None:
    tracker = StabilityTracker([Policy.majority_of("abc")], NOTHING)
    for store in "abc":
        tracker.join(store)
    tracker.acknowledge("a", 9)
    tracker.leave("a")
    assert not tracker.rejoin("a", 3)
    tracker.acknowledge("b", 9)
    assert tracker.stable_upto == 3
    assert tracker.holders(4) == ("b",)
    tracker.acknowledge("a", 9)
    assert tracker.stable_upto == 9


def test_what_a_store_acknowledged_and_lost_counts_no_more() -> None:
    tracker = StabilityTracker([THREE], NOTHING)
    for store in "abc":
        tracker.join(store)
    tracker.acknowledge("a", 4)
    tracker.acknowledge("b", 2)
    assert not tracker.void("a")
    assert tracker.stable_upto == 2
    assert tracker.acknowledged_upto("a") is None
    tracker.acknowledge("b", 4)
    assert tracker.stable_upto == 2
    tracker.rejoin("a", NOTHING)
    assert tracker.acknowledge("c", 4)
    assert tracker.stable_upto == 4


def test_the_slowest_of_some_stores() -> None:
    tracker = StabilityTracker([THREE], -1)
    for store, upto in (("a", 5), ("b", 3)):
        tracker.join(store)
        tracker.acknowledge(store, upto)
    assert tracker.slowest_upto("a") == 5
    assert tracker.slowest_upto("ab") == 3
    assert tracker.slowest_upto("abc") == NOTHING
    assert tracker.slowest_upto("") == NOTHING
