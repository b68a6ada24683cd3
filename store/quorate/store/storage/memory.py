"""The storage in memory, for tests and simulated worlds. A crash loses what was not synced.

It keeps the contract of quorate.store.storage.interface, and knows no meaning of the rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

from quorate.store.storage.interface import Columns, Row, Table, Write, with_columns


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

    def frozen(self, table: Table) -> MemoryRows:
        view = MemoryRows()
        view._rows[table] = self._rows[table].copy()
        view._keys[table] = self._keys[table].copy()
        return view

    def write(self, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        for table, key, value in with_columns(writes, columns):
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
        """Replace the rows of the other by a copy of these."""
        other._rows = {table: rows.copy() for table, rows in self._rows.items()}
        other._keys = {table: keys.copy() for table, keys in self._keys.items()}


class MemoryStorage(MemoryRows):
    """A storage whose `crash` keeps only synced writes."""

    def __init__(self) -> None:
        super().__init__()
        self._unsynced: list[Write] = []
        self._unsynced_state: list[Write] = []
        self._synced = MemoryRows()

    def write(self, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        commit = with_columns(writes, columns)
        for each in commit:
            is_state = each.table is Table.STATE
            (self._unsynced_state if is_state else self._unsynced).append(each)
        super().write(commit)

    def remove_state(self, first: bytes, last: bytes) -> None:
        keys = self._keys[Table.STATE]
        gone = keys[bisect_left(keys, first) : bisect_right(keys, last)]
        self.write([Write(Table.STATE, key, None) for key in gone])

    def sync(self) -> None:
        self._synced.write(self._unsynced)
        self._unsynced.clear()

    def sync_state(self) -> None:
        self.sync()
        self._synced.write(self._unsynced_state)
        self._unsynced_state.clear()

    def compact(self, table: Table, first: bytes, last: bytes) -> None:
        """Do nothing: deleted rows take no space in memory."""

    def close(self) -> None:
        self.sync()

    def crash(self) -> MemoryStorage:
        """Return the storage as a restart after a crash would find it."""
        after = MemoryStorage()
        self._synced.copy_to(after)
        self._synced.copy_to(after._synced)
        return after
