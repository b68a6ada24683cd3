"""A file and its name are on the disk when a call returns, the content before the name."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from quorate.disk.files import replace_file, sync_directory, write_synced


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each sync and each rename, in order: what was synced by its name, with its size."""
    done: list[str] = []
    sync, rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        sync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append(f"{path.name} {path.stat().st_size}" if path.is_file() else path.name)

    def renamed(old: Path, new: Path) -> None:
        rename(old, new)
        done.append(f"{old.name} -> {new.name}")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    return done


def test_a_directory_is_synced_and_closed(tmp_path: Path, done: list[str]) -> None:
    sync_directory(tmp_path)
    assert done == [tmp_path.name]
    assert tmp_path not in [
        link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
    ]
    with pytest.raises(OSError, match="absent"):
        sync_directory(tmp_path / "absent")


def test_all_of_a_file_is_synced(tmp_path: Path, done: list[str]) -> None:
    write_synced(tmp_path / "mark", bytes(8))
    assert done == ["mark 8"]
    assert (tmp_path / "mark").read_bytes() == bytes(8)


def test_content_is_synced_then_named_then_the_name_is_synced(
    tmp_path: Path, done: list[str]
) -> None:
    (tmp_path / "FORMAT").write_text("old")
    replace_file(tmp_path / "FORMAT", b"new content")
    assert done == ["FORMAT.new 11", "FORMAT.new -> FORMAT", tmp_path.name]
    assert (tmp_path / "FORMAT").read_bytes() == b"new content"
    assert [path.name for path in tmp_path.iterdir()] == ["FORMAT"]


def test_a_failed_sync_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / "FORMAT").write_text("old")
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output"):
        replace_file(tmp_path / "FORMAT", b"new")
    assert (tmp_path / "FORMAT").read_text() == "old"


def test_permissions_hold_from_the_first_byte_on_whatever_was_left(tmp_path: Path) -> None:
    (tmp_path / "key.new").write_text("left of an earlier failure")
    (tmp_path / "key.new").chmod(0o666)
    replace_file(tmp_path / "key", b"secret", mode=0o600)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
