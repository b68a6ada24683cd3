"""The call Subscribe: the journal in its order from a position on, and then what comes.

quorate.store.rules.walk decides what is given when. Here batches are read, in bounded chunks, and
packed. They are read away from the event loop, but for the few that have just been written. The
next chunk is read once the client has taken the last: a slow subscriber slows itself alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from math import inf
from typing import TypeVar

from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import PositionNotReached, StoreLags
from quorate.protocol.fragments import LargeBatch, fragments_of
from quorate.protocol.framing import read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import FRAGMENT_BYTES
from quorate.protocol.lineage import NO_LINEAGE, Lineage
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.wire import position_to_wire, source_to_wire
from quorate.store.engine import Engine
from quorate.store.rpc.selecting import Piece, Wanted, large_left, moved_behind
from quorate.store.rpc.subscription_begins import SubscriptionBegins
from quorate.store.rules.lag import LAG_SECONDS, is_short_of
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.walk import Missing, Stream, Walk, stable_upto, stream_of
from quorate.store.storage.interface import Reads
from quorate.store.storage.journal import rows_from
from quorate.store.storage.large_batches import LargeRow, read_fragment
from quorate.store.storage.reader import StoredBatch, passed_upto, read_rows
from quorate.store.turns import Turn
from quorate.store.watchers import Selection, Watcher
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_CHUNK_BYTES = 1024 * 1024
_CHUNK_ROWS_MAX = 256
_AT_ONCE_ROWS = 4
"""The most rows that the event loop reads itself.

