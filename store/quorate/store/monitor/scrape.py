"""The scrape: gathers the facts that metrics are made of, and makes the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quorate.store.durations import Durations
from quorate.store.engine import Engine
from quorate.store.monitor.health import Health
from quorate.store.monitor.metrics import Facts, exposition, topic_of
from quorate.store.rpc.status import Reports
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.queue_pb2 import QueueStatus


class Scrape:
    """The scrape of one store."""

    def __init__(
        self,
        reports: Reports,
        engine: Engine,
        health: Health,
        loop_lag: Durations,
        queues: Callable[[], Iterable[QueueStatus]],
    ) -> None:
        """Remember what is asked. queues: returns the state of each queue beside the store."""
        self._reports = reports
        self._engine = engine
        self._health = health
        self._loop_lag = loop_lag
        self._queues = queues

    async def __call__(self) -> bytes:
        """Return the metrics as they are now."""
        facts = Facts(
            store_v1.StatusResponse(),
            {},
            self._engine.received,
            self._health.why_not_ready,
            self._engine.writer.sync_durations,
            self._loop_lag,
            list(self._queues()),
        )
        async for part in self._reports.parts(""):
            for source in part.sources:
                topic_of(facts.topics, source.information.source.topic).add(source)
            part.ClearField("sources")
            facts.report.MergeFrom(part)
        return exposition(facts)
