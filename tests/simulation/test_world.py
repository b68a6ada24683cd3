"""Simulated worlds: a fixed set of seeds, and one that nobody has seen before."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation.seeds import CHUNK, FAULTS, RARE, Tally, run
from tests.simulation.simulation import Simulation, simulate

pytestmark = pytest.mark.timeout(900)
"""A quarter of a minute of work, however busy the machine is with other things."""

ROOT = Path(__file__).parents[2]
SEEDS = range(200)
TRACE_LINES = 1_000_000
FOUND_OUT = 14
"""In this world a store is."""
MANY_WITNESSES = 228
"""In this one a store that was put back waits for one of many that can tell."""


@pytest.fixture(scope="module")
def known() -> Tally:
    return run(SEEDS)


@pytest.mark.big
def test_everything_holds_in_worlds_that_are_known(known: Tally) -> None:
    assert [str(failed) for failed in known.failed] == []
    assert known.stable > 30 * len(SEEDS)
    assert sum(known.faults.values()) > 10 * len(SEEDS)


@pytest.mark.big
def test_known_worlds_have_faults_of_every_kind(known: Tally) -> None:
    assert known.uninjected == []
    assert set(known.faults) == set(FAULTS)


@pytest.mark.big
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


@pytest.mark.big
def test_worlds_are_the_same_in_processes_of_their_own() -> None:
    """Also though what is frozen here is not frozen there."""
    seeds = range(CHUNK + 1)
    command = [sys.executable, "-m", "tests.simulation", "--seeds", str(len(seeds)), "--jobs", "2"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    here = run(seeds)
    assert sorted(str(here).splitlines()[1:]) == sorted(told.splitlines()[1:])
    assert f" {here.steps:,} steps, {here.stable:,} messages stable, " in told.splitlines()[0]


def test_a_seed_is_one_world_whatever_python_hashes() -> None:
    """What is seen in one process is there to be seen again in another."""
    program = (
        "import logging; logging.disable(logging.CRITICAL)\n"
        "from tests.simulation.simulation import Simulation\n"
        f"one = Simulation({MANY_WITNESSES}, {TRACE_LINES}, {{}})\n"
        "one.run()\n"
        "print(one.world.trace())\n"
    )
    traces = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hashed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashed in ("1", "2")
    ]
    assert "waits for [" in traces[0]
    assert traces[0] == traces[1]


def test_everything_holds_in_a_new_world() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    simulate(seed)
