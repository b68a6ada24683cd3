"""What the store needs of a key-value storage: ordered tables, atomic writes, a sync.

The RocksDB implementation is in quorate.store.storage.rocksdb; the one in memory here serves tests
and the simulated world. Nothing here knows what the rows mean.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class Table(enum.Enum):
    """The tables, by the names that they have on the disk."""

    JOURNAL = "journal"
    """position -> a batch, exactly as it was received"""
    INDEX = "index"
    """(RegID, first) -> which batch of the journal serves the numbers from there on"""
    SET_ASIDE = "set_aside"
    """(RegID, epoch, first) -> the same, for batches that no longer belong to the stream"""
    RELEASED = "released"
    """position -> a batch that left the stream, and leaves the journal if nothing refers to it"""
    REGISTRATIONS = "registrations"
    """RegID -> a source's registration"""
    HELD = "held"
    """RegID -> what is held of the source's stream"""
    MARKERS = "markers"
    """(RegID, sequence number) -> what the application committed with that message"""
    RECEIVERS = "receivers"
    """(RegID of the source, session ID) -> a receiver's registration and position"""
    META = "meta"
    """what concerns the whole store"""

    # By identity, as they are compared: every row that is read or written looks its table up.
    __hash__ = object.__hash__


class Write(NamedTuple):
    """One row to be written; a value of None deletes it."""

    table: Table
    key: bytes
    value: bytes | None


Row = tuple[bytes, bytes]


class Reads(Protocol):
    """Reading rows; sees every write that has returned, synced or not."""

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, None where there is no row; raises StorageUnreadable."""

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        """At most limit rows with first <= key <= last, ascending; raises StorageUnreadable."""

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        """The row with the greatest key <= key; raises StorageUnreadable."""


class Storage(Reads, Protocol):
    """Reads, atomic writes, and a sync of everything written before it."""

    def write(self, writes: Iterable[Write]) -> None:
        """Write all rows or none; raises StorageFailed, after which nothing may be written."""

    def sync(self) -> None:
        """Return once every write is on the disk; raises StorageFailed, and is never repeated."""

    def compact(self, table: Table, first: bytes, last: bytes) -> None:
        """Give back the disk space of rows with first <= key <= last that were deleted.

        May take long; not on the event loop. Raises StorageFailed.
        """

    def close(self) -> None:
        """Release the files. Nothing may be called afterwards."""
