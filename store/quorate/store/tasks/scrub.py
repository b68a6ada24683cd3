"""The scrub: reads and checks everything that the store holds, pass after pass.

It finds corruption while other stores still have good copies. Its rate is bounded, and after a
restart it goes on at its last saved place. quorate.store.tasks.repair repairs what it finds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from quorate.protocol.limits import NOTHING
from quorate.protocol.ranges import Range
from quorate.store.engine import Engine
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.maintenance_records import (
    SCRUB_KEY,
    ScrubRecord,
    pack_scrub,
)
from quorate.store.storage.reader import read
from quorate.store.tasks.executor import Apart
from quorate.v1 import store_pb2 as store_v1

BYTES_PER_SECOND_MIN = 1024 * 1024
"""The lowest rate. A pass over few bytes ends early, and rests until the next is due."""
BYTES_PER_SECOND_MAX = 32 * 1024 * 1024
"""The highest rate. A pass over very many bytes takes longer than the interval."""
SAVE_SECONDS = 30.0
"""Seconds from one save of the scrub's place to the next."""
_CHUNK_BYTES = 1024 * 1024
_CHUNK_BATCHES_MAX = 256

Paced = Callable[[int, float], Awaitable[None]]
"""A function that is awaited after each chunk, with its bytes and the seconds that it took."""


class Scrub:
    """The scrub of one store."""

    def __init__(
        self,
        engine: Engine,
        apart: Apart,
        record: ScrubRecord,
        interval_seconds: float,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Make the scrub of a store.

        - record: the saved place of the scrub.
        - interval_seconds: seconds from the begin of one pass to that of the next.
        - clock: the time of day in seconds.
        - steady: a monotonic clock in seconds.
        - sleep: returns after so many seconds.
        """
        self._engine = engine
        self._apart = apart
        self._record = record
        self._interval = interval_seconds
        self._clock = clock
        self._steady = steady
        self._sleep = sleep
        self._saved_at = 0.0
        self._done = 0
        self._resting = False
        self.messages = 0
        """The number of messages read and checked since the start."""
        self.bytes = 0
        """The bytes read and checked since the start."""
        self.unreadable = 0
        """The number of messages found unreadable since the start."""

    async def run(self) -> None:
        """Run pass after pass, until cancelled."""
        if not self._record.began:
            self._record = replace(self._record, began=self._clock())
        while True:
            if self._record.next_sequence != NOTHING:
                await self._rest_of_pass()
                self._record = ScrubRecord(self._record.passes + 1, 0, NOTHING, self._record.began)
                self._save()
            self._resting = True
            # By the wall clock: if that jumps, a pass may come a day early or late.
            due_in = self._record.began + self._interval - self._clock()
            await self._sleep(min(max(0.0, due_in), self._interval))
            self._resting = False
            self._done = 0
            self._record = ScrubRecord(self._record.passes, 0, 0, self._clock())

    def status(self) -> store_v1.ScrubStatus:
        total = sum(state.held.ranges.count() for state in self._engine.core.sources.values())
        part = 1.0 if self._resting or not total else min(1.0, self._done / total)
        return store_v1.ScrubStatus(
            messages=self.messages,
            bytes=self.bytes,
            part=part,
            passes=self._record.passes,
            unreadable=self.unreadable,
        )

    async def _rest_of_pass(self) -> None:
        states = sorted(self._engine.core.sources.values(), key=lambda state: state.reg_id)
        for state in states:
            if state.reg_id < self._record.reg_id:
                self._done += state.held.ranges.count()
                continue
            first = self._record.next_sequence if state.reg_id == self._record.reg_id else 0
            if first:
                self._done += (
                    state.held.ranges.count()
                    - state.held.ranges.minus((Range(0, first - 1),)).count()
                )
            await self.check(state, first, self._slowly)
            self._record = replace(self._record, reg_id=state.reg_id + 1, next_sequence=0)

    async def _slowly(self, size: int, seconds: float) -> None:
        held = sum(state.held.bytes for state in self._engine.core.sources.values())
        # A tenth faster than needed, so that a pass ends before the next is due.
        rate = 1.1 * held / self._interval
        rate = min(max(rate, BYTES_PER_SECOND_MIN), BYTES_PER_SECOND_MAX)
        await self._sleep(max(0.0, size / rate - seconds))

    async def check(self, state: SourceState, first: int, paced: Paced) -> int:
        """Read and check the held batches of a source from first on. Return the messages read.

        paced: awaited after each chunk.
        """
        engine = self._engine
        checked, count = 0, 4
        while True:
            lineage, known = state.lineage, state.as_it_is()
            await engine.written(state)
            # Parts found unreadable before are read again: the error may have passed.
            piece = next(iter(known.held.ranges.minus(_below(first))), None)
            if piece is None:
                return checked
            began = self._steady()
            chunk = await self._apart(
                partial(read, engine.reads, state.reg_id, state.name, piece, count)
            )
            if state.lineage is not lineage:
                continue  # a new epoch began meanwhile: these batches may no longer belong
            if any(batch.problem for batch in chunk) and not state.is_as_readable_as(known):
                continue  # it may have been repaired while it was read
            for batch in chunk:
                if not batch.problem:
                    engine.found_readable(state, batch.part)
                elif engine.found_unreadable(state, batch.part, batch.problem):
                    self.unreadable += len(batch.part)
            first = chunk[-1].part.last + 1
            size = sum(len(batch.frame) for batch in chunk)
            messages = sum(len(batch.part) for batch in chunk)
            checked += messages
            self.messages += messages
            self.bytes += size
            self._done += messages
            count = max(1, min(_CHUNK_BATCHES_MAX, len(chunk) * _CHUNK_BYTES // max(size, 1)))
            if paced == self._slowly:
                self._record = replace(self._record, reg_id=state.reg_id, next_sequence=first)
                if self._steady() >= self._saved_at + SAVE_SECONDS:
                    self._saved_at = self._steady()
                    self._save()
            await paced(size, self._steady() - began)

    def _save(self) -> None:
        row = Write(Table.META, SCRUB_KEY, pack_scrub(self._record))
        self._engine.writer.submit((row,), sync=False)


def _below(first: int) -> tuple[Range, ...]:
    return (Range(0, first - 1),) if first else ()
