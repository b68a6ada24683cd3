"""The calls QueryState and DigestState: requests checked, rows answered at one position.

The rows of one answer come from one frozen view, so they and the position belong together. They are
read away from the event loop, and the next ones once the client has taken the last. The reading is
in quorate.store.rpc.state_reading.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from quorate.protocol.bookmarks import NO_PLACE, Position
from quorate.protocol.errors import (
    InvalidArgument,
    PastUnavailable,
    StateUnavailable,
    StorageUnreadable,
    TopicHasNoKeys,
)
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.projection import Projection
from quorate.protocol.identity import check_topic
from quorate.protocol.keying import Keying
from quorate.protocol.limits import WHOLE_BATCH_BYTES_MAX
from quorate.protocol.row_parts import parts_of
from quorate.protocol.times import moment_of
from quorate.protocol.wire import position_from_wire, position_to_wire
from quorate.store.engine import Engine
from quorate.store.rpc.state_past import Past, PastStream
from quorate.store.rpc.state_reading import Asked, IsLarge, StateView
from quorate.store.rules.state_order import Ordering
from quorate.store.rules.state_rows import Generations
from quorate.store.storage.interface import Storage, Table
from quorate.store.storage.records import Malformed
from quorate.store.storage.state_records import Progress
from quorate.store.tasks.executor import Apart
from quorate.store.tasks.state import StateMaking
from quorate.store.tasks.state_progress import Keyed
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

KEYS_ASKED_MAX = 1024
"""The most keys that one query may name."""
WAIT_SECONDS_MAX = 60.0
"""The longest time in seconds for which a query waits for rows."""
RESPONSE_BYTES = 256 * 1024
_CANDIDATES_AT_ONCE = 2
"""Each may have as many bytes as a batch may, and a frame bounds a response."""
_READ_SECONDS = 0.005
"""Seconds for which a query reads rows in one go, about."""
_GIVE_SECONDS = 0.02
"""Seconds after which rows that passed are given, though they are few."""
_SAY_SECONDS = 1.0
"""Seconds after which a query says something, though no row has passed."""

_SOURCES_AT_ONCE = 64
"""The most sources whose places a query reads on the event loop."""

T = TypeVar("T")


class StateQueries:
    """The queries of one store's state of the world."""

    def __init__(
        self,
        engine: Engine,
        storage: Storage,
        making: StateMaking,
        apart: Apart,
        before: Callable[[str, int], Awaitable[Position]],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Answer queries of these rows.

        - making: their maker.
        - apart: runs what reads them.
        - before: returns the position behind what the sources of a topic sent before a time.
        - now_ns: the time of day, which decides whether a row has expired.
        """
        self._now_ns = now_ns
        self._engine = engine
        self._storage = storage
        self.making = making
        """The maker of the rows."""
        self._apart = apart
        self._before = before

    async def query(
        self, request: store_v1.QueryStateRequest, check_running: Callable[[], None]
    ) -> AsyncGenerator[store_v1.QueryStateResponse, None]:
        """Yield the position, rows, and the end.

        check_running: raises the error with which the store refuses calls, if there is one.
        Raises InvalidArgument, InvalidFilter, TopicHasNoKeys, StateUnavailable, PastUnavailable,
        StorageFailed, CorruptBatch.
        """
        keyed = self.keyed(request.topic)
        payload = keyed.keying.payload.value
        is_small = _is_small(request)
        run = self._at_once if is_small else self.run
        asked = await run(lambda: _asked(request, keyed.keying))
        if request.HasField("as_of_ns"):
            self._check_is_asked(request.topic, keyed.keying, request.as_of_ns)
        await self._until_ready_for(request, check_running, run)
        if request.HasField("as_of_ns"):
            position = await self._past_position(request, check_running)
            yield store_v1.QueryStateResponse(position=position_to_wire(position), payload=payload)
            past, view = await self._past(request, keyed, position)
            finding = past.steps(asked.keys)
            said_at = time.monotonic()
            while await self.run(lambda: next(finding, past)) is None:
                check_running()
                if time.monotonic() > said_at + _SAY_SECONDS:
                    said_at = time.monotonic()
                    yield store_v1.QueryStateResponse()
            response = store_v1.QueryStateResponse()
            steps = view.steps(asked)
            read = await self.run(lambda: _read_on(steps))
        else:
            view, position, steps, read = await self._begin(request.topic, keyed, asked, is_small)
            response = store_v1.QueryStateResponse(
                position=position_to_wire(position), payload=payload
            )
        # The first rows that pass are given at once.
        size, said_at = 0, time.monotonic() - _GIVE_SECONDS
        while True:
            check_running()
            for row in read.rows:
                if len(row) > WHOLE_BATCH_BYTES_MAX:
                    yield response
                    for data, ends in parts_of(row):
                        part = store_v1.RowPart(data=data, ends=ends)
                        yield store_v1.QueryStateResponse(part=part)
                    response, size, said_at = store_v1.QueryStateResponse(), 0, time.monotonic()
                    continue
                response.rows.append(row)
                size += len(row)
                if size > RESPONSE_BYTES:
                    yield response
                    response, size = store_v1.QueryStateResponse(), 0
            if read.is_all:
                break
            # So a client gets its first rows soon, or knows that the store is at work.
            if time.monotonic() > said_at + (_GIVE_SECONDS if size else _SAY_SECONDS):
                said_at = time.monotonic()
                yield response
                response, size = store_v1.QueryStateResponse(), 0
            read = await self.run(lambda: _read_on(steps))
        response.end.count = view.count
        yield response

    async def _begin(self, topic: str, keyed: Keyed, asked: Asked, is_small: bool) -> _Begun:
        """Begin a query of the rows as they are now. Raises what `query` does."""
        generations = self.making.generations(topic)
        if is_small and len(generations) <= _SOURCES_AT_ONCE:
            try:
                return await self._at_once(
                    lambda: _begun(self._view(topic, keyed, generations, joins_parts=False), asked)
                )
            except IsLarge:
                pass
        return await self.run(lambda: _begun(self._view(topic, keyed, generations), asked))

    def _check_is_asked(self, topic: str, keying: Keying, as_of_ns: int) -> None:
        """Raise PastUnavailable if the configuration lets nobody ask for a time so long ago."""
        seconds = keying.history_seconds
        if seconds is not None and as_of_ns < self._now_ns() - seconds * 1e9:
            detail = f"its configuration lets nobody ask for more than {seconds:g} s ago"
            raise self._past_unavailable(topic, as_of_ns)(detail)

    def _past_unavailable(self, topic: str, as_of_ns: int) -> Callable[[str], PastUnavailable]:
        """Return what makes the error of a past state, from the reason."""
        store = self._engine.core.store
        return partial(PastUnavailable, topic, store, moment_of(as_of_ns).isoformat())

    async def _past_position(
        self, request: store_v1.QueryStateRequest, check_running: Callable[[], None]
    ) -> Position:
        """Return the position behind what was sent by the time that is asked for.

        The rows have come to it then. Raises StateUnavailable, StorageFailed, CorruptBatch.
        """
        topic = request.topic
        before = await self._before(topic, min(request.as_of_ns, self._now_ns()) + 1)
        position = Position({source: each for source, each in before.items() if each != NO_PLACE})
        await self.until_ready(topic, position, request.wait_seconds, check_running)
        return position

    async def _past(
        self, request: store_v1.QueryStateRequest, keyed: Keyed, position: Position
    ) -> tuple[Past, StateView]:
        """Return what finds the rows of a past position, and their view once it has."""
        topic, as_of_ns = request.topic, request.as_of_ns
        sources = self._engine.core.sources
        generations = self.making.generations(topic)
        streams = [
            PastStream(state, place.sequence)
            for source, place in position.items()
            if (state := sources.get(source)) is not None
        ]
        frozen = await self._apart(lambda: self._storage.frozen(Table.STATE))
        past = Past(
            frozen,
            self._engine.reads,
            keyed,
            streams,
            as_of_ns,
            self._past_unavailable(topic, as_of_ns),
        )
        return past, StateView(past.reads(), keyed, topic, generations, as_of_ns)

    async def digest(
        self, request: store_v1.DigestStateRequest, check_running: Callable[[], None]
    ) -> store_v1.DigestStateResponse:
        """Return the digest of a topic's rows. Raises what `query` does."""
        keyed = self.keyed(request.topic)
        await self._until_ready_for(request, check_running, self.run)
        view = await self.view(request.topic, keyed, request.at_ns)
        position = await self.run(view.position)
        steps = view.digest()
        digest = await self.run(lambda: next(steps))
        while (more := await self.run(lambda: next(steps, None))) is not None:
            check_running()
            digest = more
        return store_v1.DigestStateResponse(
            position=position_to_wire(position), digest=digest.value(), count=digest.count
        )

    async def candidates(
        self, request: store_v1.StateCandidatesRequest, check_running: Callable[[], None]
    ) -> AsyncGenerator[store_v1.StateCandidatesResponse, None]:
        """Yield all that the rows of a topic are made of, for a peer. Raises what `query` does."""
        topic, engine = request.topic, self._engine
        check_topic(topic)
        keyed, store = self.making.keyed(topic), engine.core.store
        if keyed is None or engine.durability(topic) == v1.DURABILITY_STATE_ONLY:
            raise TopicHasNoKeys(topic, store)
        if keyed.keying.text != request.keys:
            raise InvalidArgument("keys", f"are {keyed.keying.text} at this store")
        self.check_making(topic)
        view = await self.view(topic, keyed)
        places = view.progress()
        while (some := await self.run(lambda: next(places, None))) is not None:
            check_running()
            yield store_v1.StateCandidatesResponse(places=map(rows_place, some))
        steps = view.candidates()
        while (found := await self.run(lambda: next(steps, None))) is not None:
            check_running()
            for response in _candidate_responses(found):
                yield response
        yield store_v1.StateCandidatesResponse(end=True)

    def keyed(self, topic: str) -> Keyed:
        """Return the keys of a topic. Raises InvalidArgument, TopicHasNoKeys, StateUnavailable."""
        check_topic(topic)
        keyed, store = self.making.keyed(topic), self._engine.core.store
        if keyed is None:
            raise TopicHasNoKeys(topic, store)
        if self._engine.durability(topic) == v1.DURABILITY_STATE_ONLY:
            raise StateUnavailable(topic, store, "it takes no messages of the topic (state-only)")
        return keyed

    async def _until_ready_for(
        self,
        request: store_v1.QueryStateRequest | store_v1.DigestStateRequest,
        check_running: Callable[[], None],
        run: Apart,
    ) -> None:
        position = await run(lambda: position_in(request.topic, request.at_least))
        await self.until_ready(request.topic, position, request.wait_seconds, check_running)

    async def until_ready(
        self, topic: str, position: Position, seconds: float, check_running: Callable[[], None]
    ) -> None:
        """Wait until the rows of a topic have all that is before a position, for so long.

        Raises StateUnavailable.
        """
        wait = max(0.0, min(seconds, WAIT_SECONDS_MAX))
        making, store = self.making, self._engine.core.store
        if self._is_ready(topic, position):
            return
        try:
            async with asyncio.timeout(wait):
                while not self._is_ready(topic, position):
                    check_running()
                    self._check_makes(topic)
                    await making.moved()
        except TimeoutError:
            if reason := self._engine.limbo_reason(None):
                detail = f"it is in limbo: {reason}"
            elif not making.is_ready(topic):
                detail = f"after {wait:g} s it still made rows of earlier messages"
            else:
                detail = (
                    f"after {wait:g} s its rows had not come to {making.lacked(topic, position)}"
                )
            raise StateUnavailable(topic, store, detail) from None

    def _is_ready(self, topic: str, position: Position) -> bool:
        return self.making.is_ready(topic) and self.making.lacked(topic, position) is None

    def check_making(self, topic: str) -> None:
        """Raise StateUnavailable if rows are no longer made, or not to be trusted."""
        self._check_makes(topic)
        if limbo := self._engine.limbo_reason(None):
            raise StateUnavailable(topic, self._engine.core.store, f"it is in limbo: {limbo}")

    def _check_makes(self, topic: str) -> None:
        if self.making.is_stopped:
            store = self._engine.core.store
            raise StateUnavailable(topic, store, "it no longer makes rows; see its log")

    async def view(self, topic: str, keyed: Keyed, at_ns: int | None = None) -> StateView:
        """Return the rows of a topic as they are now. Raises StorageFailed.

        at_ns: the time at which rows may have expired; None: now.
        """
        generations = self.making.generations(topic)
        return await self._apart(lambda: self._view(topic, keyed, generations, at_ns=at_ns))

    def _view(
        self,
        topic: str,
        keyed: Keyed,
        generations: Generations,
        joins_parts: bool = True,
        at_ns: int | None = None,
    ) -> StateView:
        frozen = self._storage.frozen(Table.STATE)
        now_ns = self._now_ns() if at_ns is None else at_ns
        return StateView(frozen, keyed, topic, generations, now_ns, joins_parts)

    def view_of_now(self, topic: str, keyed: Keyed) -> StateView:
        """Return the rows of a topic as they are whenever they are read."""
        generations = self.making.generations(topic)
        return StateView(self._storage, keyed, topic, generations, self._now_ns())

    async def run(self, work: Callable[[], T]) -> T:
        """Read rows away from the event loop. Raises StorageUnreadable, and what the work does."""
        try:
            return await self._apart(work)
        except Malformed as error:
            raise _unreadable(error) from None

    async def _at_once(self, work: Callable[[], T]) -> T:
        """Read a row here, on the event loop. Raises StorageUnreadable, and what the work does."""
        try:
            return work()
        except Malformed as error:
            raise _unreadable(error) from None


@dataclass(frozen=True, slots=True)
class _Read:
    """The rows that some steps of a query gave."""

    rows: list[bytes]
    is_all: bool
    """Whether no more follow."""


def _read_on(steps: Iterator[list[bytes]]) -> _Read:
    """Take steps of a query for a while. Few rows are read in one go, many in several."""
    rows: list[bytes] = []
    size, ends = 0, time.monotonic() + _READ_SECONDS
    for step in steps:
        rows += step
        size += sum(map(len, step))
        if size > RESPONSE_BYTES or time.monotonic() > ends:
            return _Read(rows, is_all=False)
    return _Read(rows, is_all=True)


_Begun = tuple[StateView, Position, Iterator[list[bytes]], _Read]


def _is_small(request: store_v1.QueryStateRequest) -> bool:
    """Return whether a query asks for the row of one key, and for nothing that takes long.

    The event loop answers it sooner than a thread: the thread would wait for Python's lock, and
    would hold the lock while it reads.
    """
    return (
        len(request.keys) == 1
        and not (request.where or request.select or request.order_by)
        and not request.HasField("as_of_ns")
        and len(request.at_least.places) <= _SOURCES_AT_ONCE
    )


def _unreadable(error: Malformed) -> StorageUnreadable:
    return StorageUnreadable("the state of the world", str(error))


def _begun(view: StateView, asked: Asked) -> _Begun:
    """Begin a query, all in one go: a thread that is busy is waited for only once."""
    steps = view.steps(asked)
    return view, view.position(), steps, _read_on(steps)


def _candidate_responses(
    found: Sequence[store_v1.StateCandidate],
) -> Iterator[store_v1.StateCandidatesResponse]:
    """Yield responses with these candidates, in order; one without any if there are none."""
    response = store_v1.StateCandidatesResponse()
    for candidate in found:
        if len(candidate.row) > WHOLE_BATCH_BYTES_MAX:
            yield response
            for data, ends in parts_of(candidate.row):
                response = store_v1.StateCandidatesResponse()
                response.part.data, response.part.ends = data, ends
                if ends:
                    candidate.ClearField("row")
                    response.candidates.append(candidate)
                yield response
            response = store_v1.StateCandidatesResponse()
            continue
        response.candidates.append(candidate)
        if len(response.candidates) >= _CANDIDATES_AT_ONCE:
            yield response
            response = store_v1.StateCandidatesResponse()
    yield response


def rows_place(progress: Progress) -> store_v1.RowsPlace:
    """Return the message of how far the rows of a topic have come in a source."""
    epoch, sequence = progress.place
    return store_v1.RowsPlace(
        session_id=progress.source.session_id,
        place=store_v1.Place(epoch=epoch, sequence=sequence),
        rows=rows_status(progress),
    )


def rows_status(progress: Progress, behind_seconds: float = 0.0) -> store_v1.RowsStatus:
    """Return the message of how far rows have come. behind_seconds: that they are behind."""
    return store_v1.RowsStatus(
        upto=progress.place.sequence,
        left_out=progress.left_out,
        lacks_upto=progress.lacks_upto,
        behind_seconds=behind_seconds,
    )


def position_in(topic: str, wire: store_v1.Position) -> Position:
    """Return the part of a position that is of one topic. Raises InvalidArgument."""
    position = position_from_wire(wire)
    return Position({each: place for each, place in position.items() if each.topic == topic})


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
