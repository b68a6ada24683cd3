"""Queries of the state of the world for code without asyncio: the same methods and errors."""

from __future__ import annotations

import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import Protocol, Self

from quorate.protocol.bookmarks import Position
from quorate.protocol.identity import SourceName
from quorate.subscriber.blocking import Subscriber
from quorate.subscriber.changes import Change
from quorate.subscriber.items import ReplayedMessage
from quorate.subscriber.rows import Answer, AsOf, AtLeast, Key, Rows, check_deletes, check_is_past
from quorate.subscriber.state import BATCH_ROWS, Select
from quorate.subscriber.state import State as AsyncState
from quorate.subscriber.watching import Watching as AsyncWatching
from quorate.subscriber.watching import change_of
from quorate.transport.blocking import run_blocking


class DeletingSource(Protocol):
    """The part of a blocking source that deletions need."""

    @property
    def name(self) -> SourceName:
        """Its topic and session ID."""

    def delete(
        self,
        key: bytes | None,
        properties: Mapping[str, bytes] | None = None,
        *,
        payload: bytes = b"",
    ) -> int:
        """Accept a message that deletes the row of a key."""

    def flush(self) -> None:
        """Wait until all messages are stable."""


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
        self,
        key: Key,
        *,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
        as_of: AsOf = None,
    ) -> ReplayedMessage | None:
        """Return the row of a key; None: it has none. As quorate.subscriber.State.get."""
        return run_blocking(self._state.get(key, select=select, at_least=at_least, as_of=as_of))

    def query(
        self,
        where: str | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
        as_of: AsOf = None,
    ) -> Rows:
        """Return rows, with the position at which they hold. As quorate.subscriber.State.query."""
        return run_blocking(
            self._state.query(
                where, order_by=order_by, limit=limit, select=select, at_least=at_least, as_of=as_of
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
        as_of: AsOf = None,
        batch: int = BATCH_ROWS,
    ) -> Iterator[Rows]:
        """Yield rows in parts of so many, all at one position.

        Arguments and errors are those of quorate.subscriber.State.batches.
        """
        parts = self._state.batches(
            where,
            order_by=order_by,
            limit=limit,
            select=select,
            at_least=at_least,
            as_of=as_of,
            batch=batch,
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

    def delete(self, key: Key, *, source: DeletingSource) -> bool:
        """Delete the row of a key, and return whether there was one.

        As quorate.subscriber.State.delete, with a blocking source.
        """
        check_deletes(source.name, self.topic)
        row = self.get(key)
        if row is None:
            return False
        _delete([row], source)
        source.flush()
        return True

    def delete_where(self, where: str, *, source: DeletingSource) -> int:
        """Delete the rows for which a condition is true, and return how many there were.

        As quorate.subscriber.State.delete_where, with a blocking source.
        """
        check_deletes(source.name, self.topic)
        count = 0
        for part in self.batches(where):
            _delete(part, source)
            count += len(part)
        source.flush()
        return count

    def sql(
        self,
        statement: str,
        *,
        where: str | None = None,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
        as_of: AsOf = None,
    ) -> Answer:
        """Answer a statement in SQL over the rows. As quorate.subscriber.State.sql."""
        return run_blocking(
            self._state.sql(statement, where=where, select=select, at_least=at_least, as_of=as_of)
        )

    def watch(
        self,
        where: str | None = None,
        *,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
    ) -> Watching:
        """Return a watch of rows, to be iterated. As quorate.subscriber.State.watch."""
        return Watching(self._state.watch(where, select=select, at_least=at_least))

    def count(
        self, where: str | None = None, *, at_least: AtLeast = None, as_of: AsOf = None
    ) -> int:
        """Return how many rows there are. As quorate.subscriber.State.count."""
        return run_blocking(self._state.count(where, at_least=at_least, as_of=as_of))


class Watching:
    """A watch of rows: quorate.subscriber.Watching for one thread."""

    def __init__(self, watching: AsyncWatching) -> None:
        """Wrap a watch. Applications use `State.watch`."""
        self._watching = watching

    @property
    def position(self) -> Position:
        """The position whose rows the application has. As quorate.subscriber.Watching.position."""
        return self._watching.position

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        return run_blocking(change_of(self._watching))

    def close(self) -> None:
        """End the watch."""
        run_blocking(self._watching.close())


def _delete(rows: Iterable[ReplayedMessage], source: DeletingSource) -> None:
    for row in rows:
        check_is_past(row, time.time_ns())
        source.delete(row.key, row.properties, payload=row.payload)


async def _next(parts: AsyncIterator[Rows]) -> Rows | None:
    return await anext(parts, None)


async def _close(parts: AsyncIterator[Rows]) -> None:
    """End the call of an iteration that was left early."""
    if isinstance(parts, AsyncGenerator):
        await parts.aclose()
