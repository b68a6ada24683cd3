"""The log of RocksDB goes to its file by a call that does not hold Python's lock."""

from __future__ import annotations

from pathlib import Path

from rocksdict import Rdict, WriteBatch

from quorate.store.storage.interface import Table, Write
from quorate.store.storage.rocksdb import RocksStorage
from quorate.store.storage.rocksdb_options import database_options

VALUE = b"a value that stands for itself" * 100_000


def logged(path: Path) -> bool:
    return any(VALUE[:1000] in log.read_bytes() for log in path.glob("*.log"))


def test_a_write_of_the_database_leaves_the_file_to_a_later_call(tmp_path: Path) -> None:
    database = Rdict(str(tmp_path / "db"), database_options(direct_io=False, create=True))
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
