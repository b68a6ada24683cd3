"""The storage on RocksDB: the database's options, its calls, and its errors as the store's errors.

A write holds Python's lock while it copies into the log. A sync, and a read of several keys, do not
hold it. So a commit is a write without a sync, followed by a sync of the log. Nothing here knows
the meaning of the rows.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import cast

from rocksdict import (
    AccessType,
    Checkpoint,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
)

from quorate.protocol.errors import DataDirectoryCorrupt, StorageFailed, StorageUnreadable
from quorate.store.storage.interface import (
    Row,
    Table,
    Write,
)

_MIB = 1024 * 1024
_JOURNAL_BUFFER = 64 * _MIB
_TABLE_BUFFER = 8 * _MIB
_ROWS_BUFFER = 32 * _MIB
"""Rows are written again and again. The more of them are in memory, the fewer go to files."""
_BUFFERS = {
    Table.JOURNAL: _JOURNAL_BUFFER,
    Table.FRAGMENTS: _JOURNAL_BUFFER,
    Table.STATE: _ROWS_BUFFER,
}
"""The bytes of a table in memory above which they are written to a file, if not _TABLE_BUFFER."""
_LOG_BYTES_MAX = 256 * _MIB
"""The bytes of log above which RocksDB flushes tables. It bounds the time of a restart."""


class RocksStorage:
    """A RocksDB database with one column family for each table."""

    def __init__(self, path: Path, create: bool = False, read_only: bool = False) -> None:
        """Open the database. Raises DataDirectoryCorrupt if RocksDB cannot open it."""
        self._path = str(path)
        direct_io = not read_only and _has_direct_io(path.parent)
        access = AccessType.read_only(False) if read_only else AccessType.read_write()
        options = _options(direct_io, _TABLE_BUFFER)
        options.create_if_missing(create)
        options.create_missing_column_families(create)
        tables = {
            table.value: _options(direct_io, _BUFFERS.get(table, _TABLE_BUFFER)) for table in Table
        }
        try:
            self._database = Rdict(self._path, options, tables, access_type=access)
        except Exception as error:  # rocksdict raises nothing more specific
            raise DataDirectoryCorrupt(self._path, f"RocksDB says: {error}") from error
        self._tables = {table: self._database.get_column_family(table.value) for table in Table}
        self._handles = {
            table: self._database.get_column_family_handle(table.value) for table in Table
        }

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._failing(StorageUnreadable):
            return cast("list[bytes | None]", self._tables[table].get(list(keys)))

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        with self._failing(StorageUnreadable):
            return _scanned(self._tables[table].iter(), first, last, limit)

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        with self._failing(StorageUnreadable):
            return _at_or_before(self._tables[table].iter(), key)

    def frozen(self, table: Table) -> _Frozen:
        with self._failing(StorageUnreadable):
            return _Frozen(table, self._tables[table].iter(), self._failing)

    def write(self, writes: Iterable[Write]) -> None:
        with self._failing():
            batch = WriteBatch(raw_mode=True)
            handles = self._handles
            for table, key, value in writes:
                if value is None:
                    batch.delete(key, handles[table])
                else:
                    batch.put(key, value, handles[table])
            self._database.write(batch)

    def sync(self) -> None:
        with self._failing():
            self._database.flush_wal(True)

    def compact(self, table: Table, first: bytes, last: bytes) -> None:
        with self._failing():
            options = CompactOptions()
            # Writes must not wait for a compaction.
            options.set_exclusive_manual_compaction(False)
            self._tables[table].compact_range(first, last + b"\0", options)

    def checkpoint(self, path: Path) -> None:
        """Make a copy of all that was written so far in a new directory. Raises StorageFailed."""
        with self._failing():
            Checkpoint(self._database).create_checkpoint(str(path))

    def close(self) -> None:
        """Close the database and all tables. Raises StorageFailed if one of them fails to close."""
        self._handles.clear()
        with ExitStack() as all_of_it:
            all_of_it.enter_context(self._failing())
            for each in (self._database, *self._tables.values()):
                all_of_it.callback(each.close)

    @contextmanager
    def _failing(self, kind: type[StorageFailed] = StorageFailed) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # rocksdict raises nothing more specific
            raise kind(self._path, str(error)) from error


class _Frozen:
    """One table as it was at a moment: an iterator of RocksDB sees no later write.

    Iterators of rocksdict's snapshots do see them, in version 0.3.29, so none is used.
    """

    def __init__(
        self,
        table: Table,
        iterator: RdictIter,
        failing: Callable[[type[StorageFailed]], AbstractContextManager[None]],
    ) -> None:
        self._table = table
        self._iterator = iterator
        self._failing = failing
        self._lock = Lock()

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._value(table, key) for key in keys]

    def _value(self, table: Table, key: bytes) -> bytes | None:
        rows = self.scan(table, key, key, 1)
        return rows[0][1] if rows else None

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        assert table is self._table
        with self._lock, self._failing(StorageUnreadable):
            return _scanned(self._iterator, first, last, limit)

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        assert table is self._table
        with self._lock, self._failing(StorageUnreadable):
            return _at_or_before(self._iterator, key)


def _scanned(iterator: RdictIter, first: bytes, last: bytes, limit: int) -> list[Row]:
    rows: list[Row] = []
    iterator.seek(first)
    # A scan reads millions of rows, so each step is looked up once.
    is_valid, key_here, value_here, step = (
        iterator.valid, iterator.key, iterator.value, iterator.next,
    )  # fmt: skip
    for _ in range(limit):
        if not is_valid() or (key := key_here()) > last:
            break
        rows.append((key, value_here()))
        step()
    iterator.status()
    return rows


def _at_or_before(iterator: RdictIter, key: bytes) -> Row | None:
    iterator.seek_for_prev(key)
    if not iterator.valid():
        iterator.status()
        return None
    return cast("bytes", iterator.key()), cast("bytes", iterator.value())


def _options(direct_io: bool, buffer_bytes: int) -> Options:
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(buffer_bytes)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(2)
    options.set_max_total_wal_size(_LOG_BYTES_MAX)
    # The sync of a reused log file leaves out its metadata, so it is faster. Recovery may then
    # lose the log's end silently; the acknowledged mark of data_directory detects that.
    options.set_recycle_log_file_num(4)
    options.set_use_direct_io_for_flush_and_compaction(direct_io)
    options.set_keep_log_file_num(4)
    return options


def _has_direct_io(directory: Path) -> bool:
    """Return whether files in this directory can be written past the page cache."""
    probe = directory / "direct-io-probe"
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_WRONLY | getattr(os, "O_DIRECT", 0))
    except OSError:
        return False
    try:
        with mmap.mmap(-1, 4096) as page:  # aligned, as direct I/O demands
            os.write(descriptor, page)
        return hasattr(os, "O_DIRECT")
    except OSError:
        return False
    finally:
        os.close(descriptor)
        probe.unlink(missing_ok=True)
