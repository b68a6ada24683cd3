"""A checkpoint is the data directory at one moment, while the database goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.protocol.errors import StorageFailed
from quorate.store.storage import checkpoint
from quorate.store.storage.data_directory import DataDirectory, read_identity
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.rocksdb import RocksStorage

ROWS = [
    Write(Table.META, b"name", b"value"),
    Write(Table.JOURNAL, b"1", b"x" * 1000),
    Write(Table.STATE, b"key", b"row"),
]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DataDirectory]:
    made = DataDirectory(tmp_path / "a", "a")
    yield made
    made.close()


@pytest.fixture
def storage(directory: DataDirectory) -> Iterator[RocksStorage]:
    made = RocksStorage(directory.database, create=True)
    made.write(ROWS)
    made.sync()
    yield made
    made.close()


def test_a_checkpoint_has_what_was_written_and_nothing_later(
    directory: DataDirectory, storage: RocksStorage
) -> None:
    path = checkpoint.make(directory.path, 7, storage)
    storage.write([Write(Table.META, b"name", b"later"), Write(Table.META, b"more", b"")])
    storage.sync()
    assert read_identity(path) == directory.identity
    copy = DataDirectory(path, "a")
    assert copy.acknowledged == 7
    copied = RocksStorage(copy.database)
    assert copied.get(Table.META, [b"name", b"more"]) == [b"value", None]
    assert copied.get(Table.JOURNAL, [b"1"]) == [b"x" * 1000]
    assert copied.get(Table.STATE, [b"key"]) == [b"row"]
    copied.close()
    copy.close()
    assert storage.get(Table.META, [b"name"]) == [b"later"]


def test_format_is_the_last_file_and_a_new_checkpoint_replaces_an_old_one(
    directory: DataDirectory, storage: RocksStorage
) -> None:
    (checkpoint.make(directory.path, 1, storage) / "left over").touch()
    assert not any("left over" in file.path for file in checkpoint.files(directory.path))
    path = checkpoint.make(directory.path, 2, storage)
    files = list(checkpoint.files(path))
    assert files[-1].path == "FORMAT"
    assert {"lock", "acknowledged", "rocksdb/CURRENT"} < {file.path for file in files}
    assert "left over" not in {file.path for file in files}
    assert all((path / file.path).stat().st_size == file.size for file in files)
    checkpoint.remove(directory.path)
    assert not path.exists()


def test_a_directory_without_room_for_it_is_a_typed_error(
    directory: DataDirectory, storage: RocksStorage
) -> None:
    (directory.path / "checkpoint").touch()
    with pytest.raises(StorageFailed, match="checkpoint"):
        checkpoint.make(directory.path, 1, storage)
