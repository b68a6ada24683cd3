"""The interface of a key-value storage: ordered tables, atomic writes, and a sync.

quorate.store.storage.rocksdb implements it on disk. quorate.store.storage.memory implements it for
tests and the simulated world. Nothing here knows the meaning of the rows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Protocol


class Table(enum.Enum):
    """The tables, with their names on the disk. Each comment has the key -> the value."""

    JOURNAL = "journal"
    """position -> a batch, exactly as the store received it; the head of a large one"""
    FRAGMENTS = "fragments"
    """(group, number) -> a fragment of a large batch, exactly as the store received it"""
    INDEX = "index"
    """(RegID, first) -> the batch of the journal that serves the numbers from first on"""
    SET_ASIDE = "set_aside"
    """(RegID, epoch, first) -> a batch of the journal that no longer belongs to the stream"""
    RELEASED = "released"
    """position -> a released batch, which leaves the journal if no row names it"""
    REGISTRATIONS = "registrations"
    """RegID -> a source's registration"""
    HELD = "held"
    """RegID -> the ranges held of the source's stream, with its counters"""
    MARKERS = "markers"
    """(RegID, sequence number) -> the marker that the application committed with that message"""
    RECEIVERS = "receivers"
    """(RegID of the source, session ID) -> a receiver's registration and position"""
    STATE = "state"
    """(kind, topic and keys, …) -> a row of the state of the world, or how far rows have come"""
    META = "meta"
    """name -> a record of the whole store; (prefix, number) -> a small record of another kind"""

    # The hash of the identity is the fastest, and each row read or written needs one.
    __hash__ = object.__hash__


class Write(NamedTuple):
    """One row to write. A value of None deletes the row."""

    table: Table
    key: bytes
    value: bytes | None


class Columns(NamedTuple):
    """Many rows of one table to write: keys, and their values in the same places.

    They cost less than as many of `Write`.
    """

    table: Table
    keys: Sequence[bytes]
    values: Sequence[bytes]

    def writes(self) -> Iterator[Write]:
        """Yield the rows one by one."""
        for key, value in zip(self.keys, self.values, strict=True):
            yield Write(self.table, key, value)


def with_columns(writes: Iterable[Write], columns: Iterable[Columns]) -> list[Write]:
    """Return all of these rows one by one."""
    return [*writes, *chain.from_iterable(each.writes() for each in columns)]


Row = tuple[bytes, bytes]


class Reads(Protocol):
    """The reading half. It sees every write that has returned, synced or not."""

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None where there is no row. Raises StorageUnreadable."""

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        """Return at most limit rows with first <= key <= last, ascending.

        Raises StorageUnreadable.
        """

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        """Return the row with the greatest key at or before key; None if there is none.

        Raises StorageUnreadable.
        """


class Storage(Reads, Protocol):
    """A storage: reads, atomic writes, and a sync of all earlier writes.

    Table.STATE is apart, because all of it can be made again. It has no log, so a crash may take
    back its last writes, also those before a sync. It never has a write, or a part of one, while it
    lacks an earlier one of its own or one of the other tables.
    """

    def write(self, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        """Write all rows or none. Raises StorageFailed, after which nothing may be written.

        columns: further rows. None of them has the key of another one.
        """

    def sync(self) -> None:
        """Return once every write is on the disk, apart from those to Table.STATE.

        Raises StorageFailed, and is never repeated.
        """

    def sync_state(self) -> None:
        """Return once every write is on the disk, also those to Table.STATE.

        It may take long, so it is never called on the event loop. Raises StorageFailed, and is
        never repeated.
        """

    def remove_state(self, first: bytes, last: bytes) -> None:
        """Remove the rows of Table.STATE with first <= key <= last, all or none.

        It is a write that takes no longer for many rows. Raises StorageFailed.
        """

    def frozen(self, table: Table) -> Reads:
        """Return one table as it is now. Later writes are not seen there.

        The view holds up the removal of what it sees for as long as anyone refers to it. Raises
        StorageUnreadable.
        """

    def compact(self, table: Table, first: bytes, last: bytes) -> None:
        """Give back the disk space of deleted rows with first <= key <= last.

        It may take long, so it is never called on the event loop. Raises StorageFailed.
        """

    def close(self) -> None:
        """Release the files. No method may be called afterwards."""
