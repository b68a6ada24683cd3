"""Turns: so many callers at a time, the others one after the other.

What they do in their turn is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

BEGINNING_SECONDS_MAX = 1.0
"""Seconds after which one that begins lets another one begin, too, though it is not done."""


class Turn:
    """One caller's turn. It is given back at the end of its `with`, if not before."""

    def __init__(self, places_of_peer: Callable[[], asyncio.Semaphore]) -> None:
        """Begin without a place. places_of_peer: is called when one is to be taken."""
        self._places_of_peer = places_of_peer
        self._taken_of: asyncio.Semaphore | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give_back()

    @property
    def is_near(self) -> bool:
        """Whether `take` does not wait."""
        return self._taken_of is not None or not self._places_of_peer().locked()

    async def take(self) -> None:
        """Wait for a place, behind all that wait already."""
        if self._taken_of is None:
            places = self._places_of_peer()
            await places.acquire()
            self._taken_of = places

    def give_back(self) -> None:
        """Let another caller have the place."""
        if self._taken_of is not None:
            self._taken_of.release()
            self._taken_of = None


@contextlib.asynccontextmanager
async def beginning(places: asyncio.Semaphore, until: float) -> AsyncIterator[None]:
    """Wait for a turn to begin something, which the block does.

    A block that takes long, as while stores are away, gives its place to another one.

    until: the loop's time at which the block begins without a place.
    """
    with Turn(lambda: places) as turn:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await turn.take()
        loop = asyncio.get_running_loop()
        given_back = loop.call_later(BEGINNING_SECONDS_MAX, turn.give_back)
        try:
            yield
        finally:
            given_back.cancel()
