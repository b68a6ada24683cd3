"""The call WatchState: the rows of a topic with keys, and then each key that has changed.

The maker of rows says which keys have changed, and their rows are read when the client has taken
the last ones. So a slow client costs no memory, and is given the newest row of each key. The rows
themselves are read in quorate.store.rpc.state_reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

from quorate.protocol.bookmarks import NO_PLACE, Position
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.projection import Projection
from quorate.protocol.limits import WHOLE_BATCH_BYTES_MAX
from quorate.protocol.row_parts import parts_of
from quorate.protocol.wire import position_to_wire
from quorate.store.rpc.state import RESPONSE_BYTES, StateQueries, position_in
from quorate.store.rpc.state_reading import Change, Watched
from quorate.store.tasks.state_progress import Keyed
from quorate.store.tasks.state_watchers import KeyWatcher
from quorate.v1 import store_pb2 as store_v1

_KEYS_AT_ONCE = 256
"""The changed keys whose rows one step reads."""
_SAY_SECONDS = 2.0
"""Seconds after which a client hears something, though no row has changed."""

Response = store_v1.WatchStateResponse


class StateWatch:
    """One call of WatchState."""

    def __init__(
        self,
        queries: StateQueries,
        request: store_v1.WatchStateRequest,
        check_running: Callable[[], None],
    ) -> None:
        """Serve a request. Raises InvalidArgument, TopicHasNoKeys, StateUnavailable.

        check_running: raises the error with which the store refuses calls, if there is one.
        """
        self._queries = queries
        self._check_running = check_running
        self._topic = request.topic
        self._keyed: Keyed = queries.keyed(request.topic)
        self._request = request
        self._watched = Watched(None, None)
        self._since: Position | None = None
        """The position whose rows the client has; None: it has none."""

    async def responses(self) -> AsyncGenerator[Response, None]:
        """Yield rows, and what changes. It does not end.

        Raises InvalidArgument, InvalidFilter, StateUnavailable, StorageFailed, CorruptBatch,
        StorageUnreadable.
        """
        queries, request = self._queries, self._request
        self._watched, self._since, at_least = await queries.run(lambda: _asked(request))
        await queries.until_ready(self._topic, at_least, request.wait_seconds, self._check_running)
        with queries.making.watchers.watching(self._topic) as watcher:
            while True:
                async for response in self._rows(watcher):
                    yield response
                async for response in self._changes(watcher):
                    yield response

    async def _rows(self, watcher: KeyWatcher) -> AsyncIterator[Response]:
        """Yield the rows that the client lacks: all, or those that have changed."""
        queries, making = self._queries, self._queries.making
        # A key that the view has is not told once more.
        watcher.take()
        if self._since is not None and not making.goes_on_from(self._topic, self._since):
            self._since = None
        view = await queries.view(self._topic, self._keyed)
        position = await queries.run(view.position)
        yield Response(begins_anew=self._since is None)
        async for response in self._packed(view.changes(self._watched, self._since)):
            yield response
        yield self._has_come_to(position)

    async def _changes(self, watcher: KeyWatcher) -> AsyncIterator[Response]:
        """Yield the rows of keys that change, until the rows must be compared as a whole."""
        queries, making = self._queries, self._queries.making
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SAY_SECONDS):
                    await watcher.woken()
            self._check_running()
            queries.check_making(self._topic)
            assert self._since is not None
            if watcher.has_missed or not making.goes_on_from(self._topic, self._since):
                return
            keys, position = watcher.take(), making.position(self._topic)
            view = queries.view_of_now(self._topic, self._keyed)
            parts = (keys[at : at + _KEYS_AT_ONCE] for at in range(0, len(keys), _KEYS_AT_ONCE))
            steps = (step for part in parts for step in view.changes_of(self._watched, part))
            async for response in self._packed(steps):
                yield response
            yield self._has_come_to(position)

    def _has_come_to(self, position: Position) -> Response:
        """Return what says that the client has the rows of a position, if that is news."""
        response = Response()
        if position != self._since:
            response.position.CopyFrom(position_to_wire(position))
        self._since = position
        return response

    async def _packed(self, steps: Iterator[list[Change]]) -> AsyncIterator[Response]:
        """Yield changes, which are made step by step, in responses of a bounded size."""
        response, size, said_at = Response(), 0, time.monotonic()
        while (step := await self._queries.run(lambda: next(steps, None))) is not None:
            self._check_running()
            for change in step:
                if len(change.row) > WHOLE_BATCH_BYTES_MAX:
                    yield response
                    for response in _in_parts(change):
                        yield response
                    response, size, said_at = Response(), 0, time.monotonic()
                    continue
                response.changes.append(change)
                size += change.ByteSize()
                if size > RESPONSE_BYTES:
                    yield response
                    response, size, said_at = Response(), 0, time.monotonic()
            if time.monotonic() > said_at + _SAY_SECONDS:
                yield response
                response, size, said_at = Response(), 0, time.monotonic()
        yield response


def _in_parts(change: Change) -> Iterator[Response]:
    """Yield the row of a change in parts, and the change with the last one."""
    row = change.row
    change.ClearField("row")
    change.reason = store_v1.LEFT_REASON_DELETED
    for data, ends in parts_of(row):
        part = store_v1.RowPart(data=data, ends=ends)
        yield Response(part=part, changes=[change] if ends else ())


def _asked(request: store_v1.WatchStateRequest) -> tuple[Watched, Position | None, Position]:
    """Read what may be long in a request, in a thread.

    Return what it wants of each row, the position whose rows the client has, and the position that
    the rows must have reached. Raises InvalidArgument, InvalidFilter.
    """
    watched = Watched(
        Filter(request.where) if request.where else None,
        Projection(request.select) if request.select else None,
    )
    since = None
    if request.HasField("behind"):
        since = position_in(request.topic, request.behind)
    return watched, since, _later(position_in(request.topic, request.at_least), since)


def _later(position: Position, other: Position | None) -> Position:
    """Return a position that has all before two others."""
    places = dict(position)
    for source, place in (other or {}).items():
        places[source] = max(place, places.get(source, NO_PLACE))
    return Position(places)
