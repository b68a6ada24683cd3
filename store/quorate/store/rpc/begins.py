"""Where a subscription begins: what a client names becomes a position, and a place in the journal.

Everything behind the position is at that place in the journal, or behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from quorate.protocol.bookmarks import Bookmark, Position, place_at
from quorate.protocol.errors import UnknownBookmark
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.store.engine import Engine
from quorate.store.rpc.locate import locate
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.index import entries
from quorate.store.storage.interface import Reads


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a subscription begins."""

    position: Position
    journal_at: int


class Begins:
    """Finds where subscriptions to some topics begin."""

    def __init__(self, engine: Engine, executor: Executor, selects: Callable[[str], bool]) -> None:
        self._engine = engine
        self._executor = executor
        self._selects = selects

    def _states(self) -> list[SourceState]:
        return [
            state
            for source, state in self._engine.core.sources.items()
            if self._selects(source.topic)
        ]

    async def at_position(self, position: Position) -> Beginning:
        """Begin behind a position. Raises StorageFailed."""
        engine = self._engine
        wanted = [
            (state.reg_id, position.place_of(state.name, state.lineage).sequence + 1)
            for state in self._states()
        ]
        end = engine.core.streams.position
        loop = asyncio.get_running_loop()
        journal_at = await loop.run_in_executor(
            self._executor, _first_at, engine.reads, wanted, end
        )
        return Beginning(position, journal_at)

    async def now(self, upto: Callable[[SourceState], int]) -> Beginning:
        """Begin with what is sent from now on.

        upto: returns the last number of a source that a subscription could be given now.
        """
        places = {state.name: place_at(state.lineage, upto(state)) for state in self._states()}
        return await self.at_position(Position(places))

    async def since(self, time_ns: int) -> Beginning:
        """Begin with the first message of each source of this time or later.

        Raises StorageFailed, CorruptBatch.
        """
        places = {}
        for state in self._states():
            first = await locate(self._engine, self._executor, state.name, time_ns)
            places[state.name] = place_at(state.lineage, first - 1)
        return await self.at_position(Position(places))

    async def behind(self, bookmarks: Iterable[Bookmark]) -> Beginning:
        """Begin right behind the earliest of these messages, in this journal's order.

        Raises UnknownBookmark if this store does not have one of them; StorageFailed.
        """
        engine, loop = self._engine, asyncio.get_running_loop()
        found: dict[Bookmark, int] = {}
        for bookmark in bookmarks:
            state = engine.core.sources.get(bookmark.source)
            at = None
            if state is not None and bookmark.place.belongs_to(state.lineage):
                at = await loop.run_in_executor(
                    self._executor, _journal_place, engine.reads, state.reg_id, bookmark.sequence
                )
            if at is None:
                raise UnknownBookmark(str(bookmark), engine.core.store)
            found[bookmark] = at
        earliest = min(found, key=lambda each: (found[each], each.sequence))
        states = [state for state in self._states() if state.name != earliest.source]
        wanted = {state.name: (state.reg_id, state.held.ranges.high) for state in states}
        cut = await loop.run_in_executor(
            self._executor, _cut_at, engine.reads, wanted, found[earliest]
        )
        places = {state.name: place_at(state.lineage, cut[state.name]) for state in states}
        return Beginning(Position({**places, earliest.source: earliest.place}), found[earliest])


# In a thread.


def _first_at(reads: Reads, wanted: Iterable[tuple[int, int]], end: int) -> int:
    """Return the lowest place in the journal of a source's first batch from a number on.

    wanted: the RegID and the number of each source. end: the place if there is no batch.
    """
    firsts = (
        next(entries(reads, reg_id, first, SEQUENCE_MAX, 1), None) for reg_id, first in wanted
    )
    return min((entry.position for entry in firsts if entry is not None), default=end)


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
