"""Queries of the state of the world for code without asyncio: the same methods and errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence

from quorate.protocol.bookmarks import Position
from quorate.subscriber.blocking import Subscriber
from quorate.subscriber.items import ReplayedMessage
from quorate.subscriber.rows import AtLeast, Key, Rows
from quorate.subscriber.state import BATCH_ROWS, Select
from quorate.subscriber.state import State as AsyncState
from quorate.transport.blocking import run_blocking

Subscribe = Callable[[Position, str | None, Select], Subscriber]


class State:
    """The state of one topic: quorate.subscriber.State for one thread."""

    def __init__(self, state: AsyncState, subscribe: Subscribe) -> None:
        """Wrap a state. Applications use `Client.state`."""
        self._state = state
        self._subscribe = subscribe

    @property
    def topic(self) -> str:
        """The topic."""
        return self._state.topic

    def get(
        self, key: Key, *, select: str | Sequence[str] | None = None, at_least: AtLeast = None
    ) -> ReplayedMessage | None:
        """Return the row of a key; None: it has none. As quorate.subscriber.State.get."""
        return run_blocking(self._state.get(key, select=select, at_least=at_least))

    def query(
        self,
        where: str | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
    ) -> Rows:
        """Return rows, with the position at which they hold. As quorate.subscriber.State.query."""
        return run_blocking(
            self._state.query(
                where, order_by=order_by, limit=limit, select=select, at_least=at_least
            )
        )

    def batches(
        self,
        where: str | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
        batch: int = BATCH_ROWS,
    ) -> Iterator[Rows]:
        """Yield rows in parts of so many, all at one position.

        Arguments and errors are those of quorate.subscriber.State.batches.
        """
        parts = self._state.batches(
            where, order_by=order_by, limit=limit, select=select, at_least=at_least, batch=batch
        )
        try:
            while (part := run_blocking(_next(parts))) is not None:
                yield part
        finally:
            run_blocking(_close(parts))

    def query_and_subscribe(
        self,
        where: str | None = None,
        *,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
    ) -> tuple[Rows, Subscriber]:
        """Return rows, and an open subscription to the stable messages that follow them.

        As quorate.subscriber.State.query_and_subscribe.
        """
        rows = self.query(where, select=select, at_least=at_least)
        return rows, self._subscribe(rows.position, where, select)

    def count(self, where: str | None = None, *, at_least: AtLeast = None) -> int:
        """Return how many rows there are. As quorate.subscriber.State.count."""
        return run_blocking(self._state.count(where, at_least=at_least))


async def _next(parts: AsyncIterator[Rows]) -> Rows | None:
    return await anext(parts, None)


async def _close(parts: AsyncIterator[Rows]) -> None:
    """End the call of an iteration that was left early."""
    if isinstance(parts, AsyncGenerator):
        await parts.aclose()
