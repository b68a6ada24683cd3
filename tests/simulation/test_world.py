"""Simulated worlds: a fixed set of seeds, and one that nobody has seen before."""

from __future__ import annotations

import random

import pytest
from tests.simulation.seeds import RARE, Tally, run
from tests.simulation.simulation import Simulation, simulate

pytestmark = pytest.mark.timeout(900)
"""A quarter of a minute of work, however busy the machine is with other things."""

SEEDS = range(200)
TRACE_LINES = 1_000_000
FOUND_OUT = 9
"""In this world a store is."""


@pytest.fixture(scope="module")
def known() -> Tally:
    return run(SEEDS)


def test_everything_holds_in_worlds_that_are_known(known: Tally) -> None:
    assert [str(failed) for failed in known.failed] == []
    assert known.stable > 30 * len(SEEDS)
    assert sum(known.faults.values()) > 10 * len(SEEDS)


def test_known_worlds_reach_what_is_rare(known: Tally) -> None:
    assert [state for state in RARE if not known.reached[state]] == []


@pytest.mark.expects_log("")
def test_a_seed_is_one_world() -> None:
    """Also where stores draw what nobody else may have: one that is found out is a new one."""
    one, again = (Simulation(FOUND_OUT, TRACE_LINES, {}) for _ in range(2))
    one.run()
    again.run()
    assert one.world.reached["found out as a copy"]
    assert one.world.trace() == again.world.trace()


def test_everything_holds_in_a_new_world() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    simulate(seed)
