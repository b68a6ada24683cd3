from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from tests.store.ended import answer, knowledge

from quorate.protocol.ranges import HeldRange
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
)
from quorate.store.tasks.throttle import (
    BUSY_SECONDS,
    LOOK_SECONDS,
    Pace,
    is_busy_peer,
)


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


def test_a_store_is_busy_while_its_peers_are() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.taken(0, elsewhere=True)
    assert pace.is_busy()
    clock.now += BUSY_SECONDS
    assert not pace.is_busy()
    pace.taken(0, elsewhere=True)
    assert pace.is_busy()


def says(upto: int, *, live: bool = True, incarnation: bytes = b"s2") -> PeerAnswer:
    """A peer that holds so much of a source."""
    held = (HeldRange(0, upto, 1),) if upto >= 0 else ()
    return replace(answer("s2", knowledge(held=held, live=live)), incarnation=incarnation)


def heard(said: PeerAnswer, *, busy: bool = False) -> Heard:
    return Heard(said, 999.5, 1000.0, 900.0, busy=busy)


def is_busy(known: Heard, said: PeerAnswer, at: float) -> bool:
    """As any store takes it, in limbo or not."""
    taken = {is_busy_peer(known, said, at, in_limbo=each) for each in (True, False)}
    assert len(taken) == 1
    return taken.pop()


@pytest.mark.parametrize(("messages", "busy"), [(0, False), (19, False), (20, True), (5000, True)])
def test_a_peer_is_busy_whose_messages_come_as_often_as_keeps_a_store_busy(
    messages: int, busy: bool
) -> None:
    assert is_busy(heard(says(9)), says(9 + messages), 1002.0) is busy
    assert is_busy(heard(says(-1)), says(messages - 1), 1002.0) is busy


def test_what_is_stable_shows_that_messages_come_where_none_are_held() -> None:
    said = answer("s2", knowledge(live=True, stable_upto=99))
    assert is_busy(heard(says(9)), said, 1002.0)


def test_a_source_of_which_nothing_was_heard_before_is_news() -> None:
    assert is_busy(heard(answer("s2")), says(99), 1002.0)


def test_a_peer_is_not_busy_that_gets_from_its_peers_what_it_lacks() -> None:
    assert not is_busy(heard(says(9)), says(5000, live=False), 1002.0)


@pytest.mark.parametrize("in_limbo", [True, False])
def test_that_a_peer_is_busy_can_not_be_told_by_one_answer(in_limbo: bool) -> None:
    """In limbo a store begins to fetch at the first one, and has the next one soon."""
    for live in (True, False):
        said = says(5000, live=live, incarnation=b"new")
        assert is_busy_peer(None, said, 1002.0, in_limbo=in_limbo) is (in_limbo and live)
        before = heard(says(9), busy=not in_limbo)
        assert is_busy_peer(before, said, 1002.0, in_limbo=in_limbo) is (in_limbo and live)
    assert not is_busy_peer(heard(says(9)), says(9), 1002.0, in_limbo=in_limbo)


@pytest.mark.parametrize("busy", [True, False])
def test_an_answer_that_follows_at_once_shows_only_what_came(busy: bool) -> None:
    soon = 1000.0 + BUSY_SECONDS / 2
    assert is_busy(heard(says(9), busy=busy), says(9), soon) is busy
    assert is_busy(heard(says(9), busy=busy), says(10), soon)
    assert not is_busy(heard(says(9), busy=busy), says(9), 1000.0 + BUSY_SECONDS)
