"""A large batch on its way into the store: each fragment becomes a row as it comes.

Pure. The rows count for nothing until the journal has a row for the batch. The permission to take
it is decided in quorate.store.rules.stream.
"""

from __future__ import annotations

from quorate.protocol.fragments import FragmentReading, fragment_count
from quorate.protocol.framing import BatchHeader
from quorate.protocol.limits import FRAGMENT_BYTES
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.large_batches import (
    LargeRow,
    arriving_key,
    fragment_key,
    pack_large,
    removal,
)


class Arrival:
    """The fragments of one large batch that have come so far."""

    def __init__(self, group: int, where: str) -> None:
        """group: the number of the group of the fragments' rows. where: for errors."""
        self._group = group
        self._reading = FragmentReading(where)
        self._head = b""

    @property
    def header(self) -> BatchHeader:
        """The header of the batch, once the first fragment has come."""
        return self._reading.header

    @property
    def size(self) -> int:
        """The bytes of the batch."""
        return self._reading.size

    @property
    def is_whole(self) -> bool:
        """Whether all fragments have come, and the checksum is right."""
        return self._reading.is_whole

    def take(self, at: int, size: int, data: bytes) -> list[Write]:
        """Take the next fragment, and return its rows. Raises CorruptBatch."""
        self._reading.take(at, size, data)
        writes = [Write(Table.FRAGMENTS, fragment_key(self._group, at // FRAGMENT_BYTES), data)]
        if not at:
            self._head = data[: self.header.body_at]
            writes.append(Write(Table.META, arriving_key(self._group), b""))
        return writes

    @property
    def row(self) -> LargeRow:
        """The journal's row of the batch, which must be whole."""
        assert self.is_whole
        return LargeRow(self._group, self.size, self.header)

    def packed_row(self) -> bytes:
        """Return the journal's row of the batch as it is on the disk."""
        return pack_large(self._group, self.size, self._head)

    def taken(self) -> Write:
        """Return the row that says, with the journal's row, that the fragments are of use."""
        return Write(Table.META, arriving_key(self._group), None)

    def removed(self) -> list[Write]:
        """Return the rows that remove what came."""
        return [*removal(self._group, fragment_count(self._reading.at)), self.taken()]
