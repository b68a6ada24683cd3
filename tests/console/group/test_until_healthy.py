"""Looking at a group again and again, until it is healthy or the time is over."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quorate.console.group.status import GroupStatus, until_healthy
from quorate.protocol.errors import AccessDenied, QuorateError, Unreachable

WELL = GroupStatus()
ILL = GroupStatus(problems=["a store is down"])
DOWN = Unreachable("host:1", "refused")


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the delays, none of which is waited for."""
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    return delays


def looks(*found: GroupStatus | QuorateError) -> Callable[[], Awaitable[GroupStatus]]:
    """Return a look that finds these, one after the other."""
    left = iter(found)

    async def look() -> GroupStatus:
        one = next(left)
        if isinstance(one, QuorateError):
            raise one
        return one

    return look


def test_a_group_is_looked_at_until_it_is_healthy(slept: list[float]) -> None:
    assert asyncio.run(until_healthy(looks(ILL, DOWN, ILL, WELL), 1000)) is WELL
    assert len(slept) == 3
    assert all(0 < seconds <= 2 for seconds in slept)


def test_without_time_it_is_looked_at_once(slept: list[float]) -> None:
    assert asyncio.run(until_healthy(looks(ILL, WELL), 0)) is ILL
    with pytest.raises(Unreachable):
        asyncio.run(until_healthy(looks(DOWN, WELL), 0))
    assert slept == []


def test_an_error_that_time_does_not_mend_is_told_at_once(slept: list[float]) -> None:
    denied = AccessDenied("desk", "operate", "")
    with pytest.raises(AccessDenied):
        asyncio.run(until_healthy(looks(denied, WELL), 1000))
    assert slept == []
