"""The turns of calls to one peer."""

from __future__ import annotations

import asyncio
from math import inf

from quorate.transport.turns import BEGINNING_SECONDS_MAX, Turn, beginning


async def test_so_many_have_a_place_and_the_others_come_in_order() -> None:
    places = asyncio.Semaphore(2)
    first, second, third, fourth = (Turn(lambda: places) for _ in range(4))
    for turn in (first, second):
        assert turn.is_near
        await turn.take()
    assert not third.is_near
    waiting = [asyncio.create_task(turn.take()) for turn in (third, fourth)]
    await asyncio.sleep(0)
    second.give_back()
    await waiting[0]
    assert not waiting[1].done()
    with first:
        pass
    await waiting[1]


async def test_a_place_is_taken_and_given_back_once() -> None:
    places = asyncio.Semaphore(1)
    with Turn(lambda: places) as turn:
        await turn.take()
        await turn.take()
        assert turn.is_near, "it has its place"
        turn.give_back()
        turn.give_back()
        assert not places.locked()
    one, other = Turn(lambda: places), Turn(lambda: places)
    await one.take()
    assert not other.is_near, "a place was not given back twice"


async def test_the_places_are_asked_for_when_they_are_needed() -> None:
    asked: list[asyncio.Semaphore] = []

    def places() -> asyncio.Semaphore:
        asked.append(asyncio.Semaphore(1))
        return asked[-1]

    with Turn(places):
        pass
    assert asked == []


async def test_one_that_begins_for_long_lets_another_one_begin() -> None:
    places = asyncio.Semaphore(1)
    loop = asyncio.get_running_loop()
    began: list[float] = []

    async def begin() -> None:
        async with beginning(places, inf):
            began.append(loop.time())
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(begin()) for _ in range(2)]
    while len(began) < 2:  # noqa: ASYNC110, nobody tells
        await asyncio.sleep(0.01)
    assert began[1] - began[0] >= BEGINNING_SECONDS_MAX
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert not places.locked(), "each place was given back once"


async def test_one_begins_without_a_place_when_its_time_has_come() -> None:
    places = asyncio.Semaphore(0)
    async with asyncio.timeout(10), beginning(places, asyncio.get_running_loop().time() + 0.01):
        assert places.locked()
    assert places.locked(), "it had none to give back"
