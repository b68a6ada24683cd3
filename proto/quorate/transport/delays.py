"""The loops that wait and try again, by a policy of quorate.protocol.delays.

Which attempts fail, and what an attempt does, is the caller's own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import Any

from tenacity import AsyncRetrying, Retrying
from tenacity.retry import retry_if_exception
from tenacity.stop import stop_after_delay, stop_never

from quorate.protocol.delays import Delays, delay_after
from quorate.protocol.errors import NotRegistered, QuorateError

_CHANCE = Random()


def delay(delays: Delays, failures: int) -> float:
    """Return the delay, in seconds, after so many failures in a row, shortened by chance."""
    return shortened(delays, delay_after(delays, failures))


def shortened(delays: Delays, seconds: float) -> float:
    """Return a delay that a rule has computed, shortened by chance as these delays say."""
    return seconds * (1.0 - delays.jitter * _CHANCE.random())


async def pause(until: asyncio.Event, seconds: float | None) -> None:
    """Wait for the event to be set, but no longer than this, and clear it."""
    if seconds is None:
        # Most that wait are idle. A time-out would keep five objects for each of them.
        await until.wait()
    elif not until.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await until.wait()
    until.clear()


def is_retryable(error: BaseException) -> bool:
    """Return whether an unchanged call may succeed later."""
    return isinstance(error, QuorateError) and error.retryable


def lacks_quorum(error: BaseException) -> bool:
    """Return whether a source refused messages because too few stores take its stream just now."""
    return isinstance(error, NotRegistered)


def retrying(
    delays: Delays,
    *,
    patience: float | None = None,
    again: Callable[[BaseException], bool] = is_retryable,
) -> AsyncRetrying:
    """Return the loop of tenacity that calls a coroutine function until it succeeds.

    The loop raises the error of the last attempt.

    - patience: seconds after which no attempt follows; None: `delays.give_up_after`.
    - again: tells whether another attempt follows this error.
    """
    return AsyncRetrying(sleep=asyncio.sleep, **_strategies(delays, patience, again))


def retrying_blocking(
    delays: Delays,
    *,
    patience: float | None = None,
    again: Callable[[BaseException], bool] = is_retryable,
) -> Retrying:
    """Return what `retrying` returns, for a function of a program without asyncio."""
    return Retrying(**_strategies(delays, patience, again))


def _strategies(
    delays: Delays, patience: float | None, again: Callable[[BaseException], bool]
) -> dict[str, Any]:
    patience = delays.give_up_after if patience is None else patience
    return {
        "wait": lambda state: delay(delays, state.attempt_number),
        "stop": stop_never if patience is None else stop_after_delay(patience),
        # A cancelled attempt is over, whatever the caller says.
        "retry": retry_if_exception(lambda error: isinstance(error, Exception) and again(error)),
        "reraise": True,
    }
