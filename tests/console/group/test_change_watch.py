"""The looks at a group while its stores change: how often people are told, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests import seams
from tests.console.group.rules.test_change_steps import ABC, ABCD, ADD_D, group, orders, store

from quorate.console.group.change_watch import follow, move_away
from quorate.console.group.rules.change_situation import Situation
from quorate.console.group.rules.change_steps import Step

FILLED = ("d:1", store("d", "abcd", orders(ABCD)))
BEFORE = group(ADD_D, "abc", orders(ABC), ("d:1", store("d", "abcd")))
MOVED = group(ADD_D, "abc", orders(ABCD), FILLED)
DONE = group(ADD_D, "abcd", orders(ABCD), FILLED)


class Looks:
    """Looks with given outcomes, and the steps that were told."""

    def __init__(self, *situations: Situation) -> None:
        self._next: Iterator[Situation] = iter(situations)
        self.told: list[list[Step]] = []

    async def look(self) -> Situation:
        return next(self._next)


async def test_each_change_is_told_once_until_all_is_done() -> None:
    looks = Looks(BEFORE, BEFORE, MOVED, MOVED, DONE)
    found = await follow(looks.look, looks.told.append, None)
    assert all(step.done for step in found)
    assert [sum(step.done for step in told) for told in looks.told] == [3, 4, 5]


async def test_it_ends_in_time_with_the_last_look() -> None:
    looks = Looks(BEFORE)
    found = await follow(looks.look, looks.told.append, 0.0)
    assert [step.done for step in found] == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("situation", "moved"),
    [
        (group(ADD_D, "abc", orders(ABC, live=False), ("d:1", store("d", "abcd"))), True),
        (BEFORE, False),  # its source runs
        (group(ADD_D, "abc", orders(ABC, live=False)), False),  # d does not answer yet
        (DONE, False),
    ],
)
async def test_a_source_is_moved_in_its_turn_and_only_if_it_is_away(
    situation: Situation, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    async def move(_: Situation, view: object, timeout: float) -> None:
        del timeout
        names.append(str(getattr(view, "name", "")))

    seams.MOVE_SOURCE.replace(monkeypatch, move)
    told: list[str] = []
    assert await move_away(situation, 1.0, told.append) is moved
    assert names == (["orders/0x1"] if moved else [])
    assert told == (["Moved orders/0x1."] if moved else [])


async def test_a_source_that_cannot_be_moved_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def move(_: Situation, view: object, timeout: float) -> None:
        del view, timeout
        raise TimeoutError

    seams.MOVE_SOURCE.replace(monkeypatch, move)
    told: list[str] = []
    away = group(ADD_D, "abc", orders(ABC, live=False), ("d:1", store("d", "abcd")))
    assert await move_away(away, 2.0, told.append)
    assert told == ["orders/0x1 was not moved within 2 s; it goes on with the next attempt."]
