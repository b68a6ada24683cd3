"""The loops that wait and try again."""

from __future__ import annotations

import asyncio

import pytest

from quorate.protocol.delays import Delays
from quorate.protocol.errors import Fenced, NotRegistered, QuorateError, Unreachable
from quorate.transport.delays import (
    delay,
    lacks_quorum,
    pause,
    retrying,
    retrying_blocking,
    shortened,
)

AT_ONCE = Delays(first=0.0)
DOWN = Unreachable("a:1", "down")
FENCED = Fenced("orders/0x10", 1, 2)


class Work:
    """Work that fails as scripted, and then succeeds."""

    def __init__(self, *errors: QuorateError) -> None:
        self._errors = list(errors)
        self.attempts = 0

    def once(self, what: str) -> str:
        self.attempts += 1
        if self._errors:
            raise self._errors.pop(0)
        return what

    async def once_async(self, what: str) -> str:
        await asyncio.sleep(0)
        return self.once(what)


async def test_it_tries_until_it_succeeds() -> None:
    work = Work(DOWN, DOWN)
    assert await retrying(AT_ONCE)(work.once_async, "done") == "done"
    assert work.attempts == 3
    work = Work(DOWN)
    assert retrying_blocking(AT_ONCE)(work.once, "done") == "done"


async def test_an_error_that_waiting_does_not_heal_is_raised_as_it_is() -> None:
    with pytest.raises(Fenced) as raised:
        await retrying(AT_ONCE)(Work(FENCED).once_async, "done")
    assert raised.value is FENCED


async def test_the_caller_may_say_after_which_errors_another_attempt_follows() -> None:
    missing = NotRegistered("orders", "too few stores")
    assert await retrying(AT_ONCE, again=lacks_quorum)(Work(missing).once_async, "done") == "done"
    with pytest.raises(Unreachable):
        await retrying(AT_ONCE, again=lacks_quorum)(Work(DOWN).once_async, "done")


@pytest.mark.parametrize("delays", [AT_ONCE, Delays(first=0.0, give_up_after=60.0)])
async def test_it_gives_up_when_its_patience_is_over(delays: Delays) -> None:
    work = Work(DOWN, DOWN)
    with pytest.raises(Unreachable):
        await retrying(delays, patience=0.0)(work.once_async, "done")
    assert work.attempts == 1


async def test_the_policy_may_say_when_to_give_up() -> None:
    work = Work(*[DOWN] * 1000)
    with pytest.raises(Unreachable):
        await retrying(Delays(first=0.01, factor=1.0, give_up_after=0.05))(work.once_async, "")
    assert 1 < work.attempts < 1000


async def test_a_cancelled_attempt_is_not_repeated() -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    task: asyncio.Task[None] = asyncio.create_task(retrying(AT_ONCE, again=lambda _: True)(hang))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_chance_shortens_a_delay_by_the_part_that_is_left_to_it() -> None:
    delays = Delays(first=1.0, factor=1.0, jitter=0.25)
    found = {delay(delays, failures) for failures in range(1, 200)}
    assert len(found) > 100
    assert all(0.75 <= each <= 1.0 for each in found)
    assert shortened(Delays(jitter=0.0), 3.0) == 3.0


@pytest.mark.parametrize("seconds", [None, 60.0, 0.0])
async def test_a_pause_ends_with_its_event_and_clears_it(seconds: float | None) -> None:
    event = asyncio.Event()
    pausing = asyncio.create_task(pause(event, seconds))
    await asyncio.sleep(0)
    event.set()
    await pausing
    assert not event.is_set()
    event.set()
    await pause(event, seconds)
    assert not event.is_set()


async def test_a_pause_ends_with_its_time() -> None:
    await pause(asyncio.Event(), 0.0)