A subscriber that follows the journal reads them just after they were written, so they are in
memory. A thread would be woken for them, and would wait for Python's lock.
"""
_AT_ONCE_MESSAGES = 64
"""The most messages that are taken to be among these rows, and that the event loop filters."""
_AT_ONCE_BYTES = 16 * 1024
"""The most bytes that these messages may have, not compressed."""
_RESPONSE_BYTES = 256 * 1024
_LOOKS_AT_CLOCK_SECONDS = 60.0

T = TypeVar("T")


class Subscription:
    """One call of Subscribe."""

    def __init__(
        self,
        engine: Engine,
        executor: Executor,
        walk: Walk,
        delivered: store_v1.Delivered,
        wanted: Wanted,
        begins: SubscriptionBegins,
        check_running: Callable[[], None],
    ) -> None:
        """Begin with this walk.

        - wanted: what it wants of each batch.
        - begins: makes the position of its end if that is a time still to come.
        - check_running: raises the error with which the store refuses calls, if there is one.
        """
        self._check_running = check_running
        self._engine = engine
        self._executor = executor
        self._walk = walk
        self._delivered = delivered
        self._wanted = wanted
        self._begins = begins
        self._is_at_end = False
        self._late: set[SourceName] = set()
        """Sources in which the store may lag."""
        self._short: set[SourceName] = set()
        """Sources of which the store has yet to reach where the subscription begins."""
        self._short_until = inf
        """When the store must have reached it, on the clock of the loop."""

    async def meet_all(self) -> None:
        """Note where each known source begins. Messages that go from then on are a gap."""
        turn, begins = Turn(), self._walk.position
        for state in list(self._engine.core.sources.values()):
            self._meet(state)
            if self._is_stable and state.name in begins and self._is_short(state.name):
                self._short.add(state.name)
            await turn.pause()
        self._short_until = asyncio.get_running_loop().time() + LAG_SECONDS

    def _meet(self, state: SourceState) -> None:
        if self._walk.wants(state.name):
            self._walk.meets(state.name, self._stream(state))

    async def responses(self, selection: Selection) -> AsyncIterator[store_v1.SubscribeResponse]:
        """Yield what the subscription is given, up to its end if it has one.

        Raises StoreLags, PositionNotReached, InLimbo, StorageFailed, CorruptBatch.
        """
        walk, engine = self._walk, self._engine
        history_ends = self._engine.core.streams.position
        completed = False
        tail = engine.stable_tail if self._is_stable else engine.tail
        with tail.watching(selection, (*engine.core.sources, *engine.lags)) as news:
            while True:
                self._check_running()
                engine.check_not_in_limbo()
                async for source in news.take():
                    walk.owed.add(source)
                    if engine.lags.lagging(source) is not None:
                        self._late.add(source)
                    if (state := self._engine.core.sources.get(source)) is not None:
                        self._meet(state)
                        if self._is_stable:
                            engine.ask_for_stable(state)
                if (ends := await self._ends_by_now()) is not None:
                    yield store_v1.SubscribeResponse(ends=position_to_wire(ends))
                async for response in self._pack(await self._passed()):
                    yield response
                is_complete = self._is_at_end or walk.journal_at >= history_ends
                if not completed and is_complete:
                    # The walk began where the next number is; higher ones may be before that.
                    walk.owed |= self._engine.core.sources.keys()
                turn = Turn()
                while walk.owed:
                    await turn.pause()
                    async for response in self._pack(await self._owed(walk.owed.pop())):
                        yield response
                while walk.closes_one(self._lineage):
                    await turn.pause()
                if walk.is_over(self._lineage):
                    yield store_v1.SubscribeResponse(completed=True)
                    return
                if self._is_at_end or (is_complete and not completed):
                    self._check_reaches_all()
                if not completed and is_complete:
                    completed = True
                    if walk.ending is None:
                        yield store_v1.SubscribeResponse(completed=True)
                if self._is_at_end:
                    await self._changed(news)

    @property
    def _is_stable(self) -> bool:
        return self._delivered == store_v1.DELIVERED_STABLE

    def _check_reaches_all(self) -> None:
        """Raise an error if another store may go on where this one has come to its end.

        Raises StoreLags, PositionNotReached.
        """
        core, lags = self._engine.core, self._engine.lags
        for source in list(self._late):
            lack = lags.lagging(source)
            if lack is None:
                self._late.discard(source)
            elif self._walk.is_short_of(source, self._lineage(source), lack.upto):
                raise StoreLags(core.store, str(source), lack.first)
        self._short = set(filter(self._is_short, self._short))
        if self._short and asyncio.get_running_loop().time() >= self._short_until:
            raise self._not_reached(min(self._short))

    def _not_reached(self, source: SourceName) -> StoreLags | PositionNotReached:
        """Return the error for a place that was not reached. A peer that has it can go on."""
        state, place = self._engine.core.sources[source], self._walk.place(source)
        assert place is not None
        lack = self._engine.lags.lagging(source)
        if lack is not None and place <= lack.upto:
            return StoreLags(self._engine.core.store, str(source), lack.first)
        return PositionNotReached(
            self._engine.core.store,
            str(source),
            str(Bookmark(source, *place)),
            state.lineage.epoch,
            stable_upto(state),
        )

    def _is_short(self, source: SourceName) -> bool:
        """Return whether the store has yet to reach a place to which others have given."""
        state, place = self._engine.core.sources.get(source), self._walk.place(source)
        if state is None or place is None or self._walk.has_ended(source, state.lineage):
            return False
        return is_short_of(place, state.lineage, stable_upto(state))

    async def _changed(self, news: Watcher) -> None:
        """Return when there is news, or when it is time to look at a clock."""
        seconds = None
        ending = self._walk.ending
        if ending is not None and ending.position is None and ending.before_ns is not None:
            # Clocks jump, so it looks again at times.
            seconds = min((ending.before_ns - time.time_ns()) / 1e9, _LOOKS_AT_CLOCK_SECONDS)
        if self._short:
            left = self._short_until - asyncio.get_running_loop().time()
            seconds = left if seconds is None else min(left, seconds)
        if seconds is None:
            await news.changed()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await news.changed()

    async def _ends_by_now(self) -> Position | None:
        """Return the position of the end if the clock has passed its time; None: not now."""
        ending = self._walk.ending
        if ending is None or ending.position is not None or ending.before_ns is None:
            return None
        if time.time_ns() < ending.before_ns:
            return None
        upto = partial(given_upto, delivered=self._delivered)
        position = await self._begins.before(ending.before_ns, upto)
        ending.fix(position)
        return position

    def _lineage(self, source: SourceName) -> Lineage:
        """Return the lineage of a source here. That of one that has ended is of no stream yet."""
        state = self._engine.core.known(source)
        return state.lineage if state is not None else NO_LINEAGE

    # -- what to give -----------------------------------------------------------------------

    async def _passed(self) -> list[store_v1.Given | Piece]:
        """Walk on through the journal, and return what is given of the next rows."""
        walk, engine = self._walk, self._engine
        is_live = self._delivered == store_v1.DELIVERED_LIVE
        # A batch that is passed before it is stable has to be read once more. Few batches are
        # stable before they are durable here.
        end = engine.core.streams.position if is_live else engine.durable_position
        if walk.journal_at >= end:
            self._is_at_end = True
            return []
        at, rows_max = walk.journal_at, _CHUNK_ROWS_MAX
        run = self._at_once if end - at <= _AT_ONCE_ROWS else self._run
        rows, self._is_at_end = await run(
            partial(rows_from, engine.reads, at, rows_max, _CHUNK_BYTES, end)
        )
        found: list[store_v1.Given | Piece] = []
        for row in rows:
            walk.journal_at = row.position + 1
            header = row.header
            if header is None or not walk.wants(header.source):
                continue
            state = engine.core.sources.get(header.source)
            if state is None:
                continue
            stream = self._stream(state)
            found += self._turned(header.source, stream)
            part = walk.passes(
                header.source, stream, HeldRange(header.first, header.last, header.epoch)
            )
            if part is None:
                continue
            piece = Piece(header, row.frame, part, row.large, self._stable_upto(state))
            part = walk.earlier(header.source, stream, part, piece.times)
            if part is not None:
                walk.given(header.source, stream, part)
                found.append(replace(piece, part=part))
        return found

    async def _owed(self, source: SourceName) -> list[store_v1.Given | Piece]:
        """Return what may be given of a source by now, as far as its batches were passed."""
        walk, engine = self._walk, self._engine
        state = engine.core.sources.get(source)
        if state is None or not walk.wants(source):
            return []
        stream = self._stream(state)
        found: list[store_v1.Given | Piece] = list(self._turned(source, stream))
        wanted = walk.owes(source, stream)
        if wanted is None:
            return found
        run, count = self._run, _CHUNK_ROWS_MAX
        if len(wanted) <= _AT_ONCE_MESSAGES:
            run, count = self._at_once, _AT_ONCE_ROWS
        stored = await run(
            partial(
                _read_passed, engine.reads, state.reg_id, source, wanted, walk.journal_at, count
            )
        )
        if not stored:
            return found
        if engine.core.sources.get(source) is not state or state.lineage is not stream.lineage:
            walk.owed.add(source)
            return found
        for each in stored:
            if each.problem:
                engine.found_unreadable(state, each.part, each.problem)
                return found
            header = each.large.header if each.large is not None else read_header(each.frame)
            piece = Piece(header, each.frame, each.part, each.large, self._stable_upto(state))
            part = walk.earlier(source, stream, each.part, piece.times)
            if part is None:
                return found
            walk.given(source, stream, part)
            found.append(replace(piece, part=part))
        walk.owed.add(source)  # there may be more
        return found

    def _turned(self, source: SourceName, stream: Stream) -> Iterable[store_v1.Given]:
        """Yield what is void by now, and what nobody has."""
        walk = self._walk
        if (void := walk.taken_back(source, stream)) is not None:
            yield store_v1.Given(
                set_aside=store_v1.SetAside(
                    source=source_to_wire(source),
                    first=void.first,
                    last=void.last,
                    epoch=stream.lineage.epoch_at(void.first - 1) if void.first else 0,
                )
            )
        while (missing := walk.missing(source, stream)) is not None:
            part = missing.part
            yield store_v1.Given(
                gone=store_v1.Gone(
                    source=source_to_wire(source),
                    first=part.first,
                    last=part.last,
                    why=_cause(missing),
                    epoch=stream.lineage.epoch_at(part.last),
                )
            )

    def _stable_upto(self, state: SourceState) -> int | None:
        """Return the last number that is stable; None: what is not is not given."""
        return None if self._is_stable else stable_upto(state)

    def _stream(self, state: SourceState) -> Stream:
        stream = stream_of(state, given_upto(state, self._delivered))
        return replace(stream, poisoned=state.poisoned) if state.poisoned else stream

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def _at_once(self, work: Callable[[], T]) -> T:
        return work()

    # -- packing ----------------------------------------------------------------------------

    async def _pack(
        self, found: list[store_v1.Given | Piece]
    ) -> AsyncIterator[store_v1.SubscribeResponse]:
        if not found:
            return
        self._walk.reading = _first_of_large(found)
        if not self._wanted.is_everything:
            run = self._at_once if _are_few(found) else self._run
            found = await run(partial(self._wanted.left_of, self._engine.reads, found))
        response, size = store_v1.SubscribeResponse(), 0
        for each in found:
            if isinstance(each, Piece) and each.large is not None:
                if size:
                    yield response
                async for response in self._large(each, each.large):
                    yield response
                response, size = store_v1.SubscribeResponse(), 0
                continue
            if isinstance(each, Piece):
                _add_whole(response, each, each.frame)
                size += len(each.frame)
            else:
                response.given.append(each)
                size += each.ByteSize()
            if size > _RESPONSE_BYTES:
                yield response
                response, size = store_v1.SubscribeResponse(), 0
        if size:
            yield response
        self._walk.reading = {}

    async def _large(
        self, piece: Piece, large: LargeRow
    ) -> AsyncIterator[store_v1.SubscribeResponse]:
        """Yield a large batch, a fragment in each response. The client checks it."""
        select, reads = self._wanted.select, self._engine.reads
        if select is None:
            for number in range(large.count):
                data = await self._run(partial(read_fragment, reads, large, number))
                yield _fragment(piece, number * FRAGMENT_BYTES, large.size, data)
            return
        form = self._wanted.payload_of(large.header.source.topic)
        left = await self._run(partial(large_left, select, form, reads, large))
        if isinstance(left, LargeBatch):
            for at, data in fragments_of(left):
                yield _fragment(piece, at, left.size, data)
        elif left is not None:
            response = store_v1.SubscribeResponse()
            _add_whole(response, piece, left)
            yield response
        else:
            yield store_v1.SubscribeResponse(given=[moved_behind(piece)])


def _read_passed(
    reads: Reads, reg_id: int, source: SourceName, wanted: Range, journal_at: int, count: int
) -> Sequence[StoredBatch]:
    """Return so many batches of a range at most, as far as a walk has passed them."""
    upto = passed_upto(reads, reg_id, wanted, journal_at, count)
    if upto < wanted.first:
        return []
    return read_rows(reads, reg_id, source, Range(wanted.first, upto), count)


def _cause(missing: Missing) -> v1.Lookup:
    if missing.poisoned:
        return v1.LOOKUP_POISONED
    return v1.LOOKUP_LOST if missing.lost else v1.LOOKUP_RELEASED


def _add_whole(response: store_v1.SubscribeResponse, piece: Piece, batch: bytes) -> store_v1.Given:
    """Add what gives the messages of a piece. batch: empty: fragments follow.

    It is made in its place: each message of protobuf that is put into another one is copied.
    """
    given = response.given.add()
    fetched = given.fetched
    fetched.first, fetched.last, fetched.batch = piece.part.first, piece.part.last, batch
    if piece.stable_upto is not None:
        given.stable_upto = piece.stable_upto
    return given


def _fragment(piece: Piece, at: int, size: int, data: bytes) -> store_v1.SubscribeResponse:
    response = store_v1.SubscribeResponse()
    fragment = _add_whole(response, piece, b"").fetched.fragment
    fragment.at, fragment.size, fragment.data = at, size, data
    return response


def _are_few(found: Iterable[store_v1.Given | Piece]) -> bool:
    """Return whether the messages of these pieces are few and small enough to filter them here."""
    pieces = [each for each in found if isinstance(each, Piece)]
    return (
        all(each.large is None for each in pieces)
        and sum(len(each.part) for each in pieces) <= _AT_ONCE_MESSAGES
        and sum(each.header.plain_bytes for each in pieces) <= _AT_ONCE_BYTES
    )


def _first_of_large(found: Iterable[store_v1.Given | Piece]) -> dict[SourceName, int]:
    """Return the first number of each source in a large batch, which is read when it is packed."""
    firsts: dict[SourceName, int] = {}
    for each in found:
        if isinstance(each, Piece) and each.large is not None:
            firsts.setdefault(each.header.source, each.part.first)
    return firsts


def given_upto(state: SourceState, delivered: store_v1.Delivered) -> int:
    """Return the last number of a source that a subscription may be given."""
    if delivered == store_v1.DELIVERED_STABLE:
        return stable_upto(state)
    return state.held.ranges.high
