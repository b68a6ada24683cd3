"""What the store needs of a key-value storage: ordered tables, atomic writes, a sync.

The RocksDB implementation is in quorate.store.rocks; the one in memory here serves tests and the
simulated world. Nothing here knows what the rows mean.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right, insort
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


class MemoryRows:
    """Rows in memory, ordered by key."""

    def __init__(self) -> None:
        self._rows: dict[Table, dict[bytes, bytes]] = {table: {} for table in Table}
        self._keys: dict[Table, list[bytes]] = {table: [] for table in Table}

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._rows[table].get(key) for key in keys]

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        keys = self._keys[table]
        found = keys[bisect_left(keys, first) : bisect_right(keys, last)][:limit]
        return [(key, self._rows[table][key]) for key in found]

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        keys = self._keys[table]
        at = bisect_right(keys, key)
        return (keys[at - 1], self._rows[table][keys[at - 1]]) if at else None

    def write(self, writes: Iterable[Write]) -> None:
        for table, key, value in writes:
            rows = self._rows[table]
            if value is None:
                if rows.pop(key, None) is not None:
                    keys = self._keys[table]
                    del keys[bisect_left(keys, key)]
                continue
            if key not in rows:
                insort(self._keys[table], key)
            rows[key] = value

    def copy_to(self, other: MemoryRows) -> None:
        """The other has these rows, and no others, from now on."""
        other._rows = {table: rows.copy() for table, rows in self._rows.items()}
        other._keys = {table: keys.copy() for table, keys in self._keys.items()}


class MemoryStorage(MemoryRows):
    """Storage that forgets. `crash` keeps only what was synced."""

    def __init__(self) -> None:
        super().__init__()
        self._unsynced: list[Write] = []
        self._synced = MemoryRows()

    def write(self, writes: Iterable[Write]) -> None:
        commit = list(writes)
        self._unsynced += commit
        super().write(commit)

    def sync(self) -> None:
        self._synced.write(self._unsynced)
        self._unsynced.clear()

    def compact(self, table: Table, first: bytes, last: bytes) -> None:
        """Nothing is kept of what is deleted."""

    def close(self) -> None:
        self.sync()

    def crash(self) -> MemoryStorage:
        """The storage as it is found after a crash now."""
        after = MemoryStorage()
        self._synced.copy_to(after)
        self._synced.copy_to(after._synced)
        return after
