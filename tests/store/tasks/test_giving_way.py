"""Work that may wait rests while the event loop is late."""

from __future__ import annotations

import asyncio

import pytest

from quorate.store.tasks.giving_way import give_way, rest_after


def test_the_later_the_loop_the_longer_the_rest() -> None:
    assert rest_after(1.0, 0.0) == rest_after(1.0, 0.000_01) == 0.0, "a loop with nothing to do"
    assert rest_after(1.0, 0.000_5) == pytest.approx(0.02)
    assert rest_after(1.0, 0.001) > rest_after(1.0, 0.000_5)
    assert rest_after(1.0, 60.0) == rest_after(1.0, 1.0), "rows go on, however much there is to do"


def test_work_that_took_longer_rests_longer() -> None:
    assert rest_after(0.01, 60.0) == pytest.approx(0.08)
    assert rest_after(0.02, 60.0) == pytest.approx(0.16)
    assert rest_after(0.0, 60.0) == 0.0, "nobody sends"


@pytest.mark.parametrize(("late", "rests"), [(0.0, [0]), (0.001, [0, pytest.approx(0.04)])])
async def test_the_loop_is_measured_and_then_left_alone(
    late: float, rests: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, now, slept = asyncio.get_running_loop(), [5.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += late

    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: now[0])
        patch.setattr(asyncio, "sleep", sleep)
        await give_way(1.0)
    assert slept == rests
