"""The maker of the state of the world: follows the stable messages of topics with keys.

It reads each source's stream by its numbers, in bounded slices, off the event loop and behind the
write path. Rows and how far they have come go into one commit, so a crash goes on there. Which
message is the row of a key is decided in quorate.store.rules.state_rows.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from quorate.protocol.bookmarks import NO_PLACE, Place, Position, place_at
from quorate.protocol.delays import LIMBO, REPAIR
from quorate.protocol.errors import (
    BrokenAnswer,
    CorruptBatch,
    QuorateError,
    StorageFailed,
    StorageUnreadable,
)
from quorate.protocol.framing import read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import Keying
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.state_rows import candidates_of, generation_of, to_remove
from quorate.store.rules.walk import Stream, Walk, stable_upto, stream_of
from quorate.store.storage.interface import Reads, Row, Table, Write
from quorate.store.storage.large_batches import load_large
from quorate.store.storage.reader import StoredBatch, passed_upto, read_rows
from quorate.store.storage.records import Malformed
from quorate.store.storage.state_records import (
    NEVER,
    Candidate,
    Progress,
    pack_candidate,
    pack_progress,
    progress_key,
    row_key,
    rows_of_topic,
    topic_prefix,
    whole_keys,
)
from quorate.store.tasks.executor import Apart
from quorate.store.tasks.state_peers import HAS_NONE, Ask, candidate_of
from quorate.store.watchers import Selection
from quorate.transport.delays import delay
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.tasks.state")

SLICE_BYTES = 256 * 1024
"""Bytes of the batches that one slice reads, about."""
SLICE_BATCHES_MAX = 256
"""The most batches of one slice."""
SWEPT_ROWS = 1024
"""The rows that one step of a sweep reads."""
SWEEP_SECONDS = 60.0
"""Seconds from one look for rows of no more use to the next."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A topic with keys."""

    keying: Keying
    prefix: bytes
    """The beginning of the keys of its rows."""


