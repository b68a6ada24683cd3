"""Every guard that has a script: with it everything holds there, without it something is violated.

The guards and their scripts are in the modules that are named here, each with its own tale.
"""

from __future__ import annotations

import pytest
from tests.simulation import (
    scripts_of_state_only,
    test_receiver_contests,
    test_receiver_ends,
    test_receivers_beside_a_copy,
    test_scripts,
    test_scripts_of_absence,
    test_scripts_of_ends,
    test_scripts_of_limbo,
    test_upkeep,
)
from tests.simulation.guards import Guard, violated
from tests.simulation.script import play

pytestmark = pytest.mark.long

GUARDS = (
    *test_scripts.GUARDS,
    *scripts_of_state_only.GUARDS,
    *test_scripts_of_limbo.GUARDS,
    *test_scripts_of_ends.GUARDS,
    *test_scripts_of_absence.GUARDS,
    *test_receiver_ends.GUARDS,
    *test_receiver_contests.GUARDS,
    *test_receivers_beside_a_copy.GUARDS,
    *test_upkeep.GUARDS,
)


@pytest.mark.parametrize("guard", GUARDS, ids=str)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.big) for seed in (1, 2))]
)
def test_with_its_guard_everything_holds(guard: Guard, seed: int) -> None:
    play(guard.script, seed, **guard.weather)


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_without_its_guard_something_is_violated(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.patch(monkeypatch)
    assert any(violated(guard, seed) == guard.rule for seed in range(guard.seeds))
