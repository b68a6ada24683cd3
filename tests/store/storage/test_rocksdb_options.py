"""The log of RocksDB goes to its file by a call that does not hold Python's lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocksdict import Rdict, WriteBatch

from quorate.store.storage.interface import Table, Write
from quorate.store.storage.rocksdb import RocksStorage
from quorate.store.storage.rocksdb_options import OPTIONS_DIRECTORY, database_options

VALUE = b"a value that stands for itself" * 10_000


def logged(path: Path) -> bool:
    return any(VALUE[:1000] in log.read_bytes() for log in path.glob("*.log"))


def test_a_write_of_the_database_leaves_the_file_to_a_later_call(tmp_path: Path) -> None:
    path = tmp_path / "db"
    database = Rdict(str(path), database_options(path, direct_io=False, create=True))
    batch = WriteBatch(raw_mode=True)
    batch.put(b"key", VALUE, None)
    database.write(batch)
    assert not logged(tmp_path / "db")
    database.flush_wal(False)
    assert logged(tmp_path / "db")
    database.close()


def test_a_write_of_the_storage_is_in_the_file_when_it_returns(tmp_path: Path) -> None:
    storage = RocksStorage(tmp_path / "db", create=True)
    storage.write([Write(Table.JOURNAL, b"key", VALUE)])
    assert logged(tmp_path / "db")
    storage.close()


def test_a_storage_needs_no_directory_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root directory of a container is read-only."""

    def fail(*_: object, **__: object) -> str:
        raise OSError("Read-only file system")

    monkeypatch.setattr("tempfile.mkdtemp", fail)
    (tmp_path / OPTIONS_DIRECTORY).mkdir()  # it was killed while it opened the database
    RocksStorage(tmp_path / "db", create=True).close()
    assert [each.name for each in tmp_path.iterdir()] == ["db"]
    RocksStorage(tmp_path / "db", read_only=True).close()
    assert [each.name for each in tmp_path.iterdir()] == ["db"]
