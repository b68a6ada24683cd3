"""The watch: the rows of a topic with keys, and each change, from one store after the other.

Which rows the application has is known in quorate.subscriber.protocol.held_rows. A store that takes
over is told the position of these rows, and gives the keys that have changed since.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Self

from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.delays import Delays
from quorate.protocol.errors import (
    Closed,
    InvalidArgument,
    InvalidFilter,
    QuorateError,
    Unreachable,
)
from quorate.protocol.row_parts import RowJoining
from quorate.protocol.wire import bookmark_from_wire, position_from_wire, position_to_wire
from quorate.subscriber.changes import Change, Left, LeftReason, Updated
from quorate.subscriber.items import Completed
from quorate.subscriber.protocol.chooser import Turns
from quorate.subscriber.protocol.held_rows import HeldRows, RowKey
from quorate.subscriber.rows import message_of
from quorate.transport.connections import Connections
from quorate.transport.delays import delay
from quorate.transport.failures import errors_of
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.subscriber.watching")

_WAIT_SECONDS = 5.0
"""The longest time in seconds that one store is given to make the rows that are asked for."""
_SILENCE_SECONDS = 10.0
"""Seconds without an answer after which another store is asked. A store says something each few."""

_REASONS = {
    store_v1.LEFT_REASON_NO_MATCH: LeftReason.NO_MATCH,
    store_v1.LEFT_REASON_DELETED: LeftReason.DELETED,
    store_v1.LEFT_REASON_EXPIRED: LeftReason.EXPIRED,
    store_v1.LEFT_REASON_ENDED: LeftReason.ENDED,
}


class Watching:
    """A watch of rows: iterate over it. Get it from `State.watch`, and close it."""

    def __init__(
        self,
        request: store_v1.WatchStateRequest,
        turns: Turns,
        connections: Connections,
        timeout: float | None,
        delays: Delays,
        check_open: Callable[[], None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begin unconnected. Applications use `State.watch`."""
        self._now_ns = now_ns
        self._request = request
        self._turns = turns
        self._connections = connections
        self._timeout = timeout
        self._delays = delays
        self._check_client = check_open
        self._held = HeldRows()
        self._ready: deque[Change | Position] = deque()
        """The items to hand over next. A position counts once it is reached."""
        self._position: Position | None = None
        self._has_completed = False
        self._answers: AsyncGenerator[store_v1.WatchStateResponse, None] | None = None
        self._coming: asyncio.Task[store_v1.WatchStateResponse] | None = None
        """The task that waits for a store. A cancelled call leaves it to the next one."""
        self._is_closed = False

    @property
    def position(self) -> Position:
        """The position whose rows the application has, once it has taken what was handed over."""
        return self._position or Position()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        while True:
            self._check_open()
            self._ready += _all_left(self._held.expired(self._now_ns()), LeftReason.EXPIRED)
            while self._ready:
                item = self._ready.popleft()
                if not isinstance(item, Position):
                    return item
                self._position = item
                if not self._has_completed:
                    self._has_completed = True
                    return Completed(item)
            if (response := await self._received()) is not None:
                self._take(response)

    async def close(self) -> None:
        """End the watch."""
        self._is_closed = True
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)
        if self._answers is not None:
            await self._answers.aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("The watch")
        self._check_client()

    # -- what a store gives -----------------------------------------------------------------

    def _take(self, response: store_v1.WatchStateResponse) -> None:
        """Make of a response what is handed over next. Raises CorruptBatch, InvalidArgument."""
        if response.begins_anew:
            self._held.begins(anew=True)
        for change in response.changes:
            key = _key_of(change.key)
            if change.row:
                row = message_of(change.row, self._turns.store.address)
                if self._held.is_new(key, row.bookmark, row.attributes.expires_ns):
                    self._ready.append(Updated(key, row))
                continue
            before = self._held.leaves(key)
            if before is not None:
                by = bookmark_from_wire(change.by) if change.HasField("by") else before
                self._ready.append(Left(key, _REASONS[change.reason], by))
        if response.HasField("position"):
            self._ready += _all_left(self._held.completed(), LeftReason.ENDED)
            self._ready.append(position_from_wire(response.position))

    async def _received(self) -> store_v1.WatchStateResponse | None:
        """Return what a store says next; None: a row expires first."""
        if self._answers is None:
            self._answers = self._from_any()
        if self._coming is None:
            self._coming = asyncio.create_task(anext(self._answers))
        expiry_ns = self._held.next_expiry()
        seconds = None if expiry_ns is None else max(0.0, (expiry_ns - self._now_ns()) / 1e9)
        done, _ = await asyncio.wait({self._coming}, timeout=seconds)
        self._check_open()
        if not done:
            return None
        coming, self._coming = self._coming, None
        try:
            return coming.result()
        except BaseException:
            self._answers = None
            raise

    # -- one store after the other ----------------------------------------------------------

    async def _from_any(self) -> AsyncGenerator[store_v1.WatchStateResponse, None]:
        """Yield what stores say: of one, and if it fails of the next one."""
        loop = asyncio.get_running_loop()
        ends = None if self._timeout is None else loop.time() + self._timeout
        turns, has_begun = self._turns, False
        while True:
            self._check_client()
            store = turns.store
            try:
                async with aclosing(self._from(store.address, self._asked())) as responses:
                    async for response in responses:
                        has_begun = True
                        turns.gave()
                        yield response
            except (InvalidArgument, InvalidFilter, Closed):
                raise
            except QuorateError as error:
                _log.info("the watch leaves store %s: %s", store.name, error)
                turns.left(error)
                if (rounds := turns.rounds) is not None:
                    pause = delay(self._delays, rounds)
                    is_late = not has_begun and ends is not None and loop.time() + pause >= ends
                    if is_late or not (error.retryable or isinstance(error, Unreachable)):
                        raise
                    await asyncio.sleep(pause)

    def _asked(self) -> store_v1.WatchStateRequest:
        """Return the request to the next store: behind the rows that the application has."""
        request = store_v1.WatchStateRequest()
        request.CopyFrom(self._request)
        request.wait_seconds = _WAIT_SECONDS
        if self._position is not None:
            request.behind.CopyFrom(position_to_wire(self._position))
        self._held.begins(anew=False)
        return request

    async def _from(
        self, address: str, request: store_v1.WatchStateRequest
    ) -> AsyncGenerator[store_v1.WatchStateResponse, None]:
        with self._connections.connect(address) as connection:
            call = connection.store.WatchState(request)
            joining = RowJoining(address)
            try:
                with errors_of(address):
                    while True:
                        async with asyncio.timeout(_WAIT_SECONDS + _SILENCE_SECONDS):
                            response = await call.read()
                        if not isinstance(response, store_v1.WatchStateResponse):
                            raise Unreachable(address, "it ended the answer")
                        if (
                            response.HasField("part")
                            and (row := joining.take(response.part.data, response.part.ends))
                            is not None
                            and response.changes
                        ):
                            response.changes[0].row = row
                        yield response
            finally:
                call.cancel()


def _all_left(rows: Iterable[tuple[RowKey, Bookmark]], reason: LeftReason) -> Iterable[Left]:
    return [Left(key, reason, bookmark) for key, bookmark in rows]


def _key_of(wire: store_v1.StateKey) -> RowKey:
    return wire.raw if wire.WhichOneof("kind") == "raw" else tuple(json.loads(wire.values))


async def change_of(watching: Watching) -> Change:
    """Return the next change, for the blocking watch."""
    return await anext(watching)
