from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests import seams

from quorate.protocol.errors import DataDirectoryCorrupt, StorageFailed, StorageUnreadable
from quorate.store.storage.interface import (
    Columns,
    Storage,
    Table,
    Write,
)
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.rocksdb import RocksStorage


@pytest.fixture(params=["memory", "rocks"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    opened: Storage = (
        MemoryStorage() if request.param == "memory" else RocksStorage(tmp_path / "db", create=True)
    )
    yield opened
    opened.close()


def rows(*keys: bytes, table: Table = Table.INDEX) -> list[Write]:
    return [Write(table, key, b"value of " + key) for key in keys]


def test_reads_what_was_written_before_any_sync(storage: Storage) -> None:
    storage.write(rows(b"a", b"c"))
    assert storage.get(Table.INDEX, [b"a", b"b", b"c"]) == [b"value of a", None, b"value of c"]


def test_columns_are_rows_of_the_same_write(storage: Storage) -> None:
    columns = [
        Columns(Table.STATE, [b"a", b"b"], [b"1", b"2"]),
        Columns(Table.JOURNAL, [b"a"], [b"3"]),
    ]
    storage.write(rows(b"c"), columns)
    storage.sync()
    assert storage.get(Table.STATE, [b"a", b"b", b"c"]) == [b"1", b"2", None]
    assert storage.get(Table.JOURNAL, [b"a"]) == [b"3"]
    assert storage.get(Table.INDEX, [b"c"]) == [b"value of c"]


def test_tables_are_apart(storage: Storage) -> None:
    storage.write(rows(b"a", table=Table.JOURNAL))
    assert storage.get(Table.INDEX, [b"a"]) == [None]


def test_scan_is_ascending_inclusive_and_bounded(storage: Storage) -> None:
    storage.write(rows(b"d", b"b", b"a", b"c", b"e"))
    scanned = storage.scan(Table.INDEX, b"b", b"d", 10)
    assert [key for key, _ in scanned] == [b"b", b"c", b"d"]
    assert [key for key, _ in storage.scan(Table.INDEX, b"b", b"e", 2)] == [b"b", b"c"]
    assert storage.scan(Table.INDEX, b"x", b"z", 10) == []


def test_at_or_before(storage: Storage) -> None:
    storage.write(rows(b"b", b"d"))
    assert storage.at_or_before(Table.INDEX, b"a") is None
    assert storage.at_or_before(Table.INDEX, b"b") == (b"b", b"value of b")
    assert storage.at_or_before(Table.INDEX, b"c") == (b"b", b"value of b")
    assert storage.at_or_before(Table.INDEX, b"z") == (b"d", b"value of d")


def test_a_frozen_table_stays_as_it_is(storage: Storage) -> None:
    storage.write(rows(b"b", b"d"))
    frozen = storage.frozen(Table.INDEX)
    storage.write([*rows(b"a", b"c"), Write(Table.INDEX, b"b", None)])
    storage.sync()
    storage.compact(Table.INDEX, b"a", b"z")
    assert [key for key, _ in frozen.scan(Table.INDEX, b"a", b"z", 10)] == [b"b", b"d"]
    assert frozen.get(Table.INDEX, [b"b", b"c"]) == [b"value of b", None]
    assert frozen.at_or_before(Table.INDEX, b"c") == (b"b", b"value of b")
    assert frozen.at_or_before(Table.INDEX, b"a") is None


def test_a_frozen_table_is_read_in_other_threads(storage: Storage) -> None:
    storage.write(rows(b"a"))
    frozen = storage.frozen(Table.INDEX)
    with ThreadPoolExecutor(2) as executor:
        found = list(executor.map(lambda key: frozen.get(Table.INDEX, [key]), [b"a"] * 8))
    assert found == [[b"value of a"]] * 8


def test_state_is_removed_from_one_key_to_another(storage: Storage) -> None:
    storage.write([*rows(b"a", b"b", b"c", b"d", b"e", table=Table.STATE), *rows(b"c")])
    frozen = storage.frozen(Table.STATE)
    storage.remove_state(b"b", b"d")
    assert [key for key, _ in storage.scan(Table.STATE, b"", b"z", 9)] == [b"a", b"e"]
    assert storage.get(Table.STATE, [b"a", b"c", b"d"]) == [b"value of a", None, None]
    assert storage.get(Table.INDEX, [b"c"]) == [b"value of c"]
    assert len(frozen.scan(Table.STATE, b"", b"z", 9)) == 5
    storage.write(rows(b"c", table=Table.STATE))
    storage.sync_state()
    assert [key for key, _ in storage.scan(Table.STATE, b"", b"z", 9)] == [b"a", b"c", b"e"]


def test_the_last_write_of_a_key_counts(storage: Storage) -> None:
    storage.write([*rows(b"a"), Write(Table.INDEX, b"a", None)])
    assert storage.get(Table.INDEX, [b"a"]) == [None]
    storage.write([Write(Table.INDEX, b"a", None), *rows(b"a")])
    assert storage.get(Table.INDEX, [b"a"]) == [b"value of a"]
    storage.write([Write(Table.INDEX, b"a", b"new")])
    assert storage.scan(Table.INDEX, b"", b"z", 9) == [(b"a", b"new")]


def test_memory_forgets_at_a_crash_what_was_not_synced() -> None:
    storage = MemoryStorage()
    storage.write(rows(b"a", b"b"))
    storage.sync()
    storage.write([*rows(b"c"), Write(Table.INDEX, b"a", None)])
    after = storage.crash()
    assert after.get(Table.INDEX, [b"a", b"b", b"c"]) == [b"value of a", b"value of b", None]


STATE = [Write(Table.STATE, b"key", b"row")]


def test_memory_forgets_at_a_crash_the_state_that_was_not_synced_with_it() -> None:
    storage = MemoryStorage()
    storage.write([*STATE, *rows(b"a")])
    storage.sync()
    after = storage.crash()
    assert after.get(Table.STATE, [b"key"]) == [None]
    assert after.get(Table.INDEX, [b"a"]) == [b"value of a"]
    storage.sync_state()
    assert storage.crash().get(Table.STATE, [b"key"]) == [b"row"]


def test_rocks_has_the_state_after_a_crash_only_if_it_was_synced(tmp_path: Path) -> None:
    storage = RocksStorage(tmp_path / "db", create=True)
    storage.write([*STATE, *rows(b"a")])
    storage.sync()
    shutil.copytree(tmp_path / "db", tmp_path / "killed")
    storage.sync_state()
    shutil.copytree(tmp_path / "db", tmp_path / "synced")
    storage.close()
    for name, row in (("killed", None), ("synced", b"row")):
        again = RocksStorage(tmp_path / name)
        assert again.get(Table.STATE, [b"key"]) == [row]
        assert again.get(Table.INDEX, [b"a"]) == [b"value of a"]
        again.close()


@pytest.mark.parametrize("is_sync", [True, False])
def test_rocks_syncs_all_else_before_the_state_goes_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_sync: bool
) -> None:
    """Otherwise rows might outlive the messages of which they were made."""
    seams.ROCKSDB_STATE_BUFFER.replace(monkeypatch, SEVERAL_ROWS)
    storage = RocksStorage(tmp_path / "db", create=True)
    calls: list[str] = []
    monkeypatch.setattr(storage, "_database", Calls(storage._database, "log", calls))
    monkeypatch.setattr(storage, "_state", Calls(storage._state, "state", calls))
    storage.write(STATE)
    storage.write([*rows(b"a"), *STATE])
    assert "state flush" not in calls, "there is little of it yet"
    if is_sync:
        storage.sync_state()
    else:
        storage.write([Write(Table.STATE, b"key", b"x" * SEVERAL_ROWS)])
    assert calls[-2:] == ["log flush_wal True", "state flush"]
    before = len(calls)
    storage.write(STATE)
    assert calls[before:] == ["state write"]
    storage.close()


SEVERAL_ROWS = 1000


class Calls:
    """A database whose changing calls are noted."""

    def __init__(self, database: Any, name: str, calls: list[str]) -> None:
        self._database, self._name, self._calls = database, name, calls

    def __getattr__(self, method: str) -> Any:
        return getattr(self._database, method)

    def write(self, *given: Any) -> None:
        self._calls.append(f"{self._name} write")
        self._database.write(*given)

    def flush(self, waits: bool) -> None:
        self._calls.append(f"{self._name} flush")
        self._database.flush(waits)

    def flush_wal(self, sync: bool) -> None:
        self._calls.append(f"{self._name} flush_wal {sync}")
        self._database.flush_wal(sync)


def test_rocks_keeps_what_was_written(tmp_path: Path) -> None:
    storage = RocksStorage(tmp_path / "db", create=True)
    storage.write(rows(b"a"))
    storage.sync()
    storage.close()
    again = RocksStorage(tmp_path / "db")
    assert again.get(Table.INDEX, [b"a"]) == [b"value of a"]
    again.close()


def test_rocks_closes_all_of_it_though_a_part_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocks = RocksStorage(tmp_path / "db", create=True)
    table = rocks._tables[Table.INDEX]

    class Failing:
        def close(self) -> None:
            table.close()
            raise OSError("the disk is gone")

    monkeypatch.setitem(rocks._tables, Table.INDEX, Failing())
    with pytest.raises(StorageFailed, match="the disk is gone"):
        rocks.close()
    RocksStorage(tmp_path / "db").close()


@pytest.mark.parametrize(
    "read",
    [
        lambda storage: storage.get(Table.INDEX, [b"a"]),
        lambda storage: storage.scan(Table.INDEX, b"a", b"z", 10),
        lambda storage: storage.at_or_before(Table.INDEX, b"z"),
    ],
)
def test_what_rocks_can_not_read_is_neither_there_nor_absent(
    tmp_path: Path, read: Callable[[RocksStorage], object]
) -> None:
    written = RocksStorage(tmp_path / "db", create=True)
    written.write(rows(b"a", b"b"))
    written.compact(Table.INDEX, b"a", b"z")
    written.close()
    flipped = 0
    for path in (tmp_path / "db").glob("*.sst"):
        content = path.read_bytes()
        flipped += content.count(b"value of a")
        path.write_bytes(content.replace(b"value of a", b"value of c"))
    assert flipped
    storage = RocksStorage(tmp_path / "db")
    with pytest.raises(StorageUnreadable, match=r"Reading from .* as unknown, not as absent"):
        read(storage)
    storage.close()


def test_rocks_makes_no_database_by_itself(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryCorrupt, match="RocksDB says"):
        RocksStorage(tmp_path / "db")
