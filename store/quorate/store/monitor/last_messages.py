"""The last stable messages of a topic, as this store has them: few, and cut to a bounded size."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from quorate.protocol.attributes import Attributes
from quorate.protocol.errors import QuorateError
from quorate.protocol.framing import body_of, read_contents, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.ranges import Range
from quorate.protocol.times import moment_of
from quorate.store.engine import Engine
from quorate.store.storage.interface import Reads
from quorate.store.storage.reader import StoredBatch, read_rows

COUNT_MAX = 100
"""The messages of one answer."""
SHOWN_BYTES_MAX = 2048
"""The bytes of a key, a property or a payload that are shown."""
PROPERTIES_MAX = 8
"""The properties of a message that are shown."""
SOURCES_MAX = 50
"""The sources of a topic that are read: those that sent most."""
READ_BYTES_MAX = 16 * 1024 * 1024
"""The bytes of batches that are read for one answer."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The last stable messages of one source."""

    name: SourceName
    reg_id: int
    numbers: Range


class LastMessages:
    """The last messages of each topic of a store."""

    def __init__(self, engine: Engine, executor: Executor) -> None:
        """Remember where to read."""
        self._engine = engine
        self._executor = executor
        self._reading = asyncio.Lock()
        """One answer is made at a time, whatever the number of lookers."""

    async def __call__(self, topic: str, count: int) -> list[dict[str, Any]]:
        """Return so many of the last messages of a topic, the newest first.

        Raises StorageFailed.
        """
        stretches = self._stretches(topic, min(count, COUNT_MAX))
        async with self._reading:
            return await asyncio.get_running_loop().run_in_executor(
                self._executor, _rows, self._engine.reads, stretches, count
            )

    def _stretches(self, topic: str, count: int) -> list[_Stretch]:
        """Return what to read of each source that the store vouches for."""
        found = []
        for state in self._engine.core.sources.values():
            held = state.held
            last = min(held.stable_upto, held.ranges.high)
            if state.name.topic != topic or last == NOTHING or self._engine.core.limbo_of(state):
                continue
            first = max(held.ranges.low, last - count + 1)
            if first <= last:
                found.append(_Stretch(state.name, state.reg_id, Range(first, last)))
        return heapq.nlargest(SOURCES_MAX, found, key=lambda each: each.numbers.last)


# In a thread.


def _rows(reads: Reads, stretches: Sequence[_Stretch], count: int) -> list[dict[str, Any]]:
    left = READ_BYTES_MAX
    found: list[tuple[int, dict[str, Any]]] = []
    for stretch in stretches:
        numbers = stretch.numbers
        batches = read_rows(reads, stretch.reg_id, stretch.name, numbers, len(numbers))
        for batch in reversed(batches):
            left -= batch.size
            if left < 0:
                break
            found += _messages(stretch.name, batch)
    newest = heapq.nlargest(count, found, key=lambda each: (each[0], each[1]["sequence"]))
    return [row for _, row in newest]


def _messages(source: SourceName, batch: StoredBatch) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the time and the row of each message of a batch. One that is not read has none."""
    if not batch.frame:
        return
    part, frame = batch.part, batch.frame
    try:
        header = read_header(frame)
        contents = read_contents(frame, header, part.first, part.last)
        times = body_of(frame, header).read_times(header.timestamp_ns)
    except QuorateError:
        return
    at = part.first - header.first
    for number, (time_ns, (payload, attributes)) in enumerate(
        zip(times[at:], contents, strict=False), part.first
    ):
        yield time_ns, _row(source, number, time_ns, payload, attributes)


def _row(
    source: SourceName, sequence: int, time_ns: int, payload: bytes, attributes: Attributes
) -> dict[str, Any]:
    properties = list(attributes.properties.items())[:PROPERTIES_MAX]
    return {
        "session": f"{source.session_id:#x}",
        "sequence": sequence,
        "time": moment_of(time_ns).isoformat(),
        "key": None if attributes.key is None else shown(attributes.key),
        "properties": {name: shown(value) for name, value in properties},
        "deletes": attributes.deleted,
        "payload": shown(payload),
        "bytes": len(payload),
    }


def shown(value: bytes) -> dict[str, Any]:
    """Return bytes as text, or else as hex, and whether the end is cut off."""
    is_cut = len(value) > SHOWN_BYTES_MAX
    part = value[:SHOWN_BYTES_MAX]
    # A character may be cut in two: at most three bytes of it are left out.
    for fewer in range(4 if is_cut else 1):
        try:
            return {"text": part[: len(part) - fewer].decode(), "is_cut": is_cut}
        except UnicodeDecodeError:
            continue
    return {"hex": part.hex(" "), "is_cut": is_cut}
