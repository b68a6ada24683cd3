"""The call Release: an operator lets go of what is older than a time, source by source.

What may go is decided in quorate.store.rules.retention, and it goes in quorate.store.tasks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import Executor
from dataclasses import dataclass

from quorate.protocol.errors import CorruptBatch, StorageUnreadable, UnknownTopic
from quorate.protocol.patterns import topic_pattern
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.rpc.locate import locate
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.retention import Released, Releasing
from quorate.v1 import store_pb2 as store_v1


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases that operators ask one store for."""

    engine: Engine
    executor: Executor
    releasing: Releasing

    async def parts(
        self, request: store_v1.ReleaseRequest
    ) -> AsyncIterator[store_v1.ReleaseResponse]:
        """Let go of old messages of the topics, and yield what has gone of each source.

        A source with an unreadable part keeps it, and all behind it. Raises InvalidArgument,
        StorageFailed.
        """
        selects = topic_pattern(request.topic_pattern).matches if request.topic_pattern else None
        for state in list(self.engine.core.sources.values()):
            if selects is None or selects(state.name.topic):
                yield await self._released(state, request)

    async def _released(
        self, state: SourceState, request: store_v1.ReleaseRequest
    ) -> store_v1.ReleaseResponse:
        try:
            below = await locate(self.engine, self.executor, state.name, request.before_ns)
        except (UnknownTopic, StorageUnreadable, CorruptBatch) as error:
            released = Released(kept_because=str(error))
        else:
            released = await self.releasing.release(state, below, unread_too=request.unread_too)
        return store_v1.ReleaseResponse(
            source=source_to_wire(state.name),
            messages=released.messages,
            bytes=released.bytes,
            retained_from=state.held.retained_from,
            kept_because=released.kept_because,
        )
