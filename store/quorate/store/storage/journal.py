"""Reads of the journal in its own order. Nothing is written here, and nothing repaired."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import BatchHeader, check_batch
from quorate.store.storage.interface import Reads, Table
from quorate.store.storage.large_batches import LargeRow, large_row
from quorate.store.storage.records import position_key, position_of

POSITION_MAX = 2**64 - 1
_SCANNED_ROWS = 16
"""Few: a row may have as many bytes as a batch may."""


@dataclass(frozen=True, slots=True)
class JournalRow:
    """A batch at its place in the journal."""

    position: int
    header: BatchHeader | None
    """The header of the batch; None: the row is unreadable."""
    frame: bytes
    """The batch, checked; empty if it is a large one."""
    large: LargeRow | None = None
    """The row of a large batch, which was not read."""


def rows_from(
    reads: Reads, position: int, rows_max: int, bytes_max: int, end: int = POSITION_MAX
) -> tuple[list[JournalRow], bool]:
    """Return rows at this position or behind it, in order, and whether no row follows them.

    The rows are at most so many, and end soon behind so many bytes. end: no row is read at this
    position or behind it. Raises StorageFailed.
    """
    if position >= end:
        return [], True
    last = position_key(end - 1)
    found: list[JournalRow] = []
    size = 0
    while len(found) < rows_max and size < bytes_max:
        rows = reads.scan(Table.JOURNAL, position_key(position), last, _SCANNED_ROWS)
        found += (_row(position_of(key), value) for key, value in rows)
        if len(rows) < _SCANNED_ROWS:
            return found, True
        size += sum(len(value) for _, value in rows)
        position = found[-1].position + 1
    return found, False


def _row(position: int, value: bytes) -> JournalRow:
    try:
        large = large_row(value)
        if large is not None:
            return JournalRow(position, large.header, b"", large)
        return JournalRow(position, check_batch(value, "in the journal"), value)
    except CorruptBatch:
        return JournalRow(position, None, b"")