@dataclass(slots=True)
class Slice:
    """The outcome of reading some batches of a source."""

    candidates: dict[bytes, Candidate] = field(default_factory=dict)
    left_out: int = 0
    upto: int | None = None
    """The last number that was read; None: none was."""
    batches: int = 0
    bytes: int = 0
    problem: StoredBatch | None = None
    """The batch behind it, which cannot be read."""


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
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Make the maker.

        - keying_of: returns the keys of a topic; None: it has none.
        - kept: how far rows had come before, each with the beginning of the keys of its rows.
        - peers: returns the addresses of the other stores.
        - ask: asks one of them for the rows of a source.
        - now_ns: the time of day, which decides when a message has expired.
        """
        self._engine = engine
        self._apart = apart
        self._keying_of = keying_of
        self._peers = peers
        self._ask = ask
        self._now_ns = now_ns
        self._waiting: set[SourceName] = set()
        """The sources whose rows wait for a peer that does not answer."""
        self.keyed = functools.lru_cache(4096)(self._keyed)
        self._progress: dict[SourceName, Progress] = {}
        self._obsolete: dict[bytes, list[int]] = {}
        """The places of rows of other keys, by the beginning of their keys: the session IDs."""
        for prefix, progress in kept:
            keyed = self.keyed(progress.source.topic)
            if keyed is not None and keyed.prefix == prefix:
                self._progress[progress.source] = progress
            else:
                self._obsolete.setdefault(prefix, []).append(progress.source.session_id)
        places = {source: each.place for source, each in self._progress.items()}
        self._walk = Walk(Position(places), SEQUENCE_MAX, self._has_keys)
        self._batches_next: dict[SourceName, int] = {}
        """How many batches to read next, so that a slice has about its bytes."""
        self._due: dict[SourceName, int] = {}
        """The number that rows must reach before their topic is ready, where they lack it."""
        self._asked: set[str] = set()
        """The topics for which it is known what is due."""
        self._hidden = {source.topic for source in self._progress}
        """The topics that may have candidates that leave their keys without a row."""
        self._looked: dict[str, Mapping[int, int]] = {}
        """The first number kept of each source when the topic was swept last."""
        self._moved = asyncio.Event()
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
        return self._progress.get(source) or Progress(source, NO_PLACE, 0)

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
                    self._due[source] = upto
        return all(source.topic != topic for source in self._due)

    def has_reached(self, topic: str, position: Position) -> bool:
        """Return whether the rows of a topic have all that is before a position."""
        return all(
            self._has_reached(source, place)
            for source, place in position.items()
            if source.topic == topic and place != NO_PLACE
        )

    def _has_reached(self, source: SourceName, wanted: Place) -> bool:
        progress, state = self._progress.get(source), self._engine.core.sources.get(source)
        reached = NO_PLACE if progress is None else progress.place
        if reached.epoch >= wanted.epoch and reached.sequence >= wanted.sequence:
            return True
        # A message that is no longer part of the stream is not waited for.
        if state is None:
            return source in self._engine.core.identities.tombstones
        return state.lineage.epoch > wanted.epoch and not wanted.belongs_to(state.lineage)

    async def moved(self) -> None:
        """Return once the rows have come further, or the maker has ended."""
        await self._moved.wait()

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
            self._tell()

    async def _run(self) -> None:
        engine, walk = self._engine, self._walk
        with engine.tail.watching(Selection(self._has_keys), engine.core.sources) as news:
            look_at, rounds_in_vain = 0.0, 0
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
                    if await self._step(source):
                        walk.owed.add(source)
                now = asyncio.get_running_loop().time()
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

    async def _step(self, source: SourceName) -> bool:
        """Make the rows of the next messages of a source; return whether there may be more."""
        engine, walk = self._engine, self._walk
        state, keyed = engine.core.sources.get(source), self.keyed(source.topic)
        if state is None or keyed is None:
            self._waiting.discard(source)
            return False
        lineage = state.lineage
        before = self._progress.get(source)
        if before is not None and not _is_in(before.place, lineage):
            # Rows of the generation that ended go first, so that none is ever left over.
            await self._sweep(source.topic, keyed)
            del self._progress[source]
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
            read = await self._apart(
                partial(_read, engine.reads, state.reg_id, source, wanted, count, keyed.keying)
            )
            # Meanwhile the source may have ended: the next step finds rows of that generation.
            if read.upto is not None:
                walk.given(source, stream, Range(wanted.first, read.upto))
                fitting = read.batches * SLICE_BYTES // max(read.bytes, 1)
                self._batches_next[source] = max(1, min(SLICE_BATCHES_MAX, fitting))
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
        before = self._progress.get(source)
        progress = None
        for address in sorted(self._peers()):
            try:
                progress = await self._from_peer(address, state, keyed, part)
            except HAS_NONE:
                continue
            except QuorateError as error:
                if source not in self._waiting:
                    _log.info("rows of %s wait for the peer at %s: %s", source, address, error)
                self._waiting.add(source)
                return False
            if progress is not None:
                break
        self._waiting.discard(source)
        if self._engine.core.sources.get(source) is not state or state.lineage is not lineage:
            return True
        if progress is None:
            left_out = before.left_out if before is not None else 0
            progress = Progress(source, place_at(lineage, part.last), left_out, part.last)
        upto = progress.place.sequence
        self._walk.given(source, _stream(state), Range(part.first, upto))
        await self._commit(state, keyed, (), progress)
        self._hidden.add(source.topic)
        return True

    async def _from_peer(
        self, address: str, state: SourceState, keyed: Keyed, part: Range
    ) -> Progress | None:
        """Take over the rows of a peer, if they have the numbers; return how far they have come.

        Raises QuorateError.
        """
        source, writer = state.name, self._engine.writer
        request = store_v1.StateCandidatesRequest(
            protocol_version=PROTOCOL_VERSION,
            source=source_to_wire(source),
            keys=keyed.keying.text,
        )
        async with aclosing(self._ask(address, request)) as answers:
            first = await anext(answers)
            place = Place(first.place.epoch, first.place.sequence)
            if place.sequence < part.last or first.rows.lacks_upto >= part.last:
                return None
            if not place.belongs_to(state.lineage):
                raise BrokenAnswer(address, f"its rows of {source} are of another stream")
            async for answer in answers:
                rows = [
                    Write(
                        Table.STATE,
                        row_key(keyed.prefix, each.key, source.session_id),
                        pack_candidate(candidate_of(source, each)),
                    )
                    for each in answer.candidates
                ]
                await writer.durable(writer.submit(rows, sync=False))
        return Progress(source, place, first.rows.left_out, first.rows.lacks_upto)

    async def _keep(self, state: SourceState, keyed: Keyed, read: Slice) -> None:
        """Commit the rows of a slice together with how far they have come."""
        source = state.name
        place, before = self._walk.place(source), self._progress.get(source)
        if place is None or place == (NO_PLACE if before is None else before.place):
            return
        left_out, lacks_upto = read.left_out, NOTHING
        if before is not None:
            left_out += before.left_out
            lacks_upto = before.lacks_upto
        progress = Progress(source, place, left_out, lacks_upto)
        rows = [
            Write(
                Table.STATE,
                row_key(keyed.prefix, key, source.session_id),
                pack_candidate(each),
            )
            for key, each in read.candidates.items()
        ]
        await self._commit(state, keyed, rows, progress)
        if any(not each.frame or each.expires_ns != NEVER for each in read.candidates.values()):
            self._hidden.add(source.topic)

    async def _commit(
        self, state: SourceState, keyed: Keyed, rows: Sequence[Write], progress: Progress
    ) -> None:
        """Commit rows together with how far they have come."""
        source, writer = state.name, self._engine.writer
        key = progress_key(keyed.prefix, source.session_id)
        at = Write(Table.STATE, key, pack_progress(progress))
        # Nobody waits for these rows: they can be made again, so they need no sync.
        await writer.durable(writer.submit((*rows, at), sync=False))
        self._progress[source] = progress
        self._is_there(state)
        self._tell()

    def _is_there(self, state: SourceState) -> None:
        """Forget what was due of a source if the rows are that far."""
        due, progress = self._due.get(state.name), self._progress.get(state.name)
        if due is not None and progress is not None and progress.place.sequence >= due:
            del self._due[state.name]

    # -- what goes --------------------------------------------------------------------------

    async def _look(self) -> None:
        """Remove what is of no more use. An unreadable row holds up this alone."""
        try:
            await self._remove_obsolete()
            await self._sweep_all()
        except (StorageUnreadable, Malformed) as error:
            _log.error("rows of no more use cannot be removed: %s", error)

    async def _remove_obsolete(self) -> None:
        """Remove the rows of topics whose keys have changed, or that have none any more."""
        writer = self._engine.writer
        for prefix, sessions in self._obsolete.items():
            first, last = rows_of_topic(prefix)
            while rows := await self._apart(partial(self._scan, first, last)):
                gone = [Write(Table.STATE, key, None) for key, _ in rows]
                await writer.durable(writer.submit(gone, sync=False))
            # They go last, so that a crash before leaves what says that there is more to remove.
            gone = [Write(Table.STATE, progress_key(prefix, each), None) for each in sessions]
            await writer.durable(writer.submit(gone, sync=False))
            _log.info("rows of %d sources were removed: their keys have changed", len(sessions))
        self._obsolete.clear()

    def _scan(self, first: bytes, last: bytes) -> list[Row]:
        return self._engine.reads.scan(Table.STATE, first, last, SWEPT_ROWS)

    async def _sweep_all(self) -> None:
        """Sweep each topic in which a source has ended, or what hides others may go."""
        sources = self._engine.core.sources
        ended = {each for each in self._progress if each not in sources}
        for source in list(self._due):
            if source not in sources:
                del self._due[source]
        for topic in {each.topic for each in self._progress}:
            keyed = self.keyed(topic)
            assert keyed is not None
            retained_from = _retained_from(self._states_of(topic))
            has_moved = topic in self._hidden and self._looked.get(topic) != retained_from
            if has_moved or any(each.topic == topic for each in ended):
                self._looked[topic] = retained_from
                await self._sweep(topic, keyed)
        writer = self._engine.writer
        for source in ended:
            keyed = self.keyed(source.topic)
            if source in sources or keyed is None:
                continue  # it began anew meanwhile
            key = progress_key(keyed.prefix, source.session_id)
            del self._progress[source]
            self._walk.forget(source)
            await writer.durable(writer.submit((Write(Table.STATE, key, None),), sync=False))

    async def _sweep(self, topic: str, keyed: Keyed) -> None:
        """Remove the rows of a topic that are of no more use. Raises StorageFailed, Malformed."""
        writer, reads = self._engine.writer, self._engine.reads
        first, last = rows_of_topic(keyed.prefix)
        while rows := await self._apart(partial(whole_keys, reads, first, last, SWEPT_ROWS)):
            first = rows[-1][0] + b"\0"
            states = self._states_of(topic)
            useless = to_remove(rows, _generations(states), _retained_from(states), self._now_ns())
            gone = [Write(Table.STATE, key, None) for key in useless]
            if gone:
                await writer.durable(writer.submit(gone, sync=False))

    def _states_of(self, topic: str) -> list[SourceState]:
        return [each for name, each in self._engine.core.sources.items() if name.topic == topic]

    def generations(self, topic: str) -> dict[int, int]:
        """Return the generation of each source of a topic, by session ID."""
        return _generations(self._states_of(topic))


def _generations(states: Iterable[SourceState]) -> dict[int, int]:
    return {each.name.session_id: generation_of(each.lineage) for each in states}


def _retained_from(states: Iterable[SourceState]) -> dict[int, int]:
    """Return the first number kept of each source, by session ID."""
    return {each.name.session_id: each.held.retained_from for each in states}


async def _within(seconds: float, news: object) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await news  # type: ignore[misc]
    except TimeoutError:
        pass


def _is_in(place: Place, lineage: Lineage) -> bool:
    """Return whether a place is in the generation of this lineage."""
    return place == NO_PLACE or lineage.reaches_back_to(place.epoch)


def _stream(state: SourceState) -> Stream:
    return stream_of(state, stable_upto(state))


# In a thread.


def _read(
    reads: Reads, reg_id: int, source: SourceName, wanted: Range, count: int, keying: Keying
) -> Slice:
    """Read the first batches of a range as far as they are on the disk, and find their rows."""
    made = Slice()
    try:
        upto = passed_upto(reads, reg_id, wanted, SEQUENCE_MAX, count)
    except (StorageFailed, CorruptBatch) as error:
        made.problem = StoredBatch(Range(wanted.first, wanted.first), b"", str(error))
        return made
    if upto < wanted.first:
        return made
    stored = read_rows(reads, reg_id, source, Range(wanted.first, upto), count)
    for each in stored:
        problem = each.problem
        frame = each.frame
        if each.large is not None:
            try:
                frame = load_large(reads, each.large).joined()
            except (StorageFailed, CorruptBatch) as error:
                problem = str(error)
        if problem:
            made.problem = StoredBatch(each.part, b"", problem)
            return made
        try:
            found, left_out = candidates_of(keying, frame, read_header(frame), each.part)
        except CorruptBatch:
            # Its checksum is right, so its source made it so: it has no message.
            found, left_out = {}, len(each.part)
        made.candidates |= found
        made.left_out += left_out
        made.upto = each.part.last
        made.batches += 1
        made.bytes += len(frame)
        if each.large is not None:
            break
    return made
