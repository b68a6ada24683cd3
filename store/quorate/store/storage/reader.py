"""Checked reads of the journal's batches. A bad batch comes as a problem, without its frame.

The running store and quorate.store.offline use it. Nothing is written here, and nothing repaired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from quorate.protocol.errors import CorruptBatch, QuorateError, StorageFailed
from quorate.protocol.framing import BatchHeader, check_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range
from quorate.store.storage.index import (
    aside,
    entries,
)
from quorate.store.storage.interface import (
    Reads,
    Table,
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
    position_key,
    unpack_index,
)

_LOST = "it is held, but not in the index"


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch of the journal, or the problem with it."""

    part: Range
    """The numbers of the batch that were asked for and belong to the stream. It may have others."""
    frame: bytes
    """The batch as the source made it; empty if there is a problem."""
    problem: str = ""
    """Why the batch cannot be served; empty: it can."""
    large: LargeRow | None = None
    """The row of a large batch that was not read, and so not checked, yet; None: there is none."""

    @property
    def size(self) -> int:
        """The bytes of the batch; 0: they are unknown."""
        return self.large.size if self.large is not None else len(self.frame)


def oldest_and_newest(reads: Reads, reg_id: int) -> list[BatchHeader]:
    """Return the headers of the first and of the last batch of a stream; none of an unreadable one.

    Raises StorageFailed.
    """
    low, high = index_key(reg_id, 0), index_key(reg_id, SEQUENCE_MAX)
    oldest = reads.scan(Table.INDEX, low, high, 1)
    newest = reads.at_or_before(Table.INDEX, high)
    if not oldest or newest is None:
        return []
    try:
        keys = [position_key(unpack_index(*row).position) for row in (oldest[0], newest)]
        return [_header(value) for value in reads.get(Table.JOURNAL, keys) if value is not None]
    except (Malformed, CorruptBatch):
        return []


def _header(value: bytes) -> BatchHeader:
    large = large_row(value)
    return large.header if large is not None else read_header(value, "in the journal")


def read(
    reads: Reads, reg_id: int, source: SourceName, wanted: Range, count: int
) -> list[StoredBatch]:
    """Return the beginning of a held range, from at most count batches; never an empty list.

    A large batch is the last one, so that no two are in memory. Reading it takes long; a caller on
    an event loop takes `read_rows`.
    """
    stored: list[StoredBatch] = []
    for each in read_rows(reads, reg_id, source, wanted, count):
        stored.append(_loaded(reads, each))
        if each.large is not None:
            break
    return stored


def _loaded(reads: Reads, stored: StoredBatch) -> StoredBatch:
    if stored.large is None:
        return stored
    try:
        return StoredBatch(stored.part, load_large(reads, stored.large).joined())
    except StorageFailed as error:
        return StoredBatch(stored.part, b"", error.detail)
    except CorruptBatch as error:
        return StoredBatch(stored.part, b"", str(error))


def read_rows(
    reads: Reads, reg_id: int, source: SourceName, wanted: Range, count: int
) -> list[StoredBatch]:
    """Return what `read` returns, but of a large batch only its row.

    Several large batches may be among them. The fragments of a large batch are to be checked by
    whoever reads them.
    """
    try:
        rows = entries(reads, reg_id, wanted.first, wanted.last, count + 1)
        found = list(islice(rows, count))
    except QuorateError as error:
        return [StoredBatch(wanted, b"", str(error))]
    stored: list[StoredBatch] = []
    first = wanted.first
    for entry, value in zip(found, _values(reads, found), strict=True):
        if entry.first > first:
            stored.append(StoredBatch(Range(first, entry.first - 1), b"", _LOST))
        if stored and entry.first < first:
            stored.append(_named_twice(stored, entry, wanted.last))
        else:
            part = Range(max(first, entry.first), min(entry.last, wanted.last))
            stored.append(_checked(source, entry, value, part))
        first = stored[-1].part.last + 1
    if len(found) < count and first <= wanted.last:
        stored.append(StoredBatch(Range(first, wanted.last), b"", _LOST))
    return stored


def passed_upto(reads: Reads, reg_id: int, wanted: Range, journal_at: int, batches_max: int) -> int:
    """Return the last number of a range up to which all batches are before a place in the journal.

    No more than so many batches are looked at. Raises StorageFailed, CorruptBatch.
    """
    upto = wanted.first - 1
    for number, entry in enumerate(entries(reads, reg_id, wanted.first, wanted.last, 64)):
        if entry.first > upto + 1 or entry.position >= journal_at or number >= batches_max:
            break
        upto = min(entry.last, wanted.last)
    return upto


@dataclass(frozen=True, slots=True)
class SetAside:
    """A batch, or a part of one, that a later epoch did not keep."""

    epoch: int
    """The epoch in which the batch was sent."""
    batch: StoredBatch


def read_aside(reads: Reads, reg_id: int, source: SourceName) -> Iterator[SetAside]:
    """Yield everything of a source that was set aside and is still there, by epoch and number.

    Raises StorageFailed, or CorruptBatch at an unreadable row.
    """
    for _, entry in aside(reads, reg_id):
        (value,) = _values(reads, [entry])
        part = Range(entry.first, entry.last)
        yield SetAside(entry.epoch, _loaded(reads, _checked(source, entry, value, part)))


def _named_twice(stored: list[StoredBatch], entry: IndexEntry, last: int) -> StoredBatch:
    """Return a problem in place of index rows that overlap. Nothing says which of them is right.

    The rows that were taken before and overlap are removed from stored.
    """
    first, upto = entry.first, max(stored[-1].part.last, min(entry.last, last))
    while stored and stored[-1].part.last >= entry.first:
        first = stored.pop().part.first
    return StoredBatch(
        Range(first, upto), b"", f"the index names numbers from {entry.first} on twice"
    )


def _checked(
    source: SourceName, entry: IndexEntry, value: bytes | QuorateError | None, part: Range
) -> StoredBatch:
    if value is None:
        return StoredBatch(part, b"", "it is not in the journal")
    if isinstance(value, QuorateError):
        return StoredBatch(part, b"", str(value))
    try:
        large = large_row(value)
        header = large.header if large is not None else check_batch(value, "in the journal")
    except CorruptBatch as error:
        return StoredBatch(part, b"", str(error))
    if (header.source, header.checksum) != (source, entry.checksum):
        other = f"{header.source} from {header.first}, epoch {header.epoch}"
        return StoredBatch(part, b"", f"the journal has {other} there")
    return StoredBatch(part, b"" if large is not None else value, "", large)


def _values(reads: Reads, found: Sequence[IndexEntry]) -> list[bytes | QuorateError | None]:
    keys = [position_key(entry.position) for entry in found]
    try:
        return list(reads.get(Table.JOURNAL, keys))
    except StorageFailed:
        # One unreadable batch must not hide the others.
        return [_value(reads, key) for key in keys]


def _value(reads: Reads, key: bytes) -> bytes | QuorateError | None:
    try:
        return reads.get(Table.JOURNAL, [key])[0]
    except StorageFailed as error:
        return CorruptBatch("in the journal", error.detail)
