"""The engine: submits the changes of the rules to the writer, and holds answers back until then.

All calls are made on the event loop. The engine decides nothing: the rules do.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Protocol, TypeVar

from quorate.protocol.errors import ContentConflict, InLimbo, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules import retention
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.arrivals import Arrival
from quorate.store.rules.changes import Changes
from quorate.store.rules.directory_entries import (
    Claim,
    Elsewhere,
    claim_of,
    merged,
    proxy_among,
)
from quorate.store.rules.finished import is_finished
from quorate.store.rules.lag import Lags
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.receivers import (
    SOURCES_NAMED,
    TOPICS_MAX,
    Receivers,
)
from quorate.store.rules.source_state import (
    AppendStream,
    Change,
    SourceState,
)
from quorate.store.storage import index
from quorate.store.storage.group_commit import (
    Acknowledged,
    Writer,
)
from quorate.store.storage.index import Compared
from quorate.store.storage.interface import (
    Reads,
    Write,
)
from quorate.store.watchers import Directory
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2 import DirectoryEntry, Moment, StoreReplaced

_log = logging.getLogger("quorate.store.engine")

A = TypeVar("A")


class Endable(Protocol):
    """The call that serves a stream."""

    def end(self, error: QuorateError) -> None:
        """End the call with this error, soon."""

    def replaced(self, store: StoreReplaced) -> None:
        """Tell the source that another store was replaced, before any later acknowledgement."""


@dataclass(slots=True)
class Received:
    """Counts of what sources have sent in streams since the start."""

    batches: int = 0
    messages: int = 0
    """The messages that went on a stream: what is sent again does not count."""
    bytes: int = 0


@dataclass(slots=True)
class Denied:
    """The calls since the start that no rule of access permitted."""

    count: int = 0
    _last: float = 0.0

    def add(self, now: float) -> None:
        """Count a call. now: the time in seconds, of a clock that never jumps."""
        self.count += 1
        self._last = now

    def seconds_ago(self, now: float) -> float:
        """Return the seconds since the last call; 0: there was none."""
        return now - self._last if self.count else 0.0


@dataclass(slots=True)
class _CommitUnderWay:
    """A commit that is not durable yet."""

    position: int = 0
    """The journal's position behind its rows."""
    firsts: dict[SourceName, int] = field(default_factory=dict)
    """The sources with rows in it, and the first number of each that the rows may concern."""


