"""What the worlds of the code that ships are worth: a guard that is taken out is missed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.world.guards import MUTATIONS, Mutation, first_found
from tests.world.weather import run_world

pytestmark = pytest.mark.expects_log(".*")  # Faults are what these worlds are about.

SEEDS_MAX = 10
"""A guard that is missed later than so is a big test."""
CASES = [
    pytest.param(each, marks=pytest.mark.big if each.seeds > SEEDS_MAX else pytest.mark.long)
    for each in MUTATIONS
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutation", CASES, ids=str)
def test_a_guard_that_is_taken_out_is_missed(
    mutation: Mutation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as to:
        mutation.patch(to)
        found = first_found(mutation, tmp_path / "without")
    assert found is not None
    seed, _ = found
    run_world(seed, tmp_path / "with", mutation.weather)
