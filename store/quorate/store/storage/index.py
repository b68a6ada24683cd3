"""The index of the journal: finds the held batches of a source, compares them, sets them aside.

Each row of the index names the batch that serves a range of a source's numbers. Rows of a source
never overlap; together they are what the store holds. A batch that came with numbers already held
serves only its other numbers, and may have several rows. Functions here only read, and return the
rows to write. Which batches may be taken, set aside or let go is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from quorate.protocol.errors import CorruptBatch, StorageFailed, StorageUnreadable
from quorate.protocol.fragments import Batch, same_messages
from quorate.protocol.framing import BatchHeader, check_batch
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.storage.interface import (
    Reads,
    Row,
    Table,
    Write,
)
from quorate.store.storage.large_batches import (
    LargeRow,
    large_row,
    load_large,
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
    """Yield the batches that serve numbers of [first, last], ascending.

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
    """The result of comparing a batch with the held batches of its numbers."""

    conflict: Range | None
    """Numbers with different content; None if there are none."""
    agreed: RangeSet
    """Numbers that are held here, readable, and of the same content."""


def compare(reads: Reads, reg_id: int, header: BatchHeader, frame: Batch, last: int) -> Compared:
    """Compare a batch, as far as `last`, with the held batches of its numbers."""
    agreed = RangeSet()
    for entry in entries(reads, reg_id, header.first, last):
        part = Range(max(entry.first, header.first), min(entry.last, last))
        try:
            value = reads.get(Table.JOURNAL, [position_key(entry.position)])[0]
            if value is None:
                continue
            same = _same_messages(reads, frame, value)
        except (CorruptBatch, StorageFailed):
            continue  # an unreadable copy proves nothing
        if not same:
            return Compared(part, agreed)
        agreed.add(part.first, part.last)
    return Compared(None, agreed)


def _same_messages(reads: Reads, batch: Batch, value: bytes) -> bool:
    """Return whether a batch agrees with the one of this row of the journal.

    Raises CorruptBatch, StorageFailed: the batch of the row is unreadable.
    """
    if row := large_row(value):
        return same_messages(batch, load_large(reads, row))
    check_batch(value, "in the journal")
    return same_messages(batch, value)


def compare_large(reads: Reads, reg_id: int, arrived: LargeRow) -> Compared:
    """Compare a large batch, all fragments of which are readable, with what is held of its number.

    The call takes long; it is not for the event loop. Raises StorageFailed, CorruptBatch.
    """
    batch = load_large(reads, arrived)
    return compare(reads, reg_id, batch.header, batch, batch.header.last)


def serve(
    reads: Reads, reg_id: int, parts: Iterable[Range], position: int, header: BatchHeader
) -> list[Write]:
    """Return the rows that let a batch serve these parts of it.

    They replace whatever serves any of these numbers now.
    """
    writes: list[Write] = []
    for part in parts:
        for entry in entries(reads, reg_id, part.first, part.last):
            writes += cut_out(reg_id, entry, part)
        writes.append(_row(reg_id, part, position, header.epoch, header.checksum))
    return writes


def cut_out(reg_id: int, entry: IndexEntry, part: Range) -> list[Write]:
    """Return the rows that take a part out of an index entry.

    The entry keeps its numbers before and after the part. If none is left its batch may leave the
    journal.
    """
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
    """Return the row that releases a batch. It leaves the journal if no other row names it.

    size: as in IndexEntry; 0: other rows may name the batch.
    """
    return Write(Table.RELEASED, position_key(position), pack_released(reg_id, size))


def leaving_bytes(writes: Iterable[Write]) -> int:
    """Return how many bytes of the journal these rows release for certain."""
    released = (unpack_released(write.value) for write in writes if write.value is not None
                and write.table is Table.RELEASED)  # fmt: skip
    return sum(size for _, size in released)


def is_referred_to(reads: Reads, reg_id: int, position: int, numbers: Range) -> bool:
    """Return whether a row of the index, or one set aside, names the batch of these numbers.

    Raises StorageFailed, CorruptBatch.
    """
    rows = entries(reads, reg_id, numbers.first, numbers.last)
    if any(entry.position == position for entry in rows):
        return True
    return any(entry.position == position for _, entry in aside(reads, reg_id))


def aside(reads: Reads, reg_id: int) -> Iterator[tuple[bytes, IndexEntry]]:
    """Yield every row of a source that was set aside, with its key."""
    key, end = set_aside_key(reg_id, 0, 0), set_aside_key(reg_id, _HIGHEST, _HIGHEST)
    while rows := reads.scan(Table.SET_ASIDE, key, end, 1024):
        for row in rows:
            yield row[0], _aside_entry(row)
        key = rows[-1][0] + b"\0"


def rows_of(
    reads: Reads, reg_id: int, rows_max: int
) -> Iterator[tuple[Table, bytes, int | None, int]]:
    """Yield at most rows_max rows of the index, and as many that were set aside.

    Each comes with its table, its key, and the position and size of the batch. The position is None
    if the row is unreadable. Raises StorageFailed.
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


def moves_aside(reads: Reads, reg_id: int, first: int, last: int = SEQUENCE_MAX) -> list[Write]:
    """Return the rows that set everything of [first, last] aside."""
    writes: list[Write] = []
    for entry in entries(reads, reg_id, first, last):
        part = Range(max(entry.first, first), min(entry.last, last))
        key = set_aside_key(reg_id, entry.epoch, part.first)
        size = entry.size if part == Range(entry.first, entry.last) else 0
        row = pack_index(entry.position, part.last, entry.epoch, entry.checksum, size)
        writes += _no_longer_aside(reads, reg_id, key, entry.position)
        writes.append(Write(Table.SET_ASIDE, key, row))
        # The batch stays in the journal: the row that was set aside names it.
        writes += _without(reg_id, entry, part)
    return writes


def _no_longer_aside(reads: Reads, reg_id: int, key: bytes, position: int) -> list[Write]:
    """Return the row that releases the batch set aside under this key before, if it is another.

    There is one if a later epoch had kept these numbers, so that they came again.
    """
    # An unreadable row must not keep an epoch from beginning: its batch just stays.
    with suppress(CorruptBatch, StorageUnreadable):
        value = reads.get(Table.SET_ASIDE, [key])[0]
        if value is not None and (former := _aside_entry((key, value))).position != position:
            return [may_leave(reg_id, former.position, 0)]
    return []
