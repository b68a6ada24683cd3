"""The turns of calls to one peer: so many at a time, the others one after the other.

What the calls say is not known here.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Turn:
    """One caller's turn. It is given back at the end of its `with`, if not before."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        """Begin without a place. places: those of the peer."""
        self._places = places
        self._is_taken = False

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
        return self._is_taken or not self._places.locked()

    async def take(self) -> None:
        """Wait for a place, behind all that wait already."""
        if not self._is_taken:
            await self._places.acquire()
            self._is_taken = True

    def give_back(self) -> None:
        """Let another caller have the place."""
        if self._is_taken:
            self._is_taken = False
            self._places.release()
