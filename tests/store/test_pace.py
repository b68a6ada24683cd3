from __future__ import annotations

import itertools
import random

import pytest

from quorate.store.pace import BUSY_SECONDS, LOOK_SECONDS, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def step(pace: Pace, clock: Clock, seconds: float, size: int = 0) -> float:
    """One step of work, and then all the rest that it costs. Returns how long that was."""
    pace.work()
    clock.now += seconds
    pace.worked(size)
    rested = 0.0
    while rest := pace.rest():
        assert 0 < rest <= LOOK_SECONDS
        clock.now += rest
        rested += rest
    return rested


@pytest.mark.parametrize("seconds", [0.001, 0.05, 3.0])
def test_an_idle_store_never_rests(seconds: float) -> None:
    clock = Clock()
    pace = Pace(clock)
    assert not pace.is_busy()
    assert step(pace, clock, seconds) == 0


def test_a_store_is_busy_for_a_while_after_something_new() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.taken(5)
    assert pace.is_busy()
    clock.now += BUSY_SECONDS
    assert not pace.is_busy()
    pace.taken(5)
    assert not pace.is_busy(), "nothing came since"
    pace.taken(6)
    assert pace.is_busy()


@pytest.mark.parametrize(
    ("share", "seed"), list(itertools.product([0.05, 0.2, 0.5, 1.0], range(20)))
)
def test_a_busy_store_works_for_its_share_of_the_time(share: float, seed: int) -> None:
    chance = random.Random(seed)
    clock = Clock()
    pace = Pace(clock, share)
    worked, count, began = 0.0, 0, clock.now
    for _ in range(200):
        seconds = chance.choice([0.0, 0.001, 0.01, 0.2])
        count += 1
        pace.taken(count)
        pace.work()
        clock.now += seconds
        pace.worked()
        worked += seconds
        count += 1
        pace.taken(count)
        while rest := pace.rest():
            # Sleeping takes longer than it was to, which is not made up for.
            clock.now += rest * chance.uniform(1.0, 1.3)
            count += 1
            pace.taken(count)
        assert worked <= share * (clock.now - began) + 1e-6


def test_a_rest_ends_when_nothing_new_comes() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.work()
    clock.now += 10.0
    pace.taken(1)
    pace.worked()
    rested = 0.0
    while rest := pace.rest():
        clock.now += rest
        rested += rest
    assert BUSY_SECONDS <= rested <= BUSY_SECONDS + LOOK_SECONDS
    assert step(pace, clock, 1.0) == 0, "and nothing is owed for later"


def test_working_on_is_one_step_and_an_end_without_work_is_none() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.worked(7)
    pace.work()
    clock.now += 0.01
    pace.work()
    clock.now += 0.01
    pace.taken(1)
    pace.worked()
    rested = 0.0
    while rest := pace.rest():
        clock.now += rest
        rested += rest
        pace.taken(int(clock.now * 1000))
    assert rested == pytest.approx(0.08)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.bytes_per_second() == 0
    for _ in range(10):
        step(pace, clock, 1.0, 1000)
    assert pace.bytes_per_second() == pytest.approx(1000, rel=0.25)
    clock.now += 60
    assert pace.bytes_per_second() == 0
