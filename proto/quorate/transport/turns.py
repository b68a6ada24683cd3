"""The turns of calls to one peer: so many at a time, the others one after the other.

What the calls say is not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self


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
