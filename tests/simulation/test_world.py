"""Simulated worlds: a fixed set of seeds, and one that nobody has seen before."""

from __future__ import annotations

import random

import pytest
from tests.simulation.seeds import Tally, run
from tests.simulation.simulation import simulate

SEEDS = range(150)
RARE = (
    "quorum lost",
    "quorum regained",
    "fenced in mid-recovery",
    "source fenced",
    "divergent tail set aside",
    "kept but unstable sent again",
    "publish store sent again",
    "hole opened by a new stream",
    "hole opened by Skip",
    "repair filled a hole",
    "batch overlaps what is held",
    "begin by a minority",
    "delivered messages withdrawn",
    "live stream overrun",
    "unsynced commit lost",
    "unsynced commit survived",
)


@pytest.fixture(scope="module")
def known() -> Tally:
    return run(SEEDS)


def test_everything_holds_in_worlds_that_are_known(known: Tally) -> None:
    assert known.stable > 100 * len(SEEDS)
    assert sum(known.faults.values()) > 10 * len(SEEDS)


def test_known_worlds_reach_what_is_rare(known: Tally) -> None:
    assert [state for state in RARE if not known.reached[state]] == []


def test_everything_holds_in_a_new_world() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    simulate(seed)
