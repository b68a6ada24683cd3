"""The maker of the state of the world: follows the stable messages of topics with keys.

It reads each source's stream by its numbers, in bounded slices, off the event loop and behind the
write path. Rows and how far they have come go into one commit, so a crash goes on there. Which
message is the row of a key is decided in quorate.store.rules.state_rows. How a slice is read is in
state_slices, and what goes in state_sweep.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from quorate.protocol.bookmarks import NO_PLACE, Bookmark, Place, Position, place_at
from quorate.protocol.delays import LIMBO, REPAIR
from quorate.protocol.errors import (
    QuorateError,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import Keying
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.ranges import Range
from quorate.store.engine import Engine
from quorate.store.rules.row_lag import RowLag
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.walk import Stream, Walk, stable_upto, stream_of
from quorate.store.storage.interface import Columns, Table, Write
from quorate.store.storage.state_records import (
    Candidate,
    Progress,
    pack_progress,
    progress_key,
    topic_prefix,
)
from quorate.store.tasks.executor import Apart
from quorate.store.tasks.giving_way import give_way
from quorate.store.tasks.state_large import LargeRows
from quorate.store.tasks.state_peers import HAS_NONE, Ask
from quorate.store.tasks.state_progress import Keyed, RowsProgress, is_in
from quorate.store.tasks.state_slices import Slice, make_rows
from quorate.store.tasks.state_sweep import StateSweep
from quorate.store.tasks.state_takeover import RowsTakeover
from quorate.store.tasks.state_watchers import KeyWatchers
from quorate.store.watchers import Selection
from quorate.transport.delays import delay

_log = logging.getLogger("quorate.store.tasks.state")

SWEEP_SECONDS = 60.0
"""Seconds from one look for rows of no more use to the next."""


class StateMaking:
    """The making of the rows of one store."""

    def __init__(
        self,
        engine: Engine,
        apart: Apart,
        keying_of: Callable[[str], Keying | None],
        kept: Iterable[tuple[bytes, Progress]],
        peers: Callable[[], Iterable[str]],
        ask: Ask,
        remove: Callable[[bytes, bytes], None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Make the maker.

        - keying_of: returns the keys of a topic; None: it has none.
        - kept: how far rows had come before, each with the beginning of the keys of its rows.
        - peers: returns the addresses of the other stores.
        - ask: asks one of them for the rows of a topic.
        - remove: removes all rows from one key to another.
        - now_ns: the time of day, which decides when a message has expired.
        """
        self._engine = engine
        self._apart = apart
        self._keying_of = keying_of
        self._peers = peers
        self._waiting: set[SourceName] = set()
        """The sources whose rows wait for a peer that does not answer."""
        self.keyed = functools.lru_cache(4096)(self._keyed)
        self._progress = RowsProgress(engine.core.sources)
        self._large = LargeRows(engine, apart)
        self._takeover = RowsTakeover(engine, apart, self._progress, self._large, ask)
        self._lag = RowLag()
        obsolete: dict[bytes, list[int]] = {}
        for prefix, progress in kept:
            keyed = self.keyed(progress.source.topic)
            if keyed is not None and keyed.prefix == prefix:
                self._progress.note(progress)
            else:
                obsolete.setdefault(prefix, []).append(progress.source.session_id)
        self._sweep = StateSweep(
            engine,
            apart,
            self._progress,
            self._large,
            obsolete,
            self.keyed,
            remove,
            self.lacked,
            now_ns,
        )
        places = {each.source: each.place for each in self._progress}
        self._walk = Walk(Position(places), SEQUENCE_MAX, self._has_keys)
        self._batches_next: dict[SourceName, int] = {}
        """How many batches to read next, so that a slice has about its bytes."""
        self._due: dict[SourceName, Place] = {}
        """The place that rows must reach before their topic is ready, where they lack it."""
        self._asked: set[str] = set()
        """The topics for which it is known what is due."""
        self._journal_at = engine.core.streams.position
        """The place in the journal when somebody last asked whether batches come."""
        self._moved = asyncio.Event()
        self.watchers = KeyWatchers()
        """The watchers, which are told what keys have changed."""
        self.is_stopped = False
        """Whether the maker has ended; no rows are made any more."""

    def _keyed(self, topic: str) -> Keyed | None:
        """Return the keys of a topic; None: it has none."""
        keying = self._keying_of(topic)
        return None if keying is None else Keyed(keying, topic_prefix(topic, keying.text))

    def _has_keys(self, topic: str) -> bool:
        return self.keyed(topic) is not None

    # -- questions --------------------------------------------------------------------------

    def progress_of(self, source: SourceName) -> Progress | None:
        """Return how far the rows have come in a source; None: its topic has no keys."""
        if not self._has_keys(source.topic):
            return None
        return self._progress.of(source) or Progress(source, NO_PLACE, 0)

    def place_of(self, source: SourceName) -> Place | None:
        """Return the place to which rows of a source are made; None: its topic has no keys."""
        rows = self.progress_of(source)
        return None if rows is None else rows.place

    def waits_for_peer(self, source: SourceName) -> bool:
        """Return whether rows of a source wait for a peer, which has those of earlier messages."""
        return source in self._waiting

    def behind_seconds(self, state: SourceState) -> float:
        """Return the seconds that the rows of a source are behind what is stable."""
        self._note_lag(state)
        return self._lag.seconds(state.name, asyncio.get_running_loop().time())

    def _note_lag(self, state: SourceState) -> None:
        rows = self._progress.of(state.name)
        upto = NOTHING if rows is None else rows.place.sequence
        now = asyncio.get_running_loop().time()
        self._lag.note(state.name, upto, stable_upto(state), now)

    def is_ready(self, topic: str) -> bool:
        """Return whether rows have all that was stable when somebody first asked for the topic.

        A store that has just started, or was wiped and refilled, would answer from the past.
        """
        if self._engine.limbo_reason(None):
            return False
        if topic not in self._asked:
            self._asked.add(topic)
            for source, state in self._engine.core.sources.items():
                rows = self.progress_of(source) if source.topic == topic else None
                if rows is not None and rows.place.sequence < (upto := stable_upto(state)):
                    self._due[source] = place_at(state.lineage, upto)
        return all(
            source.topic != topic or self._has_reached(source, place)
            for source, place in self._due.items()
        )

    def lacked(self, topic: str, position: Position) -> Bookmark | None:
        """Return a place before a position that the rows of a topic have yet to come to.

        None: they have all that is before the position.
        """
        for source, place in position.items():
            if source.topic == topic and place != NO_PLACE and not self._has_reached(source, place):
                return Bookmark(source, *place)
        return None

    def _has_reached(self, source: SourceName, wanted: Place) -> bool:
        progress, state = self._progress.of(source), self._engine.core.sources.get(source)
        reached = NO_PLACE if progress is None else progress.place
        if reached.epoch >= wanted.epoch and reached.sequence >= wanted.sequence:
            return True
        # A message that is no longer part of the stream is not waited for.
        if state is None:
            return source in self._engine.core.identities.ended
        return state.lineage.epoch > wanted.epoch and not wanted.belongs_to(state.lineage)

    def generations(self, topic: str) -> dict[int, int]:
        """Return the generation of each source of a topic that has rows, by session ID."""
        return self._progress.generations(topic)

    def position(self, topic: str) -> Position:
        """Return the position that the rows of a topic have come to."""
        return self._progress.position(topic)

    def goes_on_from(self, topic: str, position: Position) -> bool:
        """Return whether the rows know every key that has changed since this position.

        They do not if a source has ended since, or if retention has let messages go since.
        """
        sources = self._engine.core.sources
        return all(
            place == NO_PLACE
            or ((state := sources.get(source)) is not None and place.belongs_to(state.lineage))
            for source, place in position.items()
            if source.topic == topic
        ) and self._progress.are_kept_behind(topic, position)

    async def moved(self) -> None:
        """Return once the rows have come further, or the maker has ended."""
        await self._moved.wait()

    def wake(self) -> None:
        """Let all that wait for rows look again."""
        self._tell()
        self.watchers.wake()

    def _tell(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    # -- the task ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Make rows until cancelled. Raises StorageFailed."""
        try:
            await self._run()
        finally:
            self.is_stopped = True
            self.wake()

    async def _run(self) -> None:
        engine, walk = self._engine, self._walk
        keyed = Selection(self._has_keys, is_quick=True)
        with engine.stable_tail.watching(keyed, engine.core.sources) as news:
            loop, look_at, rounds_in_vain = asyncio.get_running_loop(), 0.0, 0
            while True:
                if engine.limbo_reason(None):
                    self._asked.clear()
                    self._due.clear()
                    await asyncio.sleep(delay(LIMBO, 1))
                    continue
                async for source in news.take():
                    walk.owed.add(source)
                for source in list(walk.owed):
                    walk.owed.discard(source)
                    began = loop.time()
                    if await self._step(source):
                        walk.owed.add(source)
                        await give_way(loop.time() - began if self._is_written_to() else 0.0)
                now = loop.time()
                if now >= look_at:
                    look_at = now + SWEEP_SECONDS
                    await self._look()
                rounds_in_vain = rounds_in_vain + 1 if self._waiting else 0
                if not walk.owed:
                    rest = look_at - now
                    if rounds_in_vain:
                        rest = min(rest, delay(REPAIR, rounds_in_vain))
                    await _within(rest, news.changed())
                walk.owed |= self._waiting

    def _is_written_to(self) -> bool:
        """Return whether batches have come since this was asked last."""
        before, self._journal_at = self._journal_at, self._engine.core.streams.position
        return before != self._journal_at

    async def _step(self, source: SourceName) -> bool:
        """Make the rows of the next messages of a source; return whether there may be more."""
        engine, walk = self._engine, self._walk
        state, keyed = engine.core.sources.get(source), self.keyed(source.topic)
        if state is None or keyed is None:
            self._waiting.discard(source)
            return False
        lineage = state.lineage
        self._note_lag(state)
        before = self._progress.of(source)
        if before is not None and not is_in(before.place, lineage):
            # Rows of the generation that ended go first, so that none is ever left over.
            await self._sweep.sweep(source.topic, keyed)
            self._progress.forget(source)
            walk.taken_back(source, _stream(state))
            return True
        stream = _stream(state)
        walk.begins(source)
        walk.taken_back(source, stream)
        while (missing := walk.lacks(source, stream)) is not None:
            if not missing.lost:
                return await self._pass(state, keyed, missing.part)
            walk.given(source, stream, missing.part)
        wanted = walk.owes(source, stream)
        count = self._batches_next.get(source, 4)
        read = Slice()
        if wanted is not None:
            read = await self._apart(partial(make_rows, engine.reads, state, wanted, count, keyed))
            # Meanwhile the source may have ended: the next step finds rows of that generation.
            if read.upto is not None:
                walk.given(source, stream, Range(wanted.first, read.upto))
                self._batches_next[source] = read.batches_next
        await self._keep(state, keyed, read)
        if read.problem is not None:
            # Repair gets it from a peer, and its commit is news.
            engine.found_unreadable(state, read.problem.part, read.problem.problem)
            return False
        return read.upto is not None

    async def _pass(self, state: SourceState, keyed: Keyed, part: Range) -> bool:
        """Pass messages that retention has let go, with the rows that a peer made of them.

        Return whether that was done. A peer that does not answer is asked again later.
        """
        source, lineage = state.name, state.lineage
        # Until it is done, some rows are those of the peer, and some are older.
        self._due[source] = max(self._due.get(source, NO_PLACE), place_at(lineage, part.last))
        taken, problem = await self._take_over(state, keyed, part)
        if problem is not None:
            if source not in self._waiting:
                _log.info("rows of %s wait for a peer: %s", source, problem)
            self._waiting.add(source)
            return False
        self._waiting.discard(source)
        if self._engine.core.sources.get(source) is not state or state.lineage is not lineage:
            return True
        rows = []
        if taken is not None:
            rows.append(self._sweep.forgets_the_past(keyed))
            self._sweep.has_large(source.topic)
            made = list(filter(self._is_further, taken))
        else:
            before = self._progress.of(source)
            left_out = before.left_out if before is not None else 0
            made = [Progress(source, place_at(lineage, part.last), left_out, part.last)]
        for each in made:
            self._waiting.discard(each.source)
            self._goes_on_behind(each)
        await self._commit(keyed, rows, made)
        self.watchers.changed(source.topic, None)
        self._sweep.hides(source.topic)
        return True

    async def _take_over(
        self, state: SourceState, keyed: Keyed, part: Range
    ) -> tuple[list[Progress] | None, QuorateError | None]:
        """Take over the rows of the first peer that has these numbers; return how far they are.

        None: no peer has them; with the problem of one that may have them, if there is one.
        """
        problem = None
        for address in sorted(self._peers()):
            try:
                taken = await self._takeover.take(address, state, keyed, part)
            except HAS_NONE:
                continue
            except QuorateError as error:
                problem = error
                continue
            if taken is not None:
                return taken, None
        return None, problem

    def _is_further(self, theirs: Progress) -> bool:
        """Return whether rows of a peer have come further, in a stream that is the same here."""
        state, own = self._engine.core.sources.get(theirs.source), self.progress_of(theirs.source)
        if state is None or own is None or not is_in(own.place, state.lineage):
            return False
        return theirs.place.belongs_to(state.lineage) and own.place.sequence < theirs.place.sequence

    def _goes_on_behind(self, made: Progress) -> None:
        """Let the walk go on behind rows that were made elsewhere."""
        source, upto = made.source, made.place.sequence
        before = self._walk.place(source) or NO_PLACE
        if before.sequence < upto:
            stream = _stream(self._engine.core.sources[source])
            self._walk.given(source, stream, Range(before.sequence + 1, upto))

    async def _keep(self, state: SourceState, keyed: Keyed, read: Slice) -> None:
        """Commit the rows of a slice together with how far they have come."""
        source = state.name
        place, before = self._walk.place(source), self._progress.of(source)
        if place is None or place == (NO_PLACE if before is None else before.place):
            return
        left_out, lacks_upto = read.left_out, NOTHING
        if before is not None:
            left_out += before.left_out
            lacks_upto = before.lacks_upto
        progress = Progress(source, place, left_out, lacks_upto)
        more: list[Write] = []
        for key, candidate in read.large.items():
            more += await self._large_row(keyed, source, key, candidate)
        await self._commit(keyed, more, [progress], read.rows)
        if self.watchers.has(source.topic):
            self.watchers.changed(source.topic, read.keys)
        if read.hides:
            self._sweep.hides(source.topic)

    async def _large_row(
        self, keyed: Keyed, source: SourceName, key: bytes, candidate: Candidate
    ) -> list[Write]:
        """Write the payload of a large row, and return what is to be committed with it."""
        self._sweep.has_large(source.topic)
        return await self._large.write(keyed.prefix, key, candidate)

    async def _commit(
        self,
        keyed: Keyed,
        rows: Sequence[Write],
        made: Sequence[Progress],
        columns: Columns | None = None,
    ) -> None:
        """Commit rows together with how far they have come. columns: further rows."""
        writer = self._engine.writer
        at = [
            Write(
                Table.STATE,
                progress_key(keyed.prefix, each.source.session_id),
                pack_progress(each),
            )
            for each in made
        ]
        # Nobody waits for these rows: they can be made again, so they need no sync.
        await writer.durable(writer.submit((*rows, *at), sync=False, columns=columns))
        for each in made:
            self._progress.note(each)
            if (state := self._engine.core.sources.get(each.source)) is not None:
                self._note_lag(state)
            self._is_there(each)
        self._tell()

    def _is_there(self, progress: Progress) -> None:
        """Forget what was due of a source if the rows are that far."""
        due = self._due.get(progress.source)
        if due is not None and self._has_reached(progress.source, due):
            del self._due[progress.source]

    async def _look(self) -> None:
        """Remove what is of no more use, and forget what has ended with it."""
        for source in await self._sweep.look():
            self._walk.forget(source)
            self._lag.forget(source)
        for source in list(self._due):
            if source not in self._engine.core.sources:
                del self._due[source]


async def _within(seconds: float, news: object) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await news  # type: ignore[misc]
    except TimeoutError:
        pass


def _stream(state: SourceState) -> Stream:
    return stream_of(state, stable_upto(state))
