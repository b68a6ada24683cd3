"""Batches that a store holds already: finding them, comparing them, moving them aside.

The index says, for each source, which batch serves which numbers: its rows never overlap, and
together they are what is held. A batch that came with numbers that were held already serves only
the others; it may have several rows. Reads only; what is to be written is handed back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from quorate.protocol.errors import CorruptBatch, StorageFailed, StorageUnreadable
from quorate.protocol.framing import BatchHeader, check_batch, same_content
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.storage.interface import (
    Reads,
    Row,
    Table,
    Write,
)
from quorate.store.storage.records import (
    IndexEntry,
    Malformed,
    index_key,
    pack_index,
    pack_released,
    position_key,
    set_aside_key,
    unpack_index,
    unpack_released,
)

_HIGHEST = 2**64 - 1


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
    """Leave a row what it serves outside of a part; if that is nothing the batch may leave."""
    rows = _without(reg_id, entry, part)
    return [*rows, may_leave(reg_id, entry.position, entry.size if len(rows) == 1 else 0)]


def _without(reg_id: int, entry: IndexEntry, part: Range) -> list[Write]:
    writes = [Write(Table.INDEX, index_key(reg_id, entry.first), None)]
    for first, last in ((entry.first, part.first - 1), (part.last + 1, entry.last)):
        if first <= last:
            rest = Range(first, last)
            writes.append(_row(reg_id, rest, entry.position, entry.epoch, entry.checksum))
    return writes


def may_leave(reg_id: int, position: int, size: int) -> Write:
    """Note that a row that named a batch has gone: it leaves the journal if that was the last.

    size: as in IndexEntry; 0: it has to be looked for others.
    """
    return Write(Table.RELEASED, position_key(position), pack_released(reg_id, size))


def leaving_bytes(writes: Iterable[Write]) -> int:
    """How many bytes of the journal these rows let go for certain."""
    released = (unpack_released(write.value) for write in writes if write.value is not None
                and write.table is Table.RELEASED)  # fmt: skip
    return sum(size for _, size in released)


def is_referred_to(reads: Reads, reg_id: int, position: int, numbers: Range) -> bool:
    """Whether a row of the index, or one set aside, names the batch of these numbers.

    Raises StorageFailed, CorruptBatch.
    """
    rows = entries(reads, reg_id, numbers.first, numbers.last)
    if any(entry.position == position for entry in rows):
        return True
    return any(entry.position == position for _, entry in aside(reads, reg_id))


def aside(reads: Reads, reg_id: int) -> Iterator[tuple[bytes, IndexEntry]]:
    """Every row of a source that was set aside, with its key."""
    key, end = set_aside_key(reg_id, 0, 0), set_aside_key(reg_id, _HIGHEST, _HIGHEST)
    while rows := reads.scan(Table.SET_ASIDE, key, end, 1024):
        for row in rows:
            yield row[0], _aside_entry(row)
        key = rows[-1][0] + b"\0"


def rows_of(
    reads: Reads, reg_id: int, rows_max: int
) -> Iterator[tuple[Table, bytes, int | None, int]]:
    """Rows of the index, and as many set aside: table, key, position and size of the batch.

    The position is None if the row can not be read. Raises StorageFailed.
    """
    index = reads.scan(Table.INDEX, index_key(reg_id, 0), index_key(reg_id, _HIGHEST), rows_max)
    lowest, highest = set_aside_key(reg_id, 0, 0), set_aside_key(reg_id, _HIGHEST, _HIGHEST)
    aside = reads.scan(Table.SET_ASIDE, lowest, highest, rows_max)
    for table, rows, read in ((Table.INDEX, index, _entry), (Table.SET_ASIDE, aside, _aside_entry)):
        for row in rows:
            try:
                entry = read(row)
            except CorruptBatch:
                yield table, row[0], None, 0
            else:
                yield table, row[0], entry.position, entry.size


def _aside_entry(row: Row) -> IndexEntry:
    # Its key has the epoch between the RegID and the number.
    key, value = row
    return _entry((key[:8] + key[16:], value))


def _row(reg_id: int, part: Range, position: int, epoch: int, checksum: int) -> Write:
    value = pack_index(position, part.last, epoch, checksum)
    return Write(Table.INDEX, index_key(reg_id, part.first), value)


def moves_aside(reads: Reads, reg_id: int, first: int) -> list[Write]:
    """Move every batch, or part of one, from first on out of the index."""
    writes: list[Write] = []
    for entry in entries(reads, reg_id, first, SEQUENCE_MAX):
        begins = max(entry.first, first)
        key = set_aside_key(reg_id, entry.epoch, begins)
        size = entry.size if begins == entry.first else 0
        row = pack_index(entry.position, entry.last, entry.epoch, entry.checksum, size)
        writes += _no_longer_aside(reads, reg_id, key, entry.position)
        writes.append(Write(Table.SET_ASIDE, key, row))
        # The batch stays: what was set aside refers to it.
        writes += _without(reg_id, entry, Range(begins, entry.last))
    return writes


def _no_longer_aside(reads: Reads, reg_id: int, key: bytes, position: int) -> list[Write]:
    """The batch that was set aside under this key before may leave, if it is another one: a later
    epoch had kept the same numbers, so that they came again."""
    # What was set aside keeps nobody from beginning: if it can not be read its batch stays.
    with suppress(CorruptBatch, StorageUnreadable):
        value = reads.get(Table.SET_ASIDE, [key])[0]
        if value is not None and (former := _aside_entry((key, value))).position != position:
            return [may_leave(reg_id, former.position, 0)]
    return []
