"""A large batch that comes from a peer or an archive: its fragments go to the writer at once.

The caller decides at what pace, and whether the batch is taken once all of it has come.
"""

from __future__ import annotations

from quorate.store.engine import Engine
from quorate.store.rules.arrivals import Arrival
from quorate.store.rules.source_state import SourceState


class LargeIntake:
    """The large batches of one source that come in one after the other."""

    def __init__(self, engine: Engine, state: SourceState, where: str) -> None:
        """where: the place that the fragments come from, for errors."""
        self._engine = engine
        self._state = state
        self.where = where
        self._arrival: Arrival | None = None
        self.commit = 0
        """The number of the last commit that has a fragment."""

    def take(self, at: int, size: int, data: bytes) -> Arrival | None:
        """Take a fragment, and return the batch if all of it has come.

        A fragment at 0 begins a batch; one that follows no other is left out. The caller then
        submits the rows of the batch, or has them removed. Raises CorruptBatch, StorageFailed.
        """
        if not at:
            self.drop()
            self._arrival = self._engine.core.streams.arrival(self.where)
        if (arrival := self._arrival) is None:
            return None
        writes = arrival.take(at, size, data)
        self.commit = self._engine.submit(self._state, writes, sync=False)
        if not arrival.is_whole:
            return None
        self._arrival = None
        return arrival

    def drop(self) -> None:
        """Remove the fragments of a batch that broke off, if there is one."""
        arrival, self._arrival = self._arrival, None
        if arrival is not None:
            self.remove(arrival)

    def remove(self, arrival: Arrival) -> None:
        """Remove the fragments of a batch that is not taken."""
        if self._engine.writer.failure is None:
            self._engine.writer.submit(arrival.removed(), sync=False)
