"""Large batches on the disk: the journal has a row with the head, FRAGMENTS has the fragments.

A row of RocksDB is written and read under Python's lock, so no row is large. The fragments are
written as they come, before the journal's row. Until then a row of META names them, so that a store
that was killed meanwhile removes them when it starts. Which batches are taken is decided elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from quorate.protocol.errors import CorruptBatch
from quorate.protocol.fragments import (
    Assembly,
    LargeBatch,
    fragment_count,
)
from quorate.protocol.framing import BatchHeader, read_header
from quorate.protocol.limits import FRAGMENT_BYTES
from quorate.store.storage.interface import (
    Reads,
    Table,
    Write,
)

_ROW = struct.Struct(">4sQI")
_MAGIC = b"QRL1"
_KEY = struct.Struct(">QI")
_U64 = struct.Struct(">Q")
_ARRIVING_PREFIX = b"arriving/"
_GROUPS_AT_ONCE = 16
_WHERE = "in the journal"


@dataclass(frozen=True, slots=True)
class LargeRow:
    """The journal's row of a large batch."""

    group: int
    """The number of the group of its fragments in FRAGMENTS."""
    size: int
    """The bytes of the batch."""
    header: BatchHeader
    """The header of the batch. Its checksum was proven when the batch was taken."""

    @property
    def count(self) -> int:
        """The number of its fragments."""
        return fragment_count(self.size)


def pack_large(group: int, size: int, head: bytes) -> bytes:
    """Pack the journal's row of a large batch. head: the beginning of the batch, up to its body."""
    return _ROW.pack(_MAGIC, group, size) + head


def large_row(value: bytes) -> LargeRow | None:
    """Return the row of a large batch; None: the row is a batch itself. Raises CorruptBatch."""
    if not value.startswith(_MAGIC):
        return None
    if len(value) < _ROW.size:
        raise CorruptBatch(_WHERE, "the row of a large batch is too short")
    _, group, size = _ROW.unpack_from(value)
    return LargeRow(group, size, read_header(value[_ROW.size :], _WHERE, size))


def fragment_key(group: int, number: int) -> bytes:
    return _KEY.pack(group, number)


def arriving_key(group: int) -> bytes:
    """Return the key of the row that says that the fragments of a group are still coming."""
    return _ARRIVING_PREFIX + _U64.pack(group)


def read_fragment(reads: Reads, row: LargeRow, number: int) -> bytes:
    """Return a fragment, which is not checked. Raises StorageFailed, CorruptBatch."""
    data = reads.get(Table.FRAGMENTS, [fragment_key(row.group, number)])[0]
    if data is None:
        raise CorruptBatch(_WHERE, f"its fragment {number} of {row.count} is missing")
    return data


def fragments(reads: Reads, row: LargeRow) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each fragment, not checked.

    Raises StorageFailed, CorruptBatch.
    """
    for number in range(row.count):
        yield number * FRAGMENT_BYTES, read_fragment(reads, row, number)


def load_large(reads: Reads, row: LargeRow) -> LargeBatch:
    """Return a large batch, checked. The call takes long; it is not for the event loop.

    Raises StorageFailed, CorruptBatch.
    """
    assembly = Assembly(_WHERE)
    for at, data in fragments(reads, row):
        assembly.take(at, row.size, data)
    if assembly.header != row.header:
        raise CorruptBatch(_WHERE, "its fragments are of another batch")
    return assembly.batch()


def removal(group: int, count: int) -> list[Write]:
    """Return the rows that remove the first fragments of a group."""
    return [Write(Table.FRAGMENTS, fragment_key(group, number), None) for number in range(count)]


def unfinished(reads: Reads) -> Iterator[list[Write]]:
    """Yield the rows that remove each group of fragments of which not all came.

    Raises StorageFailed.
    """
    key, end = arriving_key(0), arriving_key(2**64 - 1)
    while rows := reads.scan(Table.META, key, end, _GROUPS_AT_ONCE):
        for key, _ in rows:
            group = int(_U64.unpack(key[len(_ARRIVING_PREFIX) :])[0])
            yield [*removal(group, _came(reads, group)), Write(Table.META, key, None)]
        key = rows[-1][0] + b"\0"


def _came(reads: Reads, group: int) -> int:
    last = reads.at_or_before(Table.FRAGMENTS, fragment_key(group, 2**32 - 1))
    if last is None:
        return 0
    found, number = _KEY.unpack(last[0])
    return number + 1 if found == group else 0
