"""Where a subscription begins and ends: what a client names becomes a position.

For a beginning there is a place in the journal, too: everything behind the position is at that
place, or behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

from quorate.protocol.bookmarks import NO_PLACE, Bookmark, Position, place_at
from quorate.protocol.errors import InLimbo, StoreLags, UnknownBookmark
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.store.engine import Engine
from quorate.store.rpc.locate import locate
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.walk import stable_upto
from quorate.store.storage.index import entries
from quorate.store.storage.interface import Reads
from quorate.store.turns import Turn


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a subscription begins."""

    position: Position
    journal_at: int


class _Found(NamedTuple):
    """A message in the journal. One that is before another one is less."""

    journal_at: int
    sequence: int
    """The number of the message: a batch has several at one place."""
    bookmark: Bookmark


class SubscriptionBegins:
    """Finds where subscriptions to some topics begin."""

    def __init__(self, engine: Engine, executor: Executor, selects: Callable[[str], bool]) -> None:
        self._engine = engine
        self._executor = executor
        self._selects = selects

    async def _states(self) -> AsyncIterator[SourceState]:
        """Yield the sources of these topics. One that is deleted meanwhile is left out."""
        sources, turn = self._engine.core.sources, Turn()
        for source, state in list(sources.items()):
            await turn.pause()
            if self._selects(source.topic) and sources.get(source) is state:
                yield state

    async def at_position(self, position: Position) -> Beginning:
        """Begin behind a position. Raises StorageFailed."""
        engine = self._engine
        wanted = [
            (state.reg_id, position.place_of(state.name, state.lineage).sequence + 1)
            async for state in self._states()
        ]
        end = engine.core.streams.position
        loop = asyncio.get_running_loop()
        journal_at = await loop.run_in_executor(
            self._executor, _first_at, engine.reads, wanted, end
        )
        return Beginning(position, journal_at)

    async def now(self, upto: Callable[[SourceState], int]) -> Position:
        """Return the position behind what a subscription could be given now, here or at a peer.

        upto: returns the last number of a source that it could be given here. Raises InLimbo.
        """
        await self._check_vouches()
        places = {}
        async for state in self._states():
            places[state.name] = place_at(state.lineage, upto(state))
        for source, lack in self._engine.lags.lacks().items():
            if self._selects(source.topic):
                places[source] = max(places.get(source, NO_PLACE), lack.upto)
        return Position(places)

    async def since(self, time_ns: int) -> Position:
        """Return the position before the first message of each source of this time or later.

        Missing messages in front of it may be of that time, too, and are behind the position.
        Raises StoreLags, InLimbo, StorageFailed, CorruptBatch.
        """
        await self._check_has_all()
        places = {}
        async for state in self._states():
            first = await locate(self._engine, self._executor, state.name, time_ns)
            places[state.name] = place_at(state.lineage, first - 1)
        return Position(places)

    async def before(self, time_ns: int, upto: Callable[[SourceState], int]) -> Position:
        """Return the position behind what is earlier than a time, as far as it could be given.

        Missing messages in front of the time may be earlier, and are before the position.

        upto: returns the last number of a source that a subscription could be given now.
        Raises StoreLags, InLimbo, StorageFailed, CorruptBatch.
        """
        await self._check_has_all()
        places, loop = {}, asyncio.get_running_loop()
        async for state in self._states():
            given_upto, lineage = upto(state), state.lineage
            first = await locate(self._engine, self._executor, state.name, time_ns)
            last = await loop.run_in_executor(
                self._executor, _before_next, self._engine.reads, state.reg_id, first, given_upto
            )
            places[state.name] = place_at(lineage, last)
        return Position(places)

    async def _check_vouches(self) -> None:
        """Raise InLimbo if the store cannot know what it lacks."""
        core = self._engine.core
        if not self._engine.lags.has_asked:
            why = "it has not asked its peers since its start"
            raise InLimbo("the journal", core.store, why)
        async for state in self._states():
            core.check_vouches(state.name, state)

    async def _check_has_all(self) -> None:
        """Raise StoreLags or InLimbo if messages of any time may be elsewhere only."""
        await self._check_vouches()
        core, lags = self._engine.core, self._engine.lags
        for source in lags:
            if self._selects(source.topic) and (lack := lags.lagging(source)) is not None:
                raise StoreLags(core.store, str(source), lack.first)

    async def at_earliest(self, bookmarks: Iterable[Bookmark], *, behind: bool) -> Position:
        """Return the position right behind, or before, the earliest of these messages.

        The journal's order decides. Raises UnknownBookmark if this store does not have one of them;
        StorageFailed.
        """
        found = await self._found(bookmarks)
        return await self._cut(min(found), behind=behind)

    async def at_latest(self, bookmarks: Iterable[Bookmark], *, behind: bool) -> Position:
        """Return the position right behind, or before, the latest of these messages.

        Raises the errors of `at_earliest`.
        """
        found = await self._found(bookmarks)
        return await self._cut(max(found), behind=behind)

    async def _found(self, bookmarks: Iterable[Bookmark]) -> list[_Found]:
        """Return the places of messages in the journal. Raises UnknownBookmark, StorageFailed."""
        engine, loop = self._engine, asyncio.get_running_loop()
        found: list[_Found] = []
        for bookmark in bookmarks:
            state = engine.core.sources.get(bookmark.source)
            at = None
            if state is not None and bookmark.place.belongs_to(state.lineage):
                at = await loop.run_in_executor(
                    self._executor, _journal_place, engine.reads, state.reg_id, bookmark.sequence
                )
            if at is None:
                raise UnknownBookmark(str(bookmark), engine.core.store)
            found.append(_Found(at, bookmark.sequence, bookmark))
        return found

    async def _cut(self, found: _Found, *, behind: bool) -> Position:
        """Return the position right behind, or before, a message of the journal."""
        engine, loop = self._engine, asyncio.get_running_loop()
        bookmark = found.bookmark
        own = bookmark.place
        if not behind:
            lineage = engine.core.sources[bookmark.source].lineage
            own = place_at(lineage, bookmark.sequence - 1)
        states = [state async for state in self._states() if state.name != bookmark.source]
        wanted = {state.name: (state.reg_id, state.held.ranges.high) for state in states}
        cut = await loop.run_in_executor(
            self._executor, _cut_at, engine.reads, wanted, found.journal_at
        )
        places = {state.name: place_at(state.lineage, cut[state.name]) for state in states}
        return Position({**places, bookmark.source: own})


