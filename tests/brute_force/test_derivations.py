"""What is derived from the stability predicate, against the definitions, for all small policies.

The predicate itself, blocking sets, and how far a stream is stable while
stores join, leave, acknowledge and come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest
from tests.brute_force.definitions import SETS, Configuration, configurations

from quorate.protocol.policy import Group, IntergroupRule, Policy
from quorate.protocol.tracker import StabilityTracker

ALL = configurations(5, 3)


def minimal_blocking_sets(policy: Policy) -> Iterator[frozenset[str]]:
    """Yield every blocking set that has no smaller one inside, smallest first."""
    found: list[frozenset[str]] = []
    for size in range(len(policy.stores) + 1):
        for members in combinations(sorted(policy.stores), size):
            candidate = frozenset(members)
            if policy.blocks(candidate) and not any(smaller <= candidate for smaller in found):
                found.append(candidate)
                yield candidate


def test_the_configurations_are_many() -> None:
    assert len(ALL) > 500


def test_stable_is_as_defined_for_every_set_of_active_stores() -> None:
    for configuration in configurations(4, 3):
        policy = configuration.policy
        for holders, active in product(configuration.sets, repeat=2):
            assert policy.stable(SETS[holders], SETS[active]) == configuration.stable(
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
                for one in range(configuration.everyone.bit_length()):
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


def test_a_blocking_set_meets_every_set_that_may_be_stable() -> None:
    for configuration in ALL:
        policy = configuration.policy
        for blocking in minimal_blocking_sets(policy):
            for holders in configuration.sets:
                if policy.stable(SETS[holders]):
                    assert blocking & SETS[holders], (str(configuration), blocking, SETS[holders])


# How far a stream is stable.

Known = tuple[tuple[int | None, ...], int, int]
"""By store the highest number it acknowledged, None if it never joined; active; stable_upto."""
NUMBERS = {1: (-1, 0, 1), 2: (-1, 0, 1), 3: (-1, 0)}
"""What may be acknowledged, by how many stores there are."""


def _tracker(configuration: Configuration, known: Known) -> StabilityTracker:
    """A tracker that has come to this point."""
    upto, active, stable_upto = known
    tracker = StabilityTracker([configuration.policy], -1)
    tracker.stable_upto = stable_upto
    for store, number in enumerate(upto):
        if number is not None:
            tracker.join(_name(store))
            # It counts from here on; nothing may be stable by it that was not.
            tracker._upto[_name(store)] = number
            if not active >> store & 1:
                tracker._active.discard(_name(store))
    return tracker


def _name(store: int) -> str:
    (name,) = SETS[1 << store]
    return name


def _defined(configuration: Configuration, known: Known) -> int:
    """The highest number with all before it held by stores that make it stable now."""
    upto, active, stable_upto = known
    while stable_upto < max(NUMBERS[len(upto)]):
        number = stable_upto + 1
        holders = sum(
            1 << store for store, at in enumerate(upto) if at is not None and at >= number
        )
        if not configuration.stable(holders, active):
            break
        stable_upto = number
    return stable_upto


def _moves(known: Known) -> list[tuple[str, int, int]]:
    upto, active, _ = known
    moves = []
    for store, at in enumerate(upto):
        is_active = bool(active >> store & 1)
        if not is_active:
            moves.append(("join", store, 0))
            moves += [("rejoin", store, number) for number in NUMBERS[len(upto)]]
        else:
            moves.append(("leave", store, 0))
        if at is not None:
            moves.append(("void", store, 0))
            moves += [("acknowledge", store, number) for number in NUMBERS[len(upto)]]
    return moves


def _made(
    configuration: Configuration, known: Known, move: tuple[str, int, int]
) -> tuple[Known, Known]:
    """What the tracker says after the move, and what it should."""
    upto, active, stable_upto = known
    kind, store, number = move
    tracker = _tracker(configuration, known)
    numbers, name = list(upto), _name(store)
    moved = False
    match kind:
        case "join":
            tracker.join(name)
            active |= 1 << store
            before = numbers[store]
            numbers[store] = stable_upto if before is None else before
        case "rejoin":
            moved = tracker.rejoin(name, number)
            active |= 1 << store
            numbers[store] = number
        case "leave":
            moved = tracker.leave(name)
            active &= ~(1 << store)
        case "acknowledge":
            moved = tracker.acknowledge(name, number)
            before = numbers[store]
            assert before is not None
            numbers[store] = max(number, before)
        case "void":
            moved = tracker.void(name)
            active &= ~(1 << store)
            numbers[store] = None
    upto_now = tuple(numbers)
    defined = (upto_now, active, _defined(configuration, (upto_now, active, stable_upto)))
    names = [_name(each) for each in range(len(upto))]
    told = (
        tuple(tracker.acknowledged_upto(each) for each in names),
        sum(1 << at for at, each in enumerate(names) if each in tracker.active),
        tracker.stable_upto,
    )
    assert moved == (tracker.stable_upto > stable_upto)
    return told, defined


@pytest.mark.parametrize("stores", [1, 2, 3])
def test_how_far_a_stream_is_stable_is_as_defined_whoever_joins_and_leaves(stores: int) -> None:
    """Every state that a tracker can reach, under every policy of two groups at most."""
    for configuration in configurations(3, 2):
        if configuration.everyone.bit_length() != stores:
            continue
        start: Known = ((None,) * stores, 0, -1)
        seen, waiting = {start}, [start]
        while waiting:
            known = waiting.pop()
            for move in _moves(known):
                told, defined = _made(configuration, known, move)
                assert told == defined, (str(configuration), known, move)
                if told not in seen:
                    seen.add(told)
                    waiting.append(told)
        assert len(seen) > 2**stores


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
    assert {len(each) for each in minimal_blocking_sets(policy)} == sizes