class Engine:
    """The state that all calls to one store share."""

    def __init__(
        self,
        core: StoreCore,
        receivers: Receivers,
        writer: Writer,
        reads: Reads,
        durability: Callable[[str], v1.Durability],
        has_keys: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Begin without calls.

        - durability: where a message of a topic must be before it is acknowledged.
        - has_keys: whether the store makes the state of the world of a topic.
        """
        self.core = core
        self.receivers = receivers
        self.writer = writer
        self.reads = reads
        # It matches patterns, and is asked with each batch and each query.
        self.durability = functools.lru_cache(4096)(durability)
        self._has_keys = has_keys
        self.run = uuid.uuid4().bytes
        """Tells this run of the store apart from all others."""
        self.changes = Changes()
        """The sources that changed at this store. Peers ask for them: so each change of what an
        inventory says goes through `submit`, `changed` or `note`."""
        self.news = Changes()
        """The sources that changed here or at a peer, for tasks that look at all sources."""
        self.directory = Directory()
        self.tail = Directory()
        """The calls that wait for more in the journal. Each is told of the sources of a commit."""
        self.stable_tail = Directory()
        """The calls that wait for more that is stable. A commit of what is not is no news to
        them."""
        self.address = ""
        """The address at which others reach this store; set once the store serves."""
        self.elsewhere = Elsewhere()
        self.announced: set[SourceName] = set()
        """The sources that are away and that this store announces as their proxy."""
        self.waits_for: dict[SourceName | None, str] = {}
        """Why the store is still in limbo for a source; under None: as a whole. For people."""
        self.lags = Lags()
        """The sources of which this store lacks what its peers have."""
        self.rejected = 0
        """The number of requests and batches that the store refused since its start."""
        self.denied = Denied()
        self.received = Received()
        self._calls: dict[AppendStream, Endable] = {}
        self.askers: dict[AppendStream, Callable[[], None]] = {}
        """How to ask the source of a stream how far the stream is stable."""
        self._topics: tuple[int, list[str]] = (-1, [])
        """The topics for people, and the number of changes of the directory when they were found.
        """
        self._commits: dict[int, int] = {}
        self._under_way: dict[int, _CommitUnderWay] = {}
        """The commits that are not durable yet, by number."""
        self.durable_position = core.streams.position
        """The journal's position behind everything that is durable."""

    def is_synced(self, topic: str) -> bool:
        """Return whether rows of this topic must be on the disk before they are acknowledged."""
        return self.durability(topic) in (v1.DURABILITY_FSYNC, v1.DURABILITY_STATE_ONLY)

    def limbo_reason(self, state: SourceState | None) -> str:
        """Return why the store is in limbo for a source, or as a whole, and what it waits for."""
        return self._with_wait(self.core.limbo_of(state), state.name if state is not None else None)

    def check_not_in_limbo(self) -> None:
        """Raise InLimbo if the store as a whole cannot vouch for what it lacks."""
        if reason := self.limbo_reason(None):
            raise InLimbo("the journal", self.core.store, reason)

    def limbo_reason_without(self, source: SourceName) -> str:
        """Return why the store is in limbo for a source that it does not know, or that ended."""
        has_ended = source in self.core.identities.ended
        return self._with_wait(self.core.limbo_without(source), source if has_ended else None)

    def _with_wait(self, reason: str, source: SourceName | None) -> str:
        waits_for = self.waits_for.get(source, "")
        return f"{reason}; {waits_for}" if reason and waits_for else reason

    def moment(self) -> Moment | None:
        """Return the present moment, since which peers may ask for changes; None: they may not.

        Of a store in limbo, what changes is more than its sources.
        """
        return None if self.core.in_limbo else Moment(run=self.run, changes=self.changes.count)

    def changed_since(self, moment: Moment) -> dict[SourceName, None] | None:
        """Return the sources that may have changed since a moment; None: all of them may.

        Those that stream are always among them, and those whose state lifetime passes.
        """
        if moment.run != self.run or self.core.in_limbo:
            return None
        if (changed := self.changes.since(moment.changes)) is None:
            return None
        streaming = (stream.state.name for stream in self._calls)
        return dict.fromkeys(chain(changed, streaming, self.core.identities.lives.mortal))

    def submit(
        self,
        state: SourceState,
        writes: Sequence[Write],
        sync: bool = True,
        acknowledge: Acknowledged | None = None,
        upto: int = 0,
    ) -> int:
        """Submit rows of a source to the writer, and return the number of their commit.

        Raises StorageFailed. The parameters are those of Writer.submit.
        """
        return self.submit_new(state, writes, 0, sync, acknowledge, upto)

    def submit_new(
        self,
        state: SourceState,
        writes: Sequence[Write],
        first: int,
        sync: bool = True,
        acknowledge: Acknowledged | None = None,
        upto: int = 0,
    ) -> int:
        """Submit rows that concern only numbers from first on; otherwise as `submit`."""
        number = self.writer.submit(writes, sync, acknowledge, upto)
        if writes:
            self.note(state.name)
        self._commits[state.reg_id] = number
        commit = self._under_way.setdefault(number, _CommitUnderWay())
        commit.firsts[state.name] = min(first, commit.firsts.get(state.name, first))
        commit.position = self.core.streams.position
        return number

    def submit_stable(self, state: SourceState, writes: Sequence[Write]) -> int:
        """Submit the row that says how far a source's stream is stable, and return its commit.

        The calls that wait for that have been told by then. The row goes with the next commit:
        whatever is made durable because of it is not written before it. Raises StorageFailed.
        """
        number = self.writer.submit_lazily(writes)
        self.note(state.name)
        self._commits[state.reg_id] = number
        return number

    def note(self, source: SourceName) -> None:
        """Note a change of a source at this store."""
        self.changes.note(source)
        self.news.note(source)

    def changed(self, source: SourceName) -> None:
        """Note a change of a source that the watchers of the directory are to be told of."""
        self.note(source)
        self.directory.changed(source)

    def committed(self, number: int) -> None:
        """Tell those who wait for more in the journal of the sources of a commit."""
        if (commit := self._under_way.pop(number, None)) is None:
            return
        self.durable_position = commit.position
        for source, first in commit.firsts.items():
            self.tail.changed(source)
            state = self.core.sources.get(source)
            if state is None or first <= state.held.stable_upto:
                self.stable_tail.changed(source)

    def submitted(self, state: SourceState) -> int:
        """Return the number of the source's last commit; 0: it has had none since the start."""
        return self._commits.get(state.reg_id, 0)

    async def written(self, state: SourceState) -> None:
        """Return once all rows of this source submitted by now are durable, and so readable.

        Raises StorageFailed.
        """
        await self.written_under(state.reg_id)

    async def written_under(self, reg_id: int) -> None:
        """Return once all rows submitted by now under this RegID are durable.

        The source may have been deleted since. Raises StorageFailed.
        """
        await self.writer.durable(self._commits.get(reg_id, 0))

    def is_written(self, state: SourceState) -> bool:
        """Return whether all rows submitted for this source are durable."""
        return self._commits.get(state.reg_id, 0) <= self.writer.committed

    async def settled(self, state: SourceState) -> None:
        """Return once no row of this source waits for the disk. While it streams, perhaps never.

        This holds until the caller next awaits. Raises StorageFailed.
        """
        while self._commits.get(state.reg_id, 0) > self.writer.committed:
            await self.written(state)

    async def settled_range(self, state: SourceState, first: int, last: int) -> None:
        """Return once all held of [first, last] is durable, also while the source streams.

        This holds until the caller next awaits. Raises StorageFailed.
        """
        while True:
            before = self.as_held(state, first, last)
            await self.written(state)
            if before == self.as_held(state, first, last):
                return

    async def compared(self, state: SourceState, arrival: Arrival) -> Compared | None:
        """Return how a large batch, all of which has come, compares with what is held.

        None: nothing is held of its number. The result holds until the caller next awaits. Raises
        StorageFailed, CorruptBatch.
        """
        first, last = arrival.header.first, arrival.header.last
        while not state.lacks_all(first, last):
            before = self.as_held(state, first, last)
            await self.written(state)
            compared = await asyncio.to_thread(
                index.compare_large, self.reads, state.reg_id, arrival.row
            )
            if before == self.as_held(state, first, last):
                return compared
        return None

    @staticmethod
    def as_held(state: SourceState, first: int, last: int) -> object:
        """Return a value that differs once other batches serve any of these numbers."""
        held = state.held
        return state.lineage, state.unreadable, held.ranges.low, held.ranges.holes(first, last)

    async def made_durable(self, state: SourceState, change: Change[A]) -> A:
        """Submit a change, and return its answer once its rows are durable.

        Raises StorageFailed.
        """
        self.end_streams(change)
        # Without rows the answer waits, too: it speaks of rows that earlier changes submitted.
        await self.writer.durable(self.submit(state, change.writes))
        return change.answer

    def found_unreadable(self, state: SourceState, part: Range, problem: str) -> bool:
        """Note that a part of the held stream is unreadable, so that repair fetches it from peers.

        Return whether that is news.
        """
        if self.core.sources.get(state.name) is not state:
            return False  # deleted meanwhile: its RegID takes no more rows
        writes = state.found_unreadable(part.first, part.last)
        if writes:
            _log.error("%s %s cannot be read: %s", state.name, part, problem)
            where = retention.bad_batches(self.reads, state.reg_id, part)
            self.submit(state, (*writes, *where))
        return bool(writes)

    def met_conflict(
        self, state: SourceState, conflict: ContentConflict, instance: bytes = b""
    ) -> None:
        """Note that a source was refused with other content, until an operator settles it.

        instance: the one whose batch was refused; empty: a begin was.
        """
        if self.core.sources.get(state.name) is not state:
            return
        if instance:
            state.refused_instance = instance
        if writes := state.met_conflict(conflict.first, conflict.last):
            self.submit(state, writes)

    def found_readable(self, state: SourceState, part: Range) -> None:
        """Note that a part of the held stream was read, and that its checksums are right."""
        if self.core.sources.get(state.name) is not state:
            return
        if state.unreadable.both(RangeSet((part,))):
            _log.info("%s %s can be read again", state.name, part)
            self.submit(state, state.read_well(part.first, part.last))

    def entry(self, source: SourceName) -> DirectoryEntry | None:
        """Return the directory's entry of a source; None while no store knows enough of it."""
        state = self.core.sources.get(source)
        entry = merged(self._claims(source), self.core.store)
        if entry is not None and state is not None:
            entry.next_sequence = state.held.high + 1
            entry.begun_epoch = state.registration.begun.epoch
        return entry

    def proxy(self, source: SourceName) -> str:
        """Return the name of the store that the directory names as the source's proxy.

        Empty: the directory names none.
        """
        return proxy_among(self._claims(source), self.core.store)

    def _claims(self, source: SourceName) -> dict[str, Claim]:
        claims = dict(self.elsewhere.of(source))
        state = self.core.sources.get(source)
        proxy = source in self.announced
        if state is not None:
            finished = self.is_finished(state)
            mine = claim_of(state, self.address, proxy=proxy, finished=finished)
            if mine is not None:
                claims[self.core.store] = mine
        return claims

    def is_finished(self, state: SourceState) -> bool:
        """Return whether a source is finished at this store. One of a topic with keys never is."""
        return is_finished(state, self.core.doubt_of(state)) and not self._has_keys(
            state.name.topic
        )

    def has_more(self, source: SourceName) -> bool:
        """Return whether a source is not finished at this store, or at a peer."""
        return not all(claim.finished for claim in self._claims(source).values())

    def known_sources(self) -> Iterable[SourceName]:
        """Return the sources that this store or one of its peers knows; many of them twice."""
        return chain(self.core.sources, self.elsewhere.sources)

    def topics(self) -> list[str]:
        """Return the topics of this store and its peers, for people; at most TOPICS_MAX.

        They are as they were when the directory last changed.
        """
        changes = self.directory.changes
        if self._topics[0] != changes:
            theirs = {source.topic for source in islice(self.elsewhere.sources, SOURCES_NAMED)}
            found = sorted(theirs.union(self.receivers.topics()))[:TOPICS_MAX]
            self._topics = changes, found
        return self._topics[1]

    def opened(self, stream: AppendStream, call: Endable) -> None:
        """Note that a call serves this stream from now on."""
        self._calls[stream] = call
        source = stream.state.name
        self.core.identities.lives.stays(Who(source))
        self.announced.discard(source)
        self.changed(source)

    def closed(self, stream: AppendStream) -> None:
        """Note that the stream's call is over, and submit the stream's last rows."""
        self._calls.pop(stream, None)
        writes, state = self.core.streams.closed(stream), stream.state
        # A source of this name may have begun anew meanwhile.
        present = self.core.sources.get(state.name)
        if present is not None and not present.live:
            lives = self.core.identities.lives
            lives.left(Who(state.name), willingly=state.registration.clean)
        self.note(state.name)
        if writes:
            self.directory.changed(state.name)
            if self.writer.failure is None:
                self.submit(state, writes)

    def end_streams(self, change: Change[A]) -> None:
        """End the streams that a change ends."""
        for stream, error in change.endings:
            if (call := self._calls.get(stream)) is not None:
                call.end(error)
            self.changed(stream.state.name)

    def has_ended(self, source: SourceName) -> None:
        """Note that a source is no longer live here."""
        self.announced.discard(source)
        self.changed(source)

    def replaced(self, store: StoreReplaced) -> None:
        """Tell every source that streams here that another store has a new incarnation."""
        for call in list(self._calls.values()):
            call.replaced(store)

    def ask_for_stable(self, state: SourceState) -> None:
        """Ask a source that streams how far it is stable, if more of it is held than is known."""
        if state.stream is None or state.held.ranges.high <= state.held.stable_upto:
            return
        if (ask := self.askers.get(state.stream)) is not None:
            ask()

    def end_all(self, error: QuorateError) -> None:
        """End every stream."""
        for call in list(self._calls.values()):
            call.end(error)
