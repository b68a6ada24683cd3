"""The storage on RocksDB: its calls, and its errors as the store's errors.

A write to memory holds Python's lock. The log is written to its file, and synced, without the lock.
Nor does a read of several keys hold it. So a commit is a write, followed by a sync of the log.
The table of the state of the world is a database of its own, without a log. Nothing here knows the
meaning of the rows. The options are in rocksdb_options.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import repeat
from pathlib import Path
from threading import Lock
from typing import cast

from rocksdict import (
    AccessType,
    Checkpoint,
    CompactOptions,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteOptions,
)

from quorate.protocol.delays import LOOK, delay_after
from quorate.protocol.errors import DataDirectoryCorrupt, StorageFailed, StorageUnreadable
from quorate.store.storage.interface import (
    Columns,
    Row,
    Table,
    Write,
)
from quorate.store.storage.rocksdb_options import (
    STATE_BUFFER,
    database_options,
    has_direct_io,
    read_only_options,
    state_options,
    table_options,
)

STATE_DIRECTORY = "state"
"""The directory in that of the database that has the table of the state of the world."""
_FLUSHING = "rocksdb.num-immutable-mem-table"
_ERRORS = "rocksdb.background-errors"
_LOGGED: list[Table] = [table for table in Table if table is not Table.STATE]


class RocksStorage:
    """A RocksDB database with one column family for each table, and one for Table.STATE alone."""

    def __init__(self, path: Path, create: bool = False, read_only: bool = False) -> None:
        """Open the databases. Raises DataDirectoryCorrupt if RocksDB cannot open one of them."""
        self._path = str(path)
        direct_io = not read_only and has_direct_io(path.parent)
        access = AccessType.read_only(False) if read_only else AccessType.read_write()
        tables = {table.value: table_options(table, direct_io) for table in _LOGGED}
        with ExitStack() as opened:
            try:
                options = of_state = read_only_options()
                if not read_only:
                    options = database_options(path, direct_io, create)
                    of_state = state_options(path, direct_io, create)
                self._database = Rdict(self._path, options, tables, access_type=access)
                opened.callback(self._database.close)
                self._state = Rdict(str(path / STATE_DIRECTORY), of_state, access_type=access)
            except Exception as error:  # rocksdict raises nothing more specific
                raise DataDirectoryCorrupt(self._path, f"RocksDB says: {error}") from error
            opened.pop_all()
        self._tables = {table: self._database.get_column_family(table.value) for table in _LOGGED}
        self._tables[Table.STATE] = self._state
        self._handles = {
            table: self._database.get_column_family_handle(table.value) for table in _LOGGED
        }
        self._handles[Table.STATE] = self._state.get_column_family_handle("default")
        self._without_log = WriteOptions()
        self._without_log.disable_wal = True  # type: ignore[method-assign, assignment]
        self._state_bytes = 0
        """The bytes written to Table.STATE since it was last sent to a file."""
        self._writing = Lock()
        """A copy has both databases as they were between two writes."""

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

    def write(self, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        with self._writing, self._failing():
            logged, state = WriteBatch(raw_mode=True), WriteBatch(raw_mode=True)
            handles = self._handles
            for table, key, value in writes:
                batch = state if table is Table.STATE else logged
                if value is None:
                    batch.delete(key, handles[table])
                else:
                    batch.put(key, value, handles[table])
            for table, keys, values in columns:
                batch = state if table is Table.STATE else logged
                deque(map(batch.put, keys, values, repeat(handles[table])), 0)
            if not logged.is_empty():
                self._database.write(logged)
                self._database.flush_wal(False)
            if not state.is_empty():
                self._state_bytes += state.size_in_bytes()
                self._state.write(state, self._without_log)
                if self._state_bytes > STATE_BUFFER:
                    self._flush_state()

    def remove_state(self, first: bytes, last: bytes) -> None:
        with self._writing, self._failing():
            removal = WriteBatch(raw_mode=True)
            removal.delete_range(first, last + b"\0")
            self._state.write(removal, self._without_log)

    def sync(self) -> None:
        with self._failing():
            self._database.flush_wal(True)

    def sync_state(self) -> None:
        with self._writing, self._failing():
            self._flush_state()
        # A call that waits would take later rows along, and their messages may not be synced.
        with self._failing():
            looks = 0
            while self._state.property_int_value(_FLUSHING):
                if self._state.property_int_value(_ERRORS):
                    raise OSError("RocksDB cannot write rows to a file; its LOG says why")
                looks += 1
                time.sleep(delay_after(LOOK, looks))

    def _flush_state(self) -> None:
        """Let Table.STATE go to a file. All that was written before is synced first."""
        self._database.flush_wal(True)
        self._state.flush(False)
        self._state_bytes = 0

    def compact(self, table: Table, first: bytes, last: bytes) -> None:
        with self._failing():
            options = CompactOptions()
            # Writes must not wait for a compaction.
            options.set_exclusive_manual_compaction(False)
            self._tables[table].compact_range(first, last + b"\0", options)

    def checkpoint(self, path: Path) -> None:
        """Make a copy of all that was written so far in a new directory. Raises StorageFailed."""
        with self._writing, self._failing():
            Checkpoint(self._database).create_checkpoint(str(path))
            Checkpoint(self._state).create_checkpoint(str(path / STATE_DIRECTORY))

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
    key_here, value_here, step, take = iterator.key, iterator.value, iterator.next, rows.append
    for _ in repeat(None, limit):
        key = key_here()
        if key is None or key > last:
            break
        take((key, value_here()))
        step()
    iterator.status()
    return rows


def _at_or_before(iterator: RdictIter, key: bytes) -> Row | None:
    iterator.seek_for_prev(key)
    if not iterator.valid():
        iterator.status()
        return None
    return cast("bytes", iterator.key()), cast("bytes", iterator.value())
