"""The conflation of one subscription: its items come in, and those that are left go out.

The rule is in quorate.subscriber.protocol.conflation. Here are its clock, and the waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quorate.protocol.bookmarks import Position
from quorate.subscriber.items import (
    ConflatedMessage,
    Item,
    Notice,
    ReplayedBatch,
    ReplayedMessage,
    alone,
)
from quorate.subscriber.protocol.conflation import Conflation
from quorate.subscriber.protocol.conflation_key import ConflationKey


class Conflating:
    """Takes the items of a subscription, and hands over what is left of them."""

    def __init__(self, interval: float, key: ConflationKey) -> None:
        """Begin with nothing that waits. interval: seconds of a window."""
        self._key = key
        self._conflation: Conflation[ReplayedMessage] = Conflation(interval)
        self._batch: ReplayedBatch | None = None
        self._notice: Notice | None = None
        """The notice that is handed over behind all messages that wait."""

    @property
    def position(self) -> Position:
        """The position behind everything that was handed over, and before what waits."""
        return self._conflation.position

    def begin(self, position: Position) -> None:
        """Begin at a position."""
        self._conflation.move(position)

    async def next(
        self,
        take: Callable[[], Awaitable[Item]],
        behind: Callable[[], Position],
        until_going: Callable[[], Awaitable[None]],
    ) -> Item:
        """Return what is handed over next. A call that is cancelled leaves it to the next.

        - take: returns the next item of the subscription, and loses none if it is cancelled.
        - behind: returns the position behind the last batch or notice that was taken.
        - until_going: returns once something may be handed over.
        """
        while True:
            await until_going()
            conflated = self._conflation.hand_over(_now())
            if conflated is not None:
                return ConflatedMessage(conflated)
            if self._notice is not None:
                notice, self._notice = self._notice, None
                self._conflation.move(behind())
                return notice
            item = await self._taken(take)
            if isinstance(item, ReplayedMessage):
                self._take(item, behind)
            elif item is not None:
                self._conflation.end()
                self._notice = item

    async def _taken(self, take: Callable[[], Awaitable[Item]]) -> Item | None:
        """Return the next item; None: the window ends before it comes."""
        try:
            async with asyncio.timeout_at(self._conflation.ends_at) as window:
                return await take()
        except TimeoutError:
            if not window.expired():
                raise
            return None

    def _take(self, message: ReplayedMessage, behind: Callable[[], Position]) -> None:
        batch = message.batch
        if batch is not self._batch:
            self._batch = batch
            self._conflation.begin(batch.source, batch.epoch, batch.numbers, behind(), batch.taken)
        # A message that waits for long must not keep the other messages of its batch in memory.
        message = alone(message)
        key = self._key.of(batch.topic, message.key, message.payload)
        values = (message.payload, message.key or b"", *message.properties.values())
        self._conflation.take(_now(), key, message, sum(map(len, values)))


def _now() -> float:
    return asyncio.get_running_loop().time()
