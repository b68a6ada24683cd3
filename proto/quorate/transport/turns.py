"""Turns: so many callers at a time, the others one after the other.

What they do in their turn is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

LOOK_SECONDS = 0.25
"""Seconds between two looks at one that begins and is not done yet."""

IDLE_LOOKS_MAX = 4
"""Looks in a row that see none done, after which one that begins lets another one begin, too."""

LOOKS_MAX = 40
"""Looks after which it does so in any case."""


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

    @property
    def has_place(self) -> bool:
        """Whether a place was taken, and is not given back yet."""
        return self._taken_of is not None

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


class Beginnings:
    """The turns of all that one client begins: so many at once, the others one after the other.

    One that takes long gives its place to another one, as while stores are away. It keeps its
    place while others are done: then the stores answer, and the machine is busy. More at once would
    only take longer, each of them.
    """

    def __init__(self, places: int) -> None:
        """Begin with so many places."""
        self._places = asyncio.Semaphore(places)
        self._done = 0

    def locked(self) -> bool:
        """Whether there is no place now."""
        return self._places.locked()

    @contextlib.asynccontextmanager
    async def turn(self, until: float) -> AsyncIterator[bool]:
        """Wait for a turn to begin something, which the block does. Yield whether it came in time.

        until: the loop's time at which the block begins without a place.
        """
        with Turn(lambda: self._places) as turn:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await turn.take()
            # The looks cost as much as all else if each of thousands without a place has them.
            looks = _Looks(turn, lambda: self._done) if turn.has_place else None
            try:
                yield turn.has_place
                self._done += 1
            finally:
                if looks is not None:
                    looks.end()


class _Looks:
    """The looks at a turn, from time to time, until its place is given back.

    Looks are counted, not seconds. A loop that was held up for seconds looks once after that.
    """

    def __init__(self, turn: Turn, done: Callable[[], int]) -> None:
        """Begin to look. done: returns how many turns are done."""
        self._turn = turn
        self._done = done
        self._seen = done()
        self._left = LOOKS_MAX
        self._idle_left = IDLE_LOOKS_MAX
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        done = self._done()
        self._left -= 1
        self._idle_left = self._idle_left - 1 if done == self._seen else IDLE_LOOKS_MAX
        self._seen = done
        if self._left and self._idle_left:
            self._next = self._loop.call_later(LOOK_SECONDS, self._look)
        else:
            self._turn.give_back()

    def end(self) -> None:
        """Look no more."""
        self._next.cancel()
