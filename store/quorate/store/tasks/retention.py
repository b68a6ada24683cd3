"""The work of retention in two phases: it releases batches, then removes them and frees the disk.

It runs once a second, a bounded step at a time. quorate.store.rules.retention decides which batches
may go; nothing of that is decided here.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import TypeVar

from quorate.protocol.bookmarks import NO_PLACE, Place
from quorate.protocol.errors import CorruptBatch, QuorateError, StorageUnreadable
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.ranges import Range
from quorate.store.engine import Engine
from quorate.store.rules import retention
from quorate.store.rules.changes import Agenda
from quorate.store.rules.peer_knowledge import SourceKnowledge
from quorate.store.rules.peer_wire import knowledge_of
from quorate.store.rules.receiver_positions import positions
from quorate.store.rules.retention import (
    ACKNOWLEDGED,
    Ages,
    Bounds,
    Limit,
    Mark,
    Reclaimed,
    SubscriberWaits,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Subscriptions
from quorate.store.storage import index
from quorate.store.storage.interface import (
    Storage,
    Table,
)
from quorate.store.storage.large_batches import fragment_key
from quorate.store.storage.records import (
    IndexEntry,
    position_key,
)
from quorate.store.tasks.peer_polling import Peers
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.tasks.retention")

ROUND_SECONDS = 1.0
"""Seconds from one round of retention to the next."""
STEP_BATCHES = 256
"""The count of batches that go in one commit at most."""
STEPS_MAX = 16
"""The count of steps for one source in one round at most."""
WHOLE_STEPS_MAX = 64
"""The count of steps for the bound of the whole store in one round at most."""
SEARCH_SECONDS = 60.0
"""Seconds from one search for all released batches to the next."""
COMPACT_BYTES_MIN = 64 * 1024 * 1024
"""Bytes of removed batches below which the journal is not compacted before COMPACT_SECONDS."""
COMPACT_PART = 4
"""The journal is compacted once one part in this many was removed."""
COMPACT_SECONDS = 60.0
"""Seconds after the first removal at which the journal is compacted, however few bytes it frees."""

T = TypeVar("T")


@dataclass(slots=True)
class Released:
    """The messages of a source that have gone because an operator asked for it."""

    messages: int = 0
    bytes: int = 0
    """The bytes of their batches in the journal."""
    kept_because: str = ""
    """Why older messages stay; empty: nothing keeps any."""


class Releasing:
    """The retention of one store."""

    def __init__(
        self,
        engine: Engine,
        executor: Executor,
        peers: Peers,
        storage: Storage,
        bounds: Callable[[str], Bounds],
        shortest: float,
        ages: Ages,
        subscriptions: Subscriptions,
        bytes_max: int,
        rows_at: Callable[[SourceName], Place | None],
        rows_wait: Callable[[SourceName], bool],
    ) -> None:
        """Make the retention of a store.

        - bounds: returns the bounds of a topic.
        - shortest: the shortest bound of time in seconds; 0: there is none.
        - ages: the marks of age that the disk has.
        - subscriptions: those that run at the store.
        - bytes_max: the bytes of all batches that the store may have; 0: no such bound.
        - rows_at: returns the place to which rows of a source are made; None: its topic has no
          keys.
        - rows_wait: returns whether rows of a source wait for a peer, which may be away for long.
        """
        self._engine = engine
        self._executor = executor
        self._peers = peers
        self._storage = storage
        self._bounds = functools.cache(bounds)
        self._shortest = shortest
        self._ages = ages
        self._subscriptions = subscriptions
        self._bytes_max = bytes_max
        self._rows_at = rows_at
        self._rows_wait = rows_wait
        self._rows_synced: dict[SourceName, Place] = {}
        """The places to which rows are on the disk for certain."""
        self.whole_kept_because = ""
        """Why the store has more than its bound of bytes; empty: it does not."""
        self._waits = SubscriberWaits()
        self._observed_before = ages.marks[-1].observed if ages.marks else 0.0
        self._search_from: int | None = 0
        self._searched_at = 0.0
        self._compact_from: int | None = None
        self._compact_upto = 0
        self._compact_groups: Range | None = None
        self._compact_bytes = 0
        self._compact_at = 0.0
        self._compact_held_until = 0.0
        self._held_up = ""
        self._unread: dict[int, str] = {}
        """Why a released batch stays in the journal because of an unreadable row; by position."""
        self._told: set[int] = set()
        """The positions of such batches that the log has named."""
        self._acting = asyncio.Lock()
        """A round and an operator's release never let go at the same time."""
        self._agenda = Agenda(engine.news, engine.core.sources)
        self._kept: dict[SourceName, str] = {}
        self._unread_sources: dict[SourceName, str] = {}
        """Sources of which nothing goes because rows are unreadable, with the error."""
        self._oldest: dict[int, tuple[int, IndexEntry]] = {}
        """The lowest held number of a source, and its row as last read; by RegID."""
        self.messages = 0
        """The number of messages let go since the start."""
        self.batches = 0
        """The number of batches that have left the journal since the start."""
        self.bytes = 0
        """The bytes of the batches that have left the journal since the start."""

    async def run(self) -> None:
        """Run round after round, until cancelled."""
        told = ""
        while True:
            try:
                await self.round()
                told = ""
            except QuorateError as error:
                if str(error) != told:
                    _log.warning("retention: %s", error)
                told = str(error)
            except Exception:
                _log.exception("a round of retention failed unexpectedly; another follows")
            await asyncio.sleep(ROUND_SECONDS)

    async def round(self) -> None:
        """Run one round. Raises StorageFailed."""
        async with self._acting:
            await self._round()

    async def _round(self) -> None:
        self._note_age()
        await self._look_at_due()
        await self._look_at_whole()
        now = time.monotonic()
        if now >= self._searched_at + SEARCH_SECONDS:
            self._search_from, self._searched_at = 0, now
            self._oldest.clear()  # repair may have replaced them
            sources = self._engine.core.sources.keys()
            self._waits.forget_all_but(sources)
            for source in self._rows_synced.keys() - sources:
                del self._rows_synced[source]
        await self._reclaim()
        await self._compact(now)

    async def _look_at_due(self) -> None:
        """Look at the sources that changed, or of which a batch may exceed its bound by now."""
        turn, sources = Turn(), self._engine.core.sources
        for source in self._agenda.due(time.monotonic()):
            await turn.pause()
            if (state := sources.get(source)) is None:
                continue
            if bounds := self._bounds(source.topic):
                await self._try_to_look_at(state, bounds)
                self._agenda.again(source, time.monotonic() + self._rest(state, bounds))

    def _rest(self, state: SourceState, bounds: Bounds) -> float:
        """Return the seconds after which a source is looked at again, if it does not change."""
        if self.kept_because(state.name):
            return 0.0
        # Ages are not known more precisely. A source comes over any other bound by a change.
        return retention.mark_seconds(self._shortest) / 4 if bounds.seconds else inf

    def kept_because(self, source: SourceName) -> str:
        """Return why nothing goes of a source that is over a bound; empty: nothing is held back."""
        return self._unread_sources.get(source) or self._kept.get(source, "")

    def status(self) -> store_v1.RetentionStatus:
        """Return the status of retention, for people."""
        return store_v1.RetentionStatus(
            messages=self.messages,
            batches=self.batches,
            bytes=self.bytes,
            held_up=self._held_up or next(iter(self._unread.values()), ""),
        )

    async def release(self, state: SourceState, below: int, *, unread_too: bool) -> Released:
        """Let the batches of a source go that are wholly below a number, in order.

        unread_too: also those that subscriptions have yet to read.
        """
        released = Released()
        try:
            released.kept_because = await self._release(state, below, unread_too, released)
        except (StorageUnreadable, CorruptBatch) as error:
            released.kept_because = str(error)
        return released

    async def _release(
        self, state: SourceState, below: int, unread_too: bool, released: Released
    ) -> str:
        """Let them go and count them; return why others stay; empty: nothing keeps any."""
        while self._engine.core.sources.get(state.name) is state:
            async with self._acting:
                rows = await self._oldest_rows(state, below - 1, STEP_BATCHES)
                if rows is None:
                    continue
                limit = self._limit(state, self._bounds(state.name.topic))
                if not unread_too:
                    slowest = self._subscriptions.slowest(state.name, state.lineage)
                    limit = retention.as_far_as_read(limit, slowest)
                going, why = retention.choose_below(rows, below, limit)
                if not going:
                    return why
                before = state.held.released_bytes
                released.messages += await self._let_go(state, going)
                released.bytes += state.held.released_bytes - before
        return "the source was deregistered meanwhile"

    # The first phase: releasing batches.

    @property
    def _observed(self) -> float:
        return self._observed_before + self._engine.core.identities.lives.observed.now

    def _note_age(self) -> None:
        marks, core = self._ages.marks, self._engine.core
        due = not marks or (
            self._observed >= marks[-1].observed + retention.mark_seconds(self._shortest)
            and core.streams.position > marks[-1].position
        )
        if self._shortest and due:
            self._ages = self._ages.noted(Mark(core.streams.position, self._observed, time.time()))
            self._engine.writer.submit((retention.ages_row(self._ages),), sync=False)

    async def _try_to_look_at(self, state: SourceState, bounds: Bounds) -> None:
        """Let batches of a source go; an unreadable row of it must not stop other sources."""
        name = state.name
        try:
            await self._look_at(state, bounds)
        except (StorageUnreadable, CorruptBatch) as error:
            if name not in self._unread_sources:
                _log.warning("retention: nothing of %s is let go: %s", name, error)
            self._unread_sources[name] = str(error)
        else:
            self._unread_sources.pop(name, None)

    async def _look_at(self, state: SourceState, bounds: Bounds) -> None:
        for _ in range(STEPS_MAX):
            going = await self._going(state, bounds)
            if not going:
                return
            await self._let_go(state, going)

    @property
    def _excess(self) -> int:
        """The bytes that the whole store has too many; 0 or less: it is within its bound."""
        if not self._bytes_max:
            return 0
        sources = self._engine.core.sources.values()
        return sum(state.journal_bytes for state in sources) - self._bytes_max

    async def _look_at_whole(self) -> None:
        """Let the oldest batches of any source go while the store is over its bound of bytes."""
        if self._excess <= 0:
            self.whole_kept_because = ""
            return
        oldest: list[tuple[int, int, SourceState]] = []
        turn = Turn()
        for state in list(self._engine.core.sources.values()):
            await turn.pause()
            if rows := await self._readable_rows(state, 1):
                heapq.heappush(oldest, (rows[0].position, state.reg_id, state))
        kept = ""
        for _ in range(WHOLE_STEPS_MAX):
            if not oldest or (excess := self._excess) <= 0:
                break
            _, _, state = heapq.heappop(oldest)
            before = oldest[0][0] if oldest else SEQUENCE_MAX
            rows = await self._readable_rows(state, STEP_BATCHES)
            bounds = self._bounds(state.name.topic)
            limit = self._read(state, bounds, self._limit(state, bounds))
            going, why = retention.choose_before(rows, before, excess, limit)
            if going:
                await self._let_go(state, going)
            if why:
                kept = kept or f"{state.name}: {why}"
            elif left := rows[len(going) :] or await self._readable_rows(state, 1):
                heapq.heappush(oldest, (left[0].position, state.reg_id, state))
        if not oldest:
            self._note_whole_kept(kept if self._excess > 0 else "")

    async def _readable_rows(self, state: SourceState, count: int) -> list[IndexEntry]:
        """Return the oldest rows of a source; none while they cannot be read."""
        try:
            return await self._oldest_rows(state, SEQUENCE_MAX, count) or []
        except (StorageUnreadable, CorruptBatch):
            return []

    def _note_whole_kept(self, why: str) -> None:
        if why and not self.whole_kept_because:
            _log.warning("the store is over store_bytes_max, and cannot let more go: %s", why)
        self.whole_kept_because = why

    async def _let_go(self, state: SourceState, going: list[IndexEntry]) -> int:
        """Let go of the oldest rows of a source, which were read just now. Return the messages."""
        messages = sum(row.last - row.first + 1 for row in going)
        await self._sync_rows(state.name, Place(going[-1].epoch, going[-1].last))
        trusted = retention.readable(self._engine.reads, state, going)
        writes = retention.let_go(self._engine.reads, state, going)
        await self._engine.writer.durable(self._engine.submit(state, writes))
        self.messages += messages
        lowest = min(row.position for row in going)
        self._search_from = min(self._search_from or lowest, lowest)
        # The next step needs to know how many bytes are left.
        await self._reclaim(trusted)
        return messages

    async def _sync_rows(self, source: SourceName, upto: Place) -> None:
        """Sync the rows of messages up to a place: once these have gone, nothing makes them again.

        If the sync fails, so does the next commit.
        """
        at = self._rows_at(source)
        if at is not None and self._rows_synced.get(source, NO_PLACE) < upto:
            await self._in_thread(self._storage.sync_state)
            self._rows_synced[source] = at

    async def _going(self, state: SourceState, bounds: Bounds) -> list[IndexEntry]:
        """Wait until the rows are durable, then return the oldest ones that may go."""
        low = state.held.ranges.low
        if low == NOTHING or not self._may_be_due(state, bounds):
            self._note_kept(state.name, "")
            self._waits.over(state.name)
            return []
        # While a condition keeps the source, reading one row is enough.
        count = 1 if state.name in self._kept else STEP_BATCHES
        rows = await self._oldest_rows(state, self._limit(state, bounds).upto, count)
        if rows is None:
            return []
        if rows:
            self._oldest[state.reg_id] = (low, rows[0])
        held = self._limit(state, bounds)
        limit = self._read(state, bounds, held)
        old_before = self._old_before(bounds)
        going, kept = retention.choose(rows, state, bounds, limit.upto, old_before)
        self._note_kept(state.name, limit.why if kept else "")
        if kept and limit is not held:
            self._waits.kept(state.name, time.monotonic())
        elif rows and not going and not kept:
            self._waits.over(state.name)
        return going

    async def _oldest_rows(
        self, state: SourceState, upto: int, count: int
    ) -> list[IndexEntry] | None:
        """Wait until the rows up to a number are durable, then return the oldest ones.

        Return None if they have changed meanwhile: then the next look finds them.
        """
        engine, low = self._engine, state.held.ranges.low
        if low == NOTHING:
            return []
        await engine.settled_range(state, low, upto)
        before = engine.as_held(state, low, upto)
        rows = await self._in_thread(
            lambda: list(
                islice(
                    index.entries(engine.reads, state.reg_id, low, SEQUENCE_MAX, count + 1),
                    count,
                )
            )
        )
        gone = engine.core.sources.get(state.name) is not state
        return None if gone or before != engine.as_held(state, low, upto) else rows

    def _may_be_due(self, state: SourceState, bounds: Bounds) -> bool:
        """Return whether the oldest rows need to be read, because one may be over a bound."""
        if not (bounds.seconds or retention.is_over(state, bounds)):
            return False
        low, row = self._oldest.get(state.reg_id, (NOTHING, None))
        if row is None or low != state.held.ranges.low:
            return True
        return retention.is_due(row, state, bounds, self._old_before(bounds))

    def _old_before(self, bounds: Bounds) -> int:
        return self._ages.old_before(bounds.seconds, self._observed, time.time())

    def _limit(self, state: SourceState, bounds: Bounds) -> Limit:
        known: list[SourceKnowledge] = []
        silent: list[str] = []
        until = retention.conditions(state, bounds)
        if ACKNOWLEDGED in until:
            heard = self._peers.heard()
            for address in self._peers.addresses:
                answer = heard[address].answer if address in heard else None
                if answer is None or not answer.vouches(state.name):
                    silent.append(address)
                elif knowledge := answer.sources.get(state.name):
                    known.append(knowledge)
        own, generation = knowledge_of(state, limbo=False), state.registration.begun.generation
        known = [each for each in known if not each.begun.is_older_than(generation)]
        held = retention.limit(
            state,
            until,
            self._engine.core.limbo_of(state),
            {
                receiver: each.acknowledged_upto
                for receiver, each in positions([own, *known], state.lineage).items()
                if each.waited_for
            },
            sorted(silent),
        )
        rows = self._rows_at(state.name)
        if rows is None or self._rows_wait(state.name):
            return held
        # Peers that let the same messages go could not give their rows, either.
        return retention.as_far_as_rows(held, rows, state.lineage)

    def _read(self, state: SourceState, bounds: Bounds, held: Limit) -> Limit:
        """Return the limit as far as subscriptions have read, if messages wait for them."""
        if not bounds.subscriber_seconds:
            return held
        slowest = self._subscriptions.slowest(state.name, state.lineage)
        now, seconds = time.monotonic(), bounds.subscriber_seconds
        return self._waits.within(state.name, held, slowest, seconds, now)

    def _note_kept(self, source: SourceName, why: str) -> None:
        if why and source not in self._kept:
            _log.info("%s is over a bound of retention, but nothing is let go: %s", source, why)
        if why:
            self._kept[source] = why
        else:
            self._kept.pop(source, None)

    # The second phase: removing released batches from the journal.

    async def _reclaim(self, trusted: frozenset[int] = frozenset()) -> None:
        reads = self._engine.reads
        while self._search_from is not None:
            position = self._search_from
            try:
                found = await self._in_thread(
                    functools.partial(retention.reclaim, reads, position, STEP_BATCHES, trusted)
                )
            except StorageUnreadable as error:
                self._search_from = None  # until the next search
                self._note_unread(position, {position: str(error)})
                return
            upto = found.positions.last if found.positions is not None else None
            self._note_unread(position, found.unread, upto)
            if upto is None:
                self._search_from = None
                return
            self._search_from = upto + 1
            await self._engine.writer.durable(self._engine.writer.submit(found.writes))
            self._count(found)

    def _note_unread(self, first: int, unread: Mapping[int, str], last: int | None = None) -> None:
        """Note the released batches from first to last that stay because of an unreadable row.

        last: None: the end of the journal.
        """
        for position in list(self._unread):
            if first <= position and (last is None or position <= last):
                del self._unread[position]
        self._unread.update(unread)
        if news := unread.keys() - self._told:
            self._told |= news
            _log.warning(
                "retention: %d released batches stay in the journal: %s",
                len(news),
                unread[min(news)],
            )

    def _count(self, found: Reclaimed) -> None:
        assert found.positions is not None
        self.batches += found.batches
        self.bytes += found.bytes
        by_reg_id = {state.reg_id: state for state in self._engine.core.sources.values()}
        for reg_id, size in found.late.items():
            if (state := by_reg_id.get(reg_id)) is not None:
                state.held.released_bytes += size
                self._engine.submit(state, (state.held_row(),), sync=False)
        if not found.batches:
            return
        if self._compact_from is None:
            self._compact_from, self._compact_at = found.positions.first, time.monotonic()
        self._compact_from = min(self._compact_from, found.positions.first)
        self._compact_upto = max(self._compact_upto, found.positions.last)
        if (groups := found.groups) is not None:
            known = self._compact_groups or groups
            self._compact_groups = Range(
                min(known.first, groups.first), max(known.last, groups.last)
            )
        self._compact_bytes += found.bytes

    async def _compact(self, now: float) -> None:
        """Compact the journal when due, so that the disk space of removed batches is free again."""
        if self._compact_from is None or now < self._compact_held_until:
            return
        whole = sum(state.journal_bytes for state in self._engine.core.sources.values())
        much = max(COMPACT_BYTES_MIN, whole // COMPACT_PART)
        if self._compact_bytes < much and now < self._compact_at + COMPACT_SECONDS:
            return
        if why := next(iter(self._unread.values()), "") or await self._unreadable():
            if not self._held_up:
                _log.warning(
                    "retention: the journal is not compacted, so its disk space stays in use: %s",
                    why,
                )
            self._held_up, self._compact_held_until = why, now + COMPACT_SECONDS
            return
        self._held_up = ""
        first, last, size = self._compact_from, self._compact_upto, self._compact_bytes
        groups, self._compact_groups = self._compact_groups, None
        self._compact_from, self._compact_upto, self._compact_bytes = None, 0, 0
        began = time.monotonic()
        await self._in_thread(
            lambda: self._storage.compact(Table.JOURNAL, position_key(first), position_key(last))
        )
        if groups is not None:
            begin, end = fragment_key(groups.first, 0), fragment_key(groups.last + 1, 0)
            await self._in_thread(lambda: self._storage.compact(Table.FRAGMENTS, begin, end))
        _log.debug("compacted %d bytes of the journal in %.1f s", size, time.monotonic() - began)

    async def _unreadable(self) -> str:
        """Return why a part of the journal is unreadable; empty: none is known to be."""
        for state in list(self._engine.core.sources.values()):
            if parts := state.unreadable:
                why = await self._in_thread(
                    functools.partial(retention.unreadable, self._engine.reads, state.reg_id, parts)
                )
                if why:
                    return why
        # Unreadable batches count, too, that were deleted, set aside or given up meanwhile.
        writer = self._engine.writer
        await writer.durable(writer.submit(()))
        why, writes = await self._in_thread(
            functools.partial(retention.still_bad, self._engine.reads)
        )
        writer.submit(writes, sync=False)
        return why

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
