"""The call Locate: where in a source's stream a time is, by halving over the batches that are held.

Needs no index by time: a search reads a few dozen batches. Reads only.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import check_batch
from quorate.protocol.identity import SourceName
from quorate.store.engine import Engine
from quorate.store.storage.index import entries
from quorate.store.storage.interface import (
    Reads,
    Table,
)
from quorate.store.storage.records import (
    IndexEntry,
    position_key,
)


async def locate(engine: Engine, executor: Executor, source: SourceName, time_ns: int) -> int:
    """The first sequence number that may have been sent at that time or later.

    All that is held below it was sent before. Raises UnknownTopic, StorageFailed, CorruptBatch.
    """
    state = engine.receivers.source(source)
    until = state.held.ranges.high + 1
    await engine.written(state)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        executor, first_since, engine.reads, state.reg_id, until, time_ns
    )


def first_since(reads: Reads, reg_id: int, until: int, time_ns: int) -> int:
    """Of the batches below `until`; raises StorageFailed, CorruptBatch."""
    first = 0
    while first < until:
        middle = (first + until) // 2
        entry = next(entries(reads, reg_id, middle, until - 1, 1), None)
        if entry is None:
            until = middle
        elif _sent(reads, entry) >= time_ns:
            # What may be lacking in front of it may be of that time, too.
            until = min(middle, entry.first)
        else:
            first = entry.last + 1
    return first


def _sent(reads: Reads, entry: IndexEntry) -> int:
    frame = reads.get(Table.JOURNAL, [position_key(entry.position)])[0]
    if frame is None:
        raise CorruptBatch("in the journal", f"nothing is at {entry.position}")
    return check_batch(frame, "in the journal").timestamp_ns
