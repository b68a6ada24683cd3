"""Every state of small worlds: nothing that was reported stable is lost or its number reused.

And what that is worth: each rule that is taken out is missed.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest
from tests import seams
from tests.brute_force import judge as judging
from tests.brute_force.exploring import Found, explore, walk_in
from tests.brute_force.judge import Judge
from tests.brute_force.model import Model
from tests.brute_force.states import Rules, Shape
from tests.brute_force.walks import random_shape
from tests.brute_force.worlds import (
    FOUR_WIPED,
    KEEPS_STATE,
    MOVED,
    ONE_WIPED,
    SHIFTED,
    THRICE,
    TURNS_AND_WIPED,
    TWICE,
    TWO_OR_ONE,
    TWO_WIPED,
    WORLDS,
    every_policy,
)

pytestmark = pytest.mark.long

STATES_MAX = 60_000
"""No mutation needs more to be found."""
BIG = pytest.mark.big
"""For what takes long. `make test-big` runs it all."""

LARGE = {
    "five stores",
    "a wiped store, while stores repair each other",
    "two registrations after the first, one after the other or at once",
    "the only store is exchanged",
    "a wiped store of one group or the other",
    "five stores in two groups",
    "five stores, of which two are wiped",
    "a store that is put back from a copy",
}
"""Worlds with so many states that only `make test-big` goes through them."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[BIG] if name in LARGE else []) for name in WORLDS],
)
def test_nothing_stable_is_lost_in_any_state(name: str) -> None:
    explored = explore(WORLDS[name])
    assert explored.whole
    assert explored.states > 100


@pytest.mark.parametrize(("stores", "states"), [(2, 3_000), pytest.param(3, 20_000, marks=[BIG])])
def test_nothing_stable_is_lost_under_any_policy(stores: int, states: int) -> None:
    """Every policy of so many stores; `make brute-force` has those of four and five."""
    found = sum(explore(shape, states_max=1_000).states for _, shape in every_policy(stores))
    assert found > states


@pytest.mark.parametrize("walks", [30, pytest.param(200, marks=[BIG])])
def test_nothing_stable_is_lost_in_larger_worlds(walks: int) -> None:
    """By seed: up to five stores, two groups, any rules, new policies, two wiped stores."""
    stable = 0
    for seed in range(walks):
        shape = random_shape(seed)
        judge = Judge(shape, Rules())
        try:
            stable += walk_in(Model(shape, Rules(), judge), judge, random.Random(seed), 80)
        except Found as found:
            raise AssertionError(f"seed {seed}, {shape}:\n{found}") from found
    # The walks are worth something: things become stable.
    assert stable > walks / 2


# What the worlds are worth.


def _no_floor(to: pytest.MonkeyPatch) -> None:
    seams.RECOVERY_MAY_BE_STABLE_UPTO.replace(to, lambda *given: given[-1])


def _no_blocking_set(to: pytest.MonkeyPatch) -> None:
    seams.POLICY_BLOCKS.replace(to, lambda _, stores: bool(stores))


def _limbo_vouches(to: pytest.MonkeyPatch) -> None:
    real = judging.promise_of
    to.setattr(judging, "promise_of", lambda answer: dataclasses.replace(real(answer), limbo=False))


def _taken_out(rules: Rules) -> str:
    return ", ".join(name for name, holds in dataclasses.asdict(rules).items() if not holds)


@pytest.mark.parametrize(
    ("rules", "shape"),
    [
        (Rules(promise=False), TWICE),
        (Rules(lineage=False), THRICE),
        (Rules(begun_only=False), THRICE),
        pytest.param(Rules(from_policies=False), SHIFTED, marks=[BIG]),
        pytest.param(Rules(both_policies=False), SHIFTED, marks=[BIG]),
        (Rules(brought_up=False), dataclasses.replace(MOVED, tells=True)),
        (Rules(confirmed_late=False), MOVED),
        (Rules(limbo=False), ONE_WIPED),
        (Rules(notices=False), ONE_WIPED),
        (Rules(notices_in_answers=False), ONE_WIPED),
        (Rules(exit_promise=False), ONE_WIPED),
        (Rules(exit_floor=False), ONE_WIPED),
        (Rules(exit_knowledge=False), TWO_WIPED),
        pytest.param(Rules(exit_stable=False), FOUR_WIPED, marks=[BIG]),
        (Rules(state_only_is_no_holder=False), KEEPS_STATE),
        (Rules(exit_kept_elsewhere=False), TURNS_AND_WIPED),
        (Rules(exit_blocking=False), dataclasses.replace(ONE_WIPED, policies=(TWO_OR_ONE,) * 2)),
    ],
    ids=lambda item: _taken_out(item) if isinstance(item, Rules) else "",
)
def test_a_rule_that_is_taken_out_is_missed(rules: Rules, shape: Shape) -> None:
    with pytest.raises(Found):
        explore(shape, rules, STATES_MAX)


@pytest.mark.parametrize(
    ("mutation", "shape"),
    [(_no_floor, TWICE), (_no_blocking_set, TWICE), (_limbo_vouches, ONE_WIPED)],
    ids=lambda item: item.__name__.strip("_") if callable(item) else "",
)
@pytest.mark.parametrize("compared", [True, False], ids=["by the definition", "by what is lost"])
def test_a_rule_that_production_forgets_is_missed(
    mutation: Callable[[pytest.MonkeyPatch], None],
    shape: Shape,
    compared: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found at the first decision that differs, and, with no definitions, by what gets lost."""
    mutation(monkeypatch)
    if not compared:
        monkeypatch.setattr(judging, "compare", lambda *_: None)
    with pytest.raises(Found) as found:
        explore(shape, states_max=STATES_MAX)
    assert ("defined" in str(found.value)) == compared
