"""The calls QueryState and DigestState: requests checked, rows answered at one position.

The rows of one answer come from one frozen view, so they and the position belong together. They are
read away from the event loop, and the next ones once the client has taken the last. The reading is
in quorate.store.rpc.state_reading.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from quorate.protocol.errors import (
    InvalidArgument,
    StateUnavailable,
    StorageUnreadable,
    TopicHasNoKeys,
)
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.projection import Projection
from quorate.protocol.identity import check_topic
from quorate.protocol.keying import Keying
from quorate.protocol.wire import position_from_wire, position_to_wire, source_from_wire
from quorate.store.engine import Engine
from quorate.store.rpc.state_reading import Asked, StateView
from quorate.store.rules.state_order import Ordering
from quorate.store.storage.interface import Storage, Table
from quorate.store.storage.records import Malformed
from quorate.store.storage.state_records import Progress
from quorate.store.tasks.executor import Apart
from quorate.store.tasks.state import Keyed, StateMaking
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

KEYS_ASKED_MAX = 1024
"""The most keys that one query may name."""
WAIT_SECONDS_MAX = 60.0
"""The longest time in seconds for which a query waits for rows."""
_RESPONSE_BYTES = 256 * 1024
_CANDIDATES_AT_ONCE = 2
"""Each may have as many bytes as a batch may, and a frame bounds a response."""
_SAY_SECONDS = 1.0
"""Seconds after which a query says something, though no row has passed."""

T = TypeVar("T")


class StateQueries:
    """The queries of one store's state of the world."""

    def __init__(
        self,
        engine: Engine,
        storage: Storage,
        making: StateMaking,
        apart: Apart,
    ) -> None:
        """Answer queries of these rows. making: their maker. apart: runs what reads them."""
        self._engine = engine
        self._storage = storage
        self._making = making
        self._apart = apart

    async def query(
        self, request: store_v1.QueryStateRequest, check_running: Callable[[], None]
    ) -> AsyncGenerator[store_v1.QueryStateResponse, None]:
        """Yield the position, rows, and the end.

        check_running: raises the error with which the store refuses calls, if there is one.
        Raises InvalidArgument, InvalidFilter, TopicHasNoKeys, StateUnavailable, StorageFailed,
        CorruptBatch.
        """
        keyed = self._keyed(request.topic)
        asked = _asked(request, keyed.keying)
        await self._ready(request, check_running)
        view = await self._view(request.topic, keyed)
        position = await self._run(view.position)
        yield store_v1.QueryStateResponse(position=position_to_wire(position))
        steps = view.steps(asked)
        response, size, given = store_v1.QueryStateResponse(), 0, 0
        said_at = time.monotonic()
        while (rows := await self._run(lambda: next(steps, None))) is not None:
            check_running()
            for row in rows:
                response.rows.append(row)
                size += len(row)
                if size > _RESPONSE_BYTES:
                    yield response
                    response, size = store_v1.QueryStateResponse(), 0
            if time.monotonic() > said_at + _SAY_SECONDS:
                # So a client that waits knows that the store is at work.
                said_at = time.monotonic()
                yield response
                response, size = store_v1.QueryStateResponse(), 0
            given += len(rows)
            if asked.limit and given >= asked.limit and asked.ordering is None:
                break
        response.end.count = view.count
        yield response

    async def digest(
        self, request: store_v1.DigestStateRequest, check_running: Callable[[], None]
    ) -> store_v1.DigestStateResponse:
        """Return the digest of a topic's rows. Raises what `query` does."""
        keyed = self._keyed(request.topic)
        await self._ready(request, check_running)
        view = await self._view(request.topic, keyed)
        position = await self._run(view.position)
        steps = view.digest()
        digest = await self._run(lambda: next(steps))
        while (more := await self._run(lambda: next(steps, None))) is not None:
            check_running()
            digest = more
        return store_v1.DigestStateResponse(
            position=position_to_wire(position), digest=digest.value(), count=digest.count
        )

    async def candidates(
        self, request: store_v1.StateCandidatesRequest, check_running: Callable[[], None]
    ) -> AsyncGenerator[store_v1.StateCandidatesResponse, None]:
        """Yield the rows that were made of one source, for a peer. Raises what `query` does."""
        source, engine = source_from_wire(request.source), self._engine
        keyed, store = self._making.keyed(source.topic), engine.core.store
        if keyed is None or engine.durability(source.topic) == v1.DURABILITY_STATE_ONLY:
            raise TopicHasNoKeys(source.topic, store)
        if keyed.keying.text != request.keys:
            raise InvalidArgument("keys", f"are {keyed.keying.text} at this store")
        if limbo := engine.limbo_reason(None):
            raise StateUnavailable(source.topic, store, f"it is in limbo: {limbo}")
        view = await self._view(source.topic, keyed)
        progress = await self._run(lambda: view.progress_of(source))
        yield store_v1.StateCandidatesResponse(
            place=store_v1.Place(epoch=progress.place.epoch, sequence=progress.place.sequence),
            rows=rows_status(progress),
        )
        steps = view.candidates_of(source)
        while (found := await self._run(lambda: next(steps, None))) is not None:
            check_running()
            for at in range(0, len(found), _CANDIDATES_AT_ONCE):
                yield store_v1.StateCandidatesResponse(
                    candidates=found[at : at + _CANDIDATES_AT_ONCE]
                )
            if not found:
                yield store_v1.StateCandidatesResponse()
        yield store_v1.StateCandidatesResponse(end=True)

    def _keyed(self, topic: str) -> Keyed:
        check_topic(topic)
        keyed, store = self._making.keyed(topic), self._engine.core.store
        if keyed is None:
            raise TopicHasNoKeys(topic, store)
        if self._engine.durability(topic) == v1.DURABILITY_STATE_ONLY:
            raise StateUnavailable(topic, store, "it takes no messages of the topic (state-only)")
        return keyed

    async def _ready(
        self,
        request: store_v1.QueryStateRequest | store_v1.DigestStateRequest,
        check_running: Callable[[], None],
    ) -> None:
        """Wait until the rows are recent enough, for as long as the request says."""
        topic, position = request.topic, position_from_wire(request.at_least)
        wait = max(0.0, min(request.wait_seconds, WAIT_SECONDS_MAX))
        making, store = self._making, self._engine.core.store
        try:
            async with asyncio.timeout(wait):
                while not (making.is_ready(topic) and making.has_reached(topic, position)):
                    check_running()
                    if making.is_stopped:
                        raise StateUnavailable(topic, store, "it no longer makes rows; see its log")
                    await making.moved()
        except TimeoutError:
            if reason := self._engine.limbo_reason(None):
                detail = f"it is in limbo: {reason}"
            elif not making.is_ready(topic):
                detail = f"after {wait:g} s it still made rows of earlier messages"
            else:
                detail = f"after {wait:g} s its rows had not come to {position}"
            raise StateUnavailable(topic, store, detail) from None

    async def _view(self, topic: str, keyed: Keyed) -> StateView:
        generations = self._making.generations(topic)
        frozen = await self._apart(lambda: self._storage.frozen(Table.STATE))
        return StateView(frozen, keyed.prefix, topic, generations, time.time_ns())

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._apart(work)
        except Malformed as error:
            raise StorageUnreadable("the state of the world", str(error)) from None


def rows_status(progress: Progress) -> store_v1.RowsStatus:
    """Return the message of how far rows have come."""
    return store_v1.RowsStatus(
        upto=progress.place.sequence,
        left_out=progress.left_out,
        lacks_upto=progress.lacks_upto,
    )


def _asked(request: store_v1.QueryStateRequest, keying: Keying) -> Asked:
    if len(request.keys) > KEYS_ASKED_MAX:
        raise InvalidArgument("keys", f"names {len(request.keys)} keys, more than {KEYS_ASKED_MAX}")
    return Asked(
        [_key(each, keying) for each in request.keys],
        Filter(request.where) if request.where else None,
        Projection(request.select) if request.select else None,
        Ordering(request.order_by) if request.order_by else None,
        request.limit,
        request.counts_only,
    )


def _key(asked: store_v1.StateKey, keying: Keying) -> bytes:
    if asked.WhichOneof("kind") == "raw":
        return keying.of(asked.raw)
    try:
        values = json.loads(asked.values)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list):
        raise InvalidArgument("key", "is no array in JSON of the values of the fields")
    return keying.of(values)