async def position_before(engine: Engine, executor: Executor, topic: str, time_ns: int) -> Position:
    """Return the position behind what is stable of a topic, and was sent before a time.

    Messages that retention has let go count as earlier. Raises StoreLags, InLimbo, StorageFailed,
    CorruptBatch.
    """

    def upto(state: SourceState) -> int:
        return max(stable_upto(state), state.held.retained_from - 1)

    return await SubscriptionBegins(engine, executor, topic.__eq__).before(time_ns, upto)


# In a thread.


def _first_at(reads: Reads, wanted: Iterable[tuple[int, int]], end: int) -> int:
    """Return the lowest place in the journal of a source's first batch from a number on.

    wanted: the RegID and the number of each source. end: the place if there is no batch.
    """
    firsts = (
        next(entries(reads, reg_id, first, SEQUENCE_MAX, 1), None) for reg_id, first in wanted
    )
    return min((entry.position for entry in firsts if entry is not None), default=end)


def _before_next(reads: Reads, reg_id: int, first: int, upto: int) -> int:
    """Return the last number up to this one that is before the next message from `first` on."""
    if upto < first:
        return upto  # there is nothing, as retention has let it go
    entry = next(entries(reads, reg_id, first, upto, 1), None)
    return min(upto, max(entry.first, first) - 1) if entry is not None else upto


def _journal_place(reads: Reads, reg_id: int, sequence: int) -> int | None:
    entry = next(entries(reads, reg_id, sequence, sequence, 1), None)
    return entry.position if entry is not None else None


def _cut_at(
    reads: Reads, wanted: Mapping[SourceName, tuple[int, int]], journal_at: int
) -> dict[SourceName, int]:
    """Return, for each source, the last number before a place in the journal.

    wanted: the RegID of each, and its last number.
    """
    return {
        source: _last_before(reads, reg_id, high, journal_at)
        for source, (reg_id, high) in wanted.items()
    }


def _last_before(reads: Reads, reg_id: int, high: int, journal_at: int) -> int:
    first, until = 0, high + 1
    while first < until:
        middle = (first + until) // 2
        entry = next(entries(reads, reg_id, middle, high, 1), None)
        if entry is None or entry.position >= journal_at:
            until = middle if entry is None else min(middle, entry.first)
        else:
            first = entry.last + 1
    return first - 1
