"""Batches that a store holds already: finding them, comparing them, moving them aside.

The index says, for each source, which batch serves which numbers: its rows never overlap, and
together they are what is held. A batch that came with numbers that were held already serves only
the others; it may have several rows. Reads only; what is to be written is handed back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quorate.protocol.errors import CorruptBatch, StorageFailed
from quorate.protocol.framing import BatchHeader, check_batch, same_content
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.records import (
    IndexEntry,
    Malformed,
    index_key,
    pack_index,
    position_key,
    set_aside_key,
    unpack_index,
)
from quorate.store.storage import Reads, Row, Table, Write


def entries(
    reads: Reads, reg_id: int, first: int, last: int, rows_at_once: int = 1024
) -> Iterator[IndexEntry]:
    """The batches that have numbers of [first, last], ascending.

    Raises StorageFailed, CorruptBatch.
    """
    before = reads.at_or_before(Table.INDEX, index_key(reg_id, first))
    if before is not None and before[0] >= index_key(reg_id, 0):
        entry = _entry(before)
        if entry.last >= first:
            yield entry
    key, end = index_key(reg_id, first + 1), index_key(reg_id, last)
    while rows := reads.scan(Table.INDEX, key, end, rows_at_once):
        yield from map(_entry, rows)
        key = rows[-1][0] + b"\0"


def _entry(row: Row) -> IndexEntry:
    try:
        return unpack_index(*row)
    except Malformed as error:
        raise CorruptBatch("in the index", str(error)) from None


@dataclass(frozen=True, slots=True)
class Compared:
    """How a batch compares with what is held of its numbers."""

    conflict: Range | None
    """Numbers with other content, if there are any."""
    agreed: RangeSet
    """Numbers that are held and read well; of what is missing here a good copy is still needed."""


def compare(reads: Reads, reg_id: int, header: BatchHeader, frame: bytes, last: int) -> Compared:
    """Compare a batch, as far as `last`, with all that is held of its numbers."""
    agreed = RangeSet()
    for entry in entries(reads, reg_id, header.first, last):
        part = Range(max(entry.first, header.first), min(entry.last, last))
        try:
            value = reads.get(Table.JOURNAL, [position_key(entry.position)])[0]
            if value is None:
                continue
            check_batch(value, "in the journal")
            same = same_content(frame, value)
        except (CorruptBatch, StorageFailed):
            continue  # a copy that can not be read says nothing
        if not same:
            return Compared(part, agreed)
        agreed.add(part.first, part.last)
    return Compared(None, agreed)


def serve(
    reads: Reads, reg_id: int, parts: Iterable[Range], position: int, header: BatchHeader
) -> list[Write]:
    """Have a batch serve these parts of it, instead of what serves any of their numbers now."""
    writes: list[Write] = []
    for part in parts:
        for entry in entries(reads, reg_id, part.first, part.last):
            writes += cut_out(reg_id, entry, part)
        writes.append(_row(reg_id, part, position, header.epoch, header.checksum))
    return writes


def cut_out(reg_id: int, entry: IndexEntry, part: Range) -> list[Write]:
    """Leave a row what it serves outside of a part."""
    writes = [Write(Table.INDEX, index_key(reg_id, entry.first), None)]
    for first, last in ((entry.first, part.first - 1), (part.last + 1, entry.last)):
        if first <= last:
            rest = Range(first, last)
            writes.append(_row(reg_id, rest, entry.position, entry.epoch, entry.checksum))
    return writes


def _row(reg_id: int, part: Range, position: int, epoch: int, checksum: int) -> Write:
    value = pack_index(position, part.last, epoch, checksum)
    return Write(Table.INDEX, index_key(reg_id, part.first), value)


def moves_aside(reads: Reads, reg_id: int, first: int) -> list[Write]:
    """Move every batch, or part of one, from first on out of the index."""
    writes: list[Write] = []
    for entry in entries(reads, reg_id, first, SEQUENCE_MAX):
        begins = max(entry.first, first)
        key = set_aside_key(reg_id, entry.epoch, begins)
        row = pack_index(entry.position, entry.last, entry.epoch, entry.checksum)
        writes.append(Write(Table.SET_ASIDE, key, row))
        writes += cut_out(reg_id, entry, Range(begins, entry.last))
    return writes
