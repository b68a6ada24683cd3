"""The call Fetch: batches out of the journal, in the order of their sequence numbers.

Reads happen in other threads, a bounded chunk at a time; the next chunk is read when the client has
taken the last. A batch that can not be vouched for is reported as unknown, never served and never
reported as absent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor
from itertools import islice

from quorate.protocol.errors import CorruptBatch, QuorateError, StorageFailed
from quorate.protocol.framing import check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range
from quorate.store import batches
from quorate.store.engine import Engine
from quorate.store.records import IndexEntry, position_key
from quorate.store.state import SourceState
from quorate.store.storage import Reads, Table
from quorate.v1 import messages_pb2 as v1

_log = logging.getLogger("quorate.store.fetch")

_CHUNK_BYTES = 1024 * 1024
_CHUNK_BATCHES_MAX = 256
_CHUNK_BATCHES_FIRST = 4


async def fetch(
    engine: Engine, executor: Executor, source: SourceName, first: int, last: int
) -> AsyncIterator[v1.FetchResponse]:
    """What is held of [first, last], what is not, and where it ends.

    Raises UnknownTopic, StorageFailed.
    """
    loop = asyncio.get_running_loop()
    state = engine.receivers.source(source)
    await engine.settled(state)
    lineage, high = state.lineage, state.held.ranges.high
    count = _CHUNK_BATCHES_FIRST
    while first <= min(last, high):
        if state.lineage is not lineage:
            await engine.settled(state)
            lineage, high = state.lineage, state.held.ranges.high
            continue
        piece, is_held = state.piece(first, min(last, high))
        if not is_held:
            yield _missing(piece, v1.LOOKUP_ABSENT, f"store {engine.core.store} lacks it")
            first = piece.last + 1
            continue
        chunk = await loop.run_in_executor(
            executor, _read, engine.reads, state.reg_id, source, piece, count
        )
        if state.lineage is not lineage:
            continue  # a new epoch began meanwhile: what was read may no longer belong
        for response in chunk:
            yield response
        first = _end(chunk[-1]) + 1
        size = sum(len(response.fetched.batch) for response in chunk)
        count = max(1, min(_CHUNK_BATCHES_MAX, len(chunk) * _CHUNK_BYTES // max(size, 1)))
    yield _end_of(state)


def _end_of(state: SourceState) -> v1.FetchResponse:
    held = state.held
    return v1.FetchResponse(end=v1.FetchEnd(high=held.ranges.high, stable_upto=held.stable_upto))


def _end(response: v1.FetchResponse) -> int:
    if response.WhichOneof("kind") == "fetched":
        return response.fetched.last
    return response.missing.last


def _missing(where: Range, why: v1.Lookup, detail: str) -> v1.FetchResponse:
    return v1.FetchResponse(
        missing=v1.Missing(first=where.first, last=where.last, why=why, detail=detail)
    )


def _read(
    reads: Reads, reg_id: int, source: SourceName, wanted: Range, count: int
) -> list[v1.FetchResponse]:
    """Answers for the beginning of a range that is held, from at most so many batches."""
    try:
        rows = batches.entries(reads, reg_id, wanted.first, wanted.last, count + 1)
        entries = list(islice(rows, count))
    except QuorateError as error:
        return [_unknown(source, wanted, str(error))]
    answers: list[v1.FetchResponse] = []
    first = wanted.first
    for entry, found in zip(entries, _values(reads, entries), strict=True):
        if entry.first > first:
            gap = Range(first, entry.first - 1)
            answers.append(_unknown(source, gap, "it is held, but not in the index"))
        part = Range(max(first, entry.first), min(entry.last, wanted.last))
        answers.append(_answer(source, entry, found, part))
        first = part.last + 1
    if len(entries) < count and first <= wanted.last:
        gap = Range(first, wanted.last)
        answers.append(_unknown(source, gap, "it is held, but not in the index"))
    return answers


def _answer(
    source: SourceName, entry: IndexEntry, found: bytes | QuorateError | None, part: Range
) -> v1.FetchResponse:
    if found is None:
        return _unknown(source, part, "it is not in the journal")
    if isinstance(found, QuorateError):
        return _unknown(source, part, str(found))
    try:
        header = check_batch(found, "in the journal")
    except CorruptBatch as error:
        return _unknown(source, part, str(error))
    if (header.source, header.epoch, header.first) != (source, entry.epoch, entry.first):
        return _unknown(source, part, f"the journal has {header.source} [{header.first}, …] there")
    return v1.FetchResponse(fetched=v1.Fetched(batch=found, first=part.first, last=part.last))


def _values(reads: Reads, entries: Sequence[IndexEntry]) -> list[bytes | QuorateError | None]:
    keys = [position_key(entry.position) for entry in entries]
    try:
        return list(reads.get(Table.JOURNAL, keys))
    except StorageFailed:
        return [_value(reads, key) for key in keys]


def _value(reads: Reads, key: bytes) -> bytes | QuorateError | None:
    try:
        return reads.get(Table.JOURNAL, [key])[0]
    except StorageFailed as error:
        return CorruptBatch("in the journal", error.detail)


def _unknown(source: SourceName, where: Range, detail: str) -> v1.FetchResponse:
    _log.error("%s %s is held but can not be read: %s", source, where, detail)
    return _missing(where, v1.LOOKUP_UNKNOWN, detail)
