"""The bounded log from which an application reads the events of a source or a receiver.

The log keeps plain values. It does not know what they mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

_log = logging.getLogger("quorate.events")

EVENTS_KEPT = 1024
"""The number of events that a log keeps for slow and late readers."""

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class EventsLost:
    """The reader was too slow: the log dropped events that it had not read."""

    count: int


class EventLog(Generic[E]):
    """The newest events. Any number of readers take them, each at its own pace."""

    def __init__(self, on_event: Callable[[E], None] | None = None) -> None:
        """Create an empty log. on_event: a function that is called with each event at once."""
        self._on_event = on_event
        self._events: deque[E] = deque(maxlen=EVENTS_KEPT)
        self._count = 0
        self._ended = False
        self._news = asyncio.Event()

    def add(self, event: E) -> None:
        """Add an event, and call on_event with it."""
        self._events.append(event)
        self._count += 1
        self._wake()
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                # An error of the application's function must not stop the source or receiver.
                _log.exception("on_event failed with %s", event)

    def end(self) -> None:
        """Mark the end: each reader finishes once it has read the remaining events."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news.clear()

    def kept(self) -> list[E]:
        """Return the events that are still kept, oldest first."""
        return list(self._events)

    async def read(self) -> AsyncIterator[E | EventsLost]:
        """Yield the events that are still kept, then each new one, until the log ends."""
        position = 0
        while True:
            oldest = self._count - len(self._events)
            if position < oldest:
                yield EventsLost(oldest - position)
                position = oldest
            elif position < self._count:
                event = self._events[position - oldest]
                position += 1
                yield event
            elif self._ended:
                return
            else:
                await self._news.wait()
