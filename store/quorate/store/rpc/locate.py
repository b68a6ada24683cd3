"""The call Locate: finds the sequence number of a time, by binary search over the held batches.

A batch has the least time of its messages, so the batch before the first later one may have later
messages, too. A search reads a few dozen batches, so there is no index by time. Nothing is written
here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import body_of, check_batch
from quorate.protocol.identity import SourceName
from quorate.store.engine import Engine
from quorate.store.storage.index import entries
from quorate.store.storage.interface import (
    Reads,
    Table,
)
from quorate.store.storage.large_batches import large_row
from quorate.store.storage.records import (
    IndexEntry,
    position_key,
)


async def locate(engine: Engine, executor: Executor, source: SourceName, time_ns: int) -> int:
    """Return the first sequence number that may have been sent at that time or later.

    All held messages below it were sent before. Raises UnknownTopic, StorageFailed, CorruptBatch.
    """
    state = engine.receivers.source(source)
    until = state.held.ranges.high + 1
    await engine.written(state)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        executor, first_since, engine.reads, state.reg_id, until, time_ns
    )


def first_since(reads: Reads, reg_id: int, until: int, time_ns: int) -> int:
    """Search the batches below `until`, as `locate` does. Raises StorageFailed, CorruptBatch."""
    first = 0
    while first < until:
        middle = (first + until) // 2
        entry = next(entries(reads, reg_id, middle, until - 1, 1), None)
        if entry is None:
            until = middle
        elif _sent(reads, entry) >= time_ns:
            # Missing messages in front of the batch may be of that time, too.
            until = min(middle, entry.first)
        else:
            first = entry.last + 1
    before = next(entries(reads, reg_id, first - 1, first - 1, 1), None) if first else None
    return first if before is None else _since_in(reads, before, time_ns)


def _sent(reads: Reads, entry: IndexEntry) -> int:
    """Return the time of a batch, which is the least of its messages."""
    frame = _frame(reads, entry)
    if (large := large_row(frame)) is not None:
        return large.header.timestamp_ns
    return check_batch(frame, "in the journal").timestamp_ns


def _since_in(reads: Reads, entry: IndexEntry, time_ns: int) -> int:
    """Return the first number of a batch of that time or later; the next one if there is none."""
    frame = _frame(reads, entry)
    if large_row(frame) is None:  # a large one has one message, whose time is before
        header = check_batch(frame, "in the journal")
        times = body_of(frame, header).read_times(header.timestamp_ns)
        for number in range(entry.first, entry.last + 1):
            if times[number - header.first] >= time_ns:
                return number
    return entry.last + 1


def _frame(reads: Reads, entry: IndexEntry) -> bytes:
    frame = reads.get(Table.JOURNAL, [position_key(entry.position)])[0]
    if frame is None:
        raise CorruptBatch("in the journal", f"there is no batch at position {entry.position}")
    return frame
