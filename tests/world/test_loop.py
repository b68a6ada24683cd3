"""The loop of a simulated process: what it runs at one moment, and when it has something to do."""

from __future__ import annotations

import asyncio
from random import Random

from tests.world.loop import Clock, ProcessLoop


def loop_at(clock: Clock) -> ProcessLoop:
    return ProcessLoop("p", clock, Random(0))


def test_a_turn_runs_what_is_due_and_what_that_makes_due() -> None:
    clock, ran = Clock(), list[str]()
    loop = loop_at(clock)
    loop.call_soon(lambda: loop.call_soon(ran.append, "later"))
    loop.call_at(clock.now, ran.append, "timer")
    loop.call_at(clock.now + 1.0, ran.append, "not yet")
    loop.turn()
    assert ran == ["timer", "later"]
    assert loop.due() == clock.now + 1.0


def test_timers_of_one_time_come_in_the_order_in_which_they_were_made() -> None:
    clock, ran = Clock(), list[int]()
    loop = loop_at(clock)
    for number in range(20):
        loop.call_at(clock.now, ran.append, number)
    loop.turn()
    assert ran == list(range(20))


def test_what_was_cancelled_is_not_due() -> None:
    loop = loop_at(Clock())
    loop.call_later(1.0, print).cancel()
    assert loop.due() is None


def test_a_paused_process_is_due_when_it_wakes() -> None:
    clock = Clock()
    loop = loop_at(clock)
    loop.call_soon(print)
    loop.paused_until = clock.now + 5.0
    assert loop.due() == clock.now + 5.0


def test_a_process_crashes_in_the_middle_of_a_moment() -> None:
    ran = list[int]()

    async def count() -> None:
        while True:
            ran.append(len(ran))
            await asyncio.sleep(0)

    loop = loop_at(Clock())
    task = loop.create_task(count())
    loop.rounds_left = 3
    loop.turn()
    assert loop.crashed
    assert loop.due() is None
    assert ran == [0, 1, 2]
    assert not task.done()
