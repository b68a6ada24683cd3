from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from quorate.protocol.errors import (
    DataDirectoryCorrupt,
    DataDirectoryInUse,
    DataDirectoryNewer,
    DataDirectoryOfAnother,
    DataDirectoryOlder,
    InvalidArgument,
    StorageFailed,
)
from quorate.store.storage.data_directory import (
    FORMAT,
    DataDirectory,
)


def test_a_directory_is_used_once_at_a_time(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path, "s1")
    with pytest.raises(DataDirectoryInUse, match=f"process {os.getpid()}"):
        DataDirectory(tmp_path, "s1")
    first.close()
    DataDirectory(tmp_path, "s1").close()


def test_a_directory_belongs_to_one_name(tmp_path: Path) -> None:
    DataDirectory(tmp_path, "s1").close()
    with pytest.raises(DataDirectoryOfAnother, match="belongs to store 's1', not to 's2'"):
        DataDirectory(tmp_path, "s2")
    DataDirectory(tmp_path, "s1").close()


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    DataDirectory(tmp_path, "s1").close()
    path = tmp_path / "FORMAT"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": FORMAT + 1}))
    with pytest.raises(DataDirectoryNewer) as caught:
        DataDirectory(tmp_path, "s1")
    assert (caught.value.theirs, caught.value.ours) == (FORMAT + 1, FORMAT)


def test_an_older_format_is_left_alone_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    DataDirectory(tmp_path, "s1").close()
    path = tmp_path / "FORMAT"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": FORMAT - 1}))
    before = path.read_text()
    with pytest.raises(DataDirectoryOlder, match="refilled from its peers") as caught:
        DataDirectory(tmp_path, "s1")
    assert (caught.value.theirs, caught.value.ours) == (FORMAT - 1, FORMAT)
    assert path.read_text() == before


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "x", "store": "s1"}'])
def test_a_damaged_format_is_refused(tmp_path: Path, text: str) -> None:
    DataDirectory(tmp_path, "s1").close()
    (tmp_path / "FORMAT").write_text(text)
    with pytest.raises(DataDirectoryCorrupt, match="FORMAT"):
        DataDirectory(tmp_path, "s1")


@pytest.mark.parametrize("stranger", ["holiday.jpg", "rocksdb"])
def test_somebody_elses_directory_is_refused(tmp_path: Path, stranger: str) -> None:
    (tmp_path / stranger).mkdir()
    with pytest.raises(DataDirectoryCorrupt, match=stranger):
        DataDirectory(tmp_path, "s1")


def test_a_founding_that_was_cut_short_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "acknowledged").write_bytes(bytes(8))
    (tmp_path / "FORMAT.new").write_text("{")
    DataDirectory(tmp_path, "s1").close()


@pytest.mark.parametrize("path", ["file", "file/data"])
def test_a_file_is_no_directory(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="is a file"):
        DataDirectory(tmp_path / path, "s1")


def test_a_path_that_can_not_be_made_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="too long"):
        DataDirectory(tmp_path / ("x" * 300), "s1")


def test_a_new_directory_outlives_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(os, "fsync", fsync)
    DataDirectory(tmp_path, "s1").close()
    # FORMAT comes last: without it the directory counts as blank.
    assert synced == ["acknowledged", "FORMAT.new", tmp_path.name]


def test_the_acknowledged_mark_stays(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, "s1")
    assert directory.acknowledged == 0
    directory.acknowledged = 1234
    directory.close()
    directory = DataDirectory(tmp_path, "s1")
    assert directory.acknowledged == 1234
    directory.check_recovered(1234)
    directory.check_recovered(1300)
    with pytest.raises(DataDirectoryCorrupt, match="commit 1234 was acknowledged"):
        directory.check_recovered(1233)
    directory.close()


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_without_its_acknowledged_mark_it_is_refused(tmp_path: Path, damage: object) -> None:
    DataDirectory(tmp_path, "s1").close()
    assert callable(damage)
    damage(tmp_path / "acknowledged")
    with pytest.raises(DataDirectoryCorrupt, match="acknowledged"):
        DataDirectory(tmp_path, "s1")
