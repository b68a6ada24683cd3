"""The call Journal: one store's report of what its journal has, and who reads it.

A report goes in parts, and the event loop gets a turn between them: a store may have many sources
and subscriptions. Nothing is changed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from quorate.protocol.errors import StorageFailed
from quorate.protocol.framing import BatchHeader
from quorate.protocol.patterns import topic_pattern
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.rpc.running import furthest_behind, running_of
from quorate.store.rpc.status import PART_MAX, disk_bytes
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Subscriptions
from quorate.store.storage.interface import Reads
from quorate.store.storage.reader import oldest_and_newest
from quorate.store.tasks.retention import Releasing
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1

SUBSCRIPTIONS_AT_ONCE = 256
"""The subscriptions of one part of a report."""


@dataclass(frozen=True, slots=True)
class JournalReports:
    """The reports of one store's journal."""

    name: str
    directory: Path
    engine: Engine
    executor: Executor
    releasing: Releasing
    subscriptions: Subscriptions

    async def parts(
        self, pattern: str, subscriptions_max: int
    ) -> AsyncIterator[store_v1.JournalResponse]:
        """Yield the parts of a report: the store, then its sources, and last the subscriptions.

        - pattern: of the topics; empty: all.
        - subscriptions_max: how many subscriptions to report at most; 0: all.

        Raises InvalidArgument.
        """
        selects = topic_pattern(pattern).matches if pattern else None
        yield store_v1.JournalResponse(
            store_name=self.name,
            disk_bytes=await asyncio.to_thread(disk_bytes, self.directory),
            subscription_count=len(self.subscriptions),
            subscription_bound=self.subscriptions.most,
        )
        by_topic: dict[str, list[SourceState]] = {}
        chosen: list[SourceState] = []
        turn = Turn()
        for state in list(self.engine.core.sources.values()):
            await turn.pause()
            if selects is None or selects(state.name.topic):
                by_topic.setdefault(state.name.topic, []).append(state)
                chosen.append(state)
        for at in range(0, len(chosen), PART_MAX):
            yield await self._sources(chosen[at : at + PART_MAX])
        running = await running_of(self.subscriptions, by_topic, selects)
        found = furthest_behind(running, subscriptions_max)
        for at in range(0, len(found), SUBSCRIPTIONS_AT_ONCE):
            part = found[at : at + SUBSCRIPTIONS_AT_ONCE]
            yield store_v1.JournalResponse(subscriptions=part)
        yield store_v1.JournalResponse(subscriptions_left_out=len(running) - len(found))

    async def _sources(self, states: Sequence[SourceState]) -> store_v1.JournalResponse:
        headers = await asyncio.get_running_loop().run_in_executor(
            self.executor, _headers, self.engine.reads, [state.reg_id for state in states]
        )
        both = zip(states, headers, strict=True)
        return store_v1.JournalResponse(sources=[self._source(*each) for each in both])

    def _source(self, state: SourceState, headers: Sequence[BatchHeader]) -> store_v1.JournalSource:
        held = state.held
        return store_v1.JournalSource(
            source=source_to_wire(state.name),
            first=held.ranges.low,
            last=held.ranges.high,
            messages=held.ranges.count(),
            first_ns=headers[0].timestamp_ns if headers else 0,
            last_ns=headers[-1].timestamp_ns if headers else 0,
            bytes=state.journal_bytes,
            compressed=headers[-1].is_compressed if headers else False,
            archived_upto=held.archived_upto,
            kept_because=self.releasing.kept_because(state.name),
        )


# In a thread.


def _headers(reads: Reads, reg_ids: Sequence[int]) -> list[list[BatchHeader]]:
    """Return the headers of the oldest and newest batch of each stream, if they can be read."""
    return [_readable(reads, reg_id) for reg_id in reg_ids]


def _readable(reads: Reads, reg_id: int) -> list[BatchHeader]:
    try:
        return oldest_and_newest(reads, reg_id)
    except StorageFailed:
        return []
