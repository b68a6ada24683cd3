"""Turns of the event loop: the time for which one call may hold up all others.

A loop over something that clients can make long pauses here. How long the work as a whole may take
is no matter of this module.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TURN_SECONDS = 0.002
"""Seconds after which a long loop lets others have a turn. A message waits for that long at most,
times the calls that have such a loop at the same time."""


class Turn:
    """One call's turns. Its first one begins now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends = clock() + TURN_SECONDS

    async def pause(self) -> None:
        """Let other calls go on if this turn has lasted long enough."""
        if self._clock() >= self._ends:
            await asyncio.sleep(0)
            self._ends = self._clock() + TURN_SECONDS
