"""The handing over of one subscription in time: at its pace, and nothing while it is paused.

When something is due is decided in quorate.subscriber.protocol.pace. Here are its clock, and the
waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import Closed
from quorate.subscriber.io.replay import Given
from quorate.subscriber.items import Item, ReplayedBatch, ReplayedMessage
from quorate.subscriber.protocol.pace import Pace


@dataclass(frozen=True, slots=True)
class _Held:
    """A message or a batch that is not due yet."""

    given: Item | Given
    due_at: float
    before: Callable[[], Position]
    """Returns the position before it."""


class Pacing:
    """Takes what a subscription hands over, and keeps it until it is due."""

    def __init__(self, pace: Pace | None, closed: asyncio.Event) -> None:
        """Begin with nothing that waits.

        - pace: None: everything is due at once.
        - closed: is set once the subscription is closed. Then it is no longer paused.
        """
        self._pace = pace
        self.is_going = True
        """Whether anything is handed over for now: it is not paused."""
        self._goes_on = asyncio.Event()
        self._closed = closed
        self._held: _Held | None = None

    @property
    def has_pace(self) -> bool:
        """Whether anything is due later than at once."""
        return self._pace is not None

    @property
    def position(self) -> Position | None:
        """The position before what waits; None: nothing does."""
        return None if self._held is None else self._held.before()

    def pause(self) -> None:
        """Hand over nothing more until `resume`."""
        self.is_going = False
        self._goes_on.clear()

    def resume(self) -> None:
        """Hand over again."""
        self.is_going = True
        self._goes_on.set()

    def check_open(self) -> None:
        """Raise Closed if the subscription is closed."""
        if self._closed.is_set():
            raise Closed("The subscriber")

    async def until_going(self) -> None:
        """Return once it is not paused."""
        while not self.is_going:
            await self._goes_on.wait()

    async def next(
        self, take: Callable[[], Awaitable[Item | Given]], before: Callable[[], Position]
    ) -> Item | Given:
        """Return what is handed over next, when it is due. A cancelled call leaves it to the next.

        - take: returns it, and loses nothing if it is cancelled.
        - before: returns the position before it, also once it was taken.
        """
        await self.until_going()
        held = self._held
        if held is None:
            given = await take()
            held = self._held = _Held(given, self._due_at(given), before)
        if (seconds := held.due_at - _now()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._closed.wait()
            await self.until_going()
        self.check_open()
        self._held = None
        return held.given

    def _due_at(self, given: Item | Given) -> float:
        """Return when to hand this over, on the clock of the loop; 0: at once."""
        due_at = 0.0
        if self._pace is None:
            return due_at
        if isinstance(given, ReplayedMessage):
            return self._pace.due_at(_now(), len(given.payload), given.timestamp_ns)
        if isinstance(given, ReplayedBatch):
            for payload, time_ns in zip(given.payloads, given.times, strict=True):
                due_at = self._pace.due_at(_now(), len(payload), time_ns)
        return due_at


def _now() -> float:
    return asyncio.get_running_loop().time()
