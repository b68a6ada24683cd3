"""Between the store's rules and its writer: has changes written, and holds answers back until then.

All calls are made on the event loop. Nothing here decides what may be written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from quorate.protocol.errors import DELETED_HERE, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules import retention
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.directory_entries import (
    Elsewhere,
    claim_of,
    merged,
)
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.receivers import (
    TOPICS_MAX,
    Receivers,
)
from quorate.store.rules.source_state import (
    AppendStream,
    Change,
    SourceState,
)
from quorate.store.storage.group_commit import (
    Acknowledged,
    Writer,
)
from quorate.store.storage.interface import (
    Reads,
    Write,
)
from quorate.store.watchers import Directory
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2 import DirectoryEntry, StoreReplaced

_log = logging.getLogger("quorate.store.engine")

A = TypeVar("A")


class Endable(Protocol):
    """The call behind a stream."""

    def end(self, error: QuorateError) -> None:
        """End it with this error, soon."""

    def replaced(self, store: StoreReplaced) -> None:
        """Tell the source, before all that becomes durable later."""


class Engine:
    """What all calls to a store share."""

    def __init__(
        self,
        core: StoreCore,
        receivers: Receivers,
        writer: Writer,
        reads: Reads,
        durability: Callable[[str], v1.Durability],
    ) -> None:
        """durability: where a topic must be before it is acknowledged."""
        self.core = core
        self.receivers = receivers
        self.writer = writer
        self.reads = reads
        self.durability = durability
        self.directory = Directory()
        self.address = ""
        """Where others reach this store; known once it serves."""
        self.elsewhere = Elsewhere()
        self.proxy_of: set[SourceName] = set()
        """Sources that this store answers for."""
        self.waits_for: dict[SourceName | None, str] = {}
        """What keeps the store in limbo for a source, or, under None, as a whole; for people."""
        self.rejected = 0
        """Requests and batches that were refused since the start."""
        self._calls: dict[AppendStream, Endable] = {}
        self._commits: dict[int, int] = {}

    def is_synced(self, topic: str) -> bool:
        """Whether what is kept of a topic must be on the disk before it is acknowledged."""
        return self.durability(topic) in (v1.DURABILITY_FSYNC, v1.DURABILITY_STATE_ONLY)

    def limbo_reason(self, state: SourceState | None) -> str:
        """Why the store is in limbo for a source, or as a whole, and what it waits for."""
        return self._with_wait(self.core.limbo_of(state), state.name if state is not None else None)

    def limbo_reason_without(self, source: SourceName) -> str:
        """The same, of a source that the store does not know, or deleted."""
        reason = self.core.limbo_without(source)
        return self._with_wait(reason, source if reason == DELETED_HERE else None)

    def _with_wait(self, reason: str, source: SourceName | None) -> str:
        waits_for = self.waits_for.get(source, "")
        return f"{reason}; {waits_for}" if reason and waits_for else reason

    def submit(
        self,
        state: SourceState,
        writes: Sequence[Write],
        sync: bool = True,
        acknowledge: Acknowledged | None = None,
        upto: int = 0,
    ) -> int:
        """Have a source's rows written; see Writer.submit."""
        number = self.writer.submit(writes, sync, acknowledge, upto)
        self._commits[state.reg_id] = number
        return number

    def submitted(self, state: SourceState) -> int:
        """The number of the last commit with rows of this source; 0: none since the start."""
        return self._commits.get(state.reg_id, 0)

    async def written(self, state: SourceState) -> None:
        """Return once what was accepted of this source by now is durable, and so readable.

        Raises StorageFailed.
        """
        await self.written_under(state.reg_id)

    async def written_under(self, reg_id: int) -> None:
        """The same, of whatever has this RegID, or had it until it was deleted.

        Raises StorageFailed.
        """
        await self.writer.durable(self._commits.get(reg_id, 0))

    def is_written(self, state: SourceState) -> bool:
        """Whether everything that was accepted of this source is durable."""
        return self._commits.get(state.reg_id, 0) <= self.writer.committed

    async def settled(self, state: SourceState) -> None:
        """Return once everything of this source is durable: while it streams, perhaps never.

        It is so until the caller awaits something. Raises StorageFailed.
        """
        while self._commits.get(state.reg_id, 0) > self.writer.committed:
            await self.written(state)

    async def settled_range(self, state: SourceState, first: int, last: int) -> None:
        """Return once what is held of [first, last] is durable, also while its source streams.

        It is so until the caller awaits something. Raises StorageFailed.
        """
        while True:
            before = self.as_held(state, first, last)
            await self.written(state)
            if before == self.as_held(state, first, last):
                return

    @staticmethod
    def as_held(state: SourceState, first: int, last: int) -> object:
        """Changes with whatever serves any of these numbers."""
        held = state.held
        return state.lineage, state.unreadable, held.ranges.low, held.ranges.holes(first, last)

    async def made_durable(self, state: SourceState, change: Change[A]) -> A:
        """The answer of a change, once it may be seen; raises StorageFailed."""
        self.end_streams(change)
        # Also without rows of its own: the answer speaks of what is being written.
        await self.writer.durable(self.submit(state, change.writes))
        return change.answer

    def found_unreadable(self, state: SourceState, part: Range, problem: str) -> bool:
        """A part of what is held can not be read; peers may have good copies.

        Returns whether that was not known.
        """
        if self.core.sources.get(state.name) is not state:
            return False  # deleted meanwhile: nothing may be written under its RegID any more
        writes = state.found_unreadable(part.first, part.last)
        if writes:
            _log.error("%s %s can not be read: %s", state.name, part, problem)
            where = retention.bad_batches(self.reads, state.reg_id, part)
            self.submit(state, (*writes, *where))
        return bool(writes)

    def found_readable(self, state: SourceState, part: Range) -> None:
        """A part of what is held was read and its checksums are right."""
        if self.core.sources.get(state.name) is not state:
            return
        if state.unreadable.both(RangeSet((part,))):
            _log.info("%s %s can be read again", state.name, part)
            self.submit(state, state.read_well(part.first, part.last))

    def entry(self, source: SourceName) -> DirectoryEntry | None:
        """What the directory says of a source; None while nobody knows enough of it."""
        claims = dict(self.elsewhere.of(source))
        state = self.core.sources.get(source)
        proxy = source in self.proxy_of
        mine = claim_of(state, self.address, proxy=proxy) if state is not None else None
        if mine is not None:
            claims[self.core.store] = mine
        return merged(claims)

    def known_sources(self) -> set[SourceName]:
        """Of this store and of its peers."""
        return {*self.core.sources, *self.elsewhere.sources}

    def topics(self) -> list[str]:
        """Topics that this store and its peers have, for people; at most TOPICS_MAX."""
        theirs = {source.topic for source in self.elsewhere.sources}
        return sorted(theirs.union(self.receivers.topics()))[:TOPICS_MAX]

    def opened(self, stream: AppendStream, call: Endable) -> None:
        """A call serves this stream now."""
        self._calls[stream] = call
        source = stream.state.name
        self.core.identities.lives.stays(Who(source))
        self.proxy_of.discard(source)
        self.directory.changed(source)

    def closed(self, stream: AppendStream) -> None:
        """The call is over; what the stream still had to say is written soon."""
        self._calls.pop(stream, None)
        writes, state = self.core.closed(stream), stream.state
        # Perhaps of a stream that has begun anew meanwhile, under the same name.
        present = self.core.sources.get(state.name)
        if present is not None and not present.live:
            lives = self.core.identities.lives
            lives.left(Who(state.name), willingly=state.registration.clean)
        if writes:
            self.directory.changed(state.name)
            if self.writer.failure is None:
                self.submit(state, writes)

    def end_streams(self, change: Change[A]) -> None:
        """End the streams that a change ends."""
        for stream, error in change.endings:
            if (call := self._calls.get(stream)) is not None:
                call.end(error)
            self.directory.changed(stream.state.name)

    def replaced(self, store: StoreReplaced) -> None:
        """Another store has come back with a new incarnation: every source must know."""
        for call in list(self._calls.values()):
            call.replaced(store)

    def end_all(self, error: QuorateError) -> None:
        """End every stream."""
        for call in list(self._calls.values()):
            call.end(error)
