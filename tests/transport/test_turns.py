"""The turns of calls to one peer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from unittest.mock import Mock

import pytest

from quorate.transport.turns import IDLE_LOOKS_MAX, LOOK_SECONDS, LOOKS_MAX, Beginnings, Turn


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


class Clock:
    """A loop's clock that a test moves on: the calls that were planned, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._planned: list[Callable[[], object]] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._call_later)

    def _call_later(self, seconds: float, callback: Callable[[], object]) -> Mock:
        assert seconds == LOOK_SECONDS
        self._planned.append(callback)

        def cancel() -> None:
            if callback in self._planned:
                self._planned.remove(callback)

        return Mock(cancel=cancel)

    async def look(self) -> None:
        """Let everybody look once, and others go on."""
        planned = list(self._planned)
        self._planned.clear()
        for callback in planned:
            callback()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class Begun:
    """Tasks that begin, each until it is told that it is done."""

    def __init__(self, places: int) -> None:
        self.beginnings = Beginnings(places)
        self.began: list[int] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._told: list[asyncio.Event] = []

    async def add(self) -> None:
        number, told = len(self._tasks), asyncio.Event()

        async def begin() -> None:
            async with self.beginnings.turn(inf):
                self.began.append(number)
                await told.wait()

        self._told.append(told)
        self._tasks.append(asyncio.create_task(begin()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def done(self, number: int) -> None:
        self._told[number].set()
        await self._tasks[number]
        await asyncio.sleep(0)

    async def end(self) -> None:
        for number in range(len(self._tasks)):
            await self.done(number)
        assert not self.beginnings.locked(), "each place was given back once"


async def test_one_that_begins_for_long_lets_another_one_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, begun = Clock(monkeypatch), Begun(1)
    await begun.add()
    await begun.add()
    for _ in range(IDLE_LOOKS_MAX - 1):
        await clock.look()
    assert begun.began == [0]
    await clock.look()
    assert begun.began == [0, 1]
    await begun.end()


async def test_no_more_begin_while_others_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, begun = Clock(monkeypatch), Begun(2)
    for _ in range(LOOKS_MAX + 3):
        await begun.add()
    for number in range(1, LOOKS_MAX):
        await clock.look()
        assert begun.began == list(range(number + 1)), "the stores answer others"
        await begun.done(number)
    await clock.look()
    assert begun.began == list(range(LOOKS_MAX + 2)), "the first one has waited long enough"
    await begun.end()


async def test_one_begins_without_a_place_when_its_time_has_come() -> None:
    beginnings = Beginnings(0)
    until = asyncio.get_running_loop().time() + 0.01
    async with asyncio.timeout(10), beginnings.turn(until) as has_turn:
        assert not has_turn
    assert beginnings.locked(), "it had none to give back"
