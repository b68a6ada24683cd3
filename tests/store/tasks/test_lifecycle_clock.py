"""How time passes for those that live at a store, however rarely it looks at each of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.store.ended import Heardsay, keeping_with
from tests.store.support import ORDERS, World

from quorate.store.rules.lifetimes import (
    GLANCE_SECONDS_MAX,
    Lifetimes,
    Who,
)
from quorate.store.tasks.lifecycle import Keeper
from quorate.store.turns import Turn

LOOK_TAKES = 4.0


class Slow:
    """A clock that only looks and sleep move, and what happens after so many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.happens: list[tuple[float, Any]] = []
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def look(self, _: float, __: Turn) -> None:
        """Stands in for the end of a look."""
        self.now += LOOK_TAKES

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        while self.happens and self.now >= self.happens[0][0]:
            self.happens.pop(0)[1]()

    def keeper(self, world: World) -> Keeper:
        keeper = keeping_with(world, Heardsay(), lambda: self.now)
        proxying: Any = self
        keeper._proxying = proxying
        return keeper

    def run(self, keeper: Keeper, upto: float) -> None:
        def over() -> None:
            raise asyncio.CancelledError

        self.happens.append((upto, over))
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(keeper.run())

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch)


def test_time_goes_on_while_the_store_rests_from_a_long_look(slow: Slow) -> None:
    keeper = slow.keeper(World())
    slow.run(keeper, 1000.0)
    assert keeper.observed.now == pytest.approx(slow.now, abs=1.0)


def test_who_leaves_during_a_rest_is_no_older_at_its_end(slow: Slow) -> None:
    world, who = World(), Who(ORDERS)
    keeper, lives = slow.keeper(world), world.core.identities.lives
    lives.came(who, Lifetimes(10.0))
    lives.stays(who)
    rest_ends = 21 * LOOK_TAKES
    slow.happens.append((rest_ends - 8.0, lambda: lives.left(who, willingly=False)))
    slow.run(keeper, rest_ends - 0.1)
    assert lives.protected_for(who)
    assert lives.silent(who) == pytest.approx(8.0, abs=1.0)


def test_a_pause_during_a_rest_ages_nobody(slow: Slow) -> None:
    keeper = slow.keeper(World())
    slow.happens.append((40.0, lambda: slow.pause(3600.0)))
    slow.run(keeper, 3700.0)
    assert keeper.observed.now <= slow.now - 3600.0 + GLANCE_SECONDS_MAX
