"""The parts of a backup as they are written, and the manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.store.support import Client, running

from quorate.console.group.backup import (
    MANIFEST,
    PartWriter,
    complete,
    copy_running,
    copy_stopped,
    new_directory,
    read_manifest,
)
from quorate.protocol.errors import DataDirectoryInUse, InvalidArgument, NotAStore, Unreachable
from quorate.protocol.identity import StoreAddress
from quorate.v1.store_pb2 import BackupDone, BackupFile, BackupOpened, BackupResponse


def writer(path: Path) -> PartWriter:
    return PartWriter(path, "a:1", lambda *_: None)


def opened(name: str = "a") -> BackupResponse:
    return BackupResponse(opened=BackupOpened(store_name=name, commit=3, bytes=4))


def file(path: str, size: int = 4) -> BackupResponse:
    return BackupResponse(file=BackupFile(path=path, size=size))


def data(content: bytes) -> BackupResponse:
    return BackupResponse(data=content)


def done(files: int = 1) -> BackupResponse:
    return BackupResponse(done=BackupDone(files=files))


def test_a_part_is_complete_with_the_last_answer(tmp_path: Path) -> None:
    part = writer(tmp_path)
    for answer in (opened(), file("rocksdb/CURRENT"), data(b"ab"), data(b"cd")):
        part.take(answer)
        assert part.part is None
    part.take(done())
    assert part.part is not None
    assert (part.part.store, part.part.commit, part.part.bytes) == ("a", 3, 4)
    assert (tmp_path / "a" / "rocksdb" / "CURRENT").read_bytes() == b"abcd"


@pytest.mark.parametrize(
    "name", ["../b", "/etc/passwd", "rocksdb/../../b", "..", ".", "", "a//b", "a\\b"]
)
def test_no_store_writes_outside_its_part(tmp_path: Path, name: str) -> None:
    part = writer(tmp_path / "backup")
    (tmp_path / "backup").mkdir()
    part.take(opened())
    with pytest.raises(NotAStore, match="a file with the name"):
        part.take(file(name))
    with pytest.raises(NotAStore, match="a file with the name"):
        writer(tmp_path / "backup").take(opened(name))
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((opened(), file("x"), data(b"abcde")), "more bytes"),
        ((opened(), data(b"abcd")), "more bytes"),
        ((opened(), file("x"), data(b"ab"), done()), "fewer bytes"),
        ((opened(), file("x"), data(b"ab"), file("y")), "fewer bytes"),
        ((opened(), file("x"), data(b"abcd"), done(2)), "another number of files"),
        ((done(0),), "another number of files"),
    ],
)
def test_a_part_that_is_cut_short_is_no_part(
    tmp_path: Path, answers: tuple[BackupResponse, ...], why: str
) -> None:
    *before, last = answers
    part = writer(tmp_path)
    for answer in before:
        part.take(answer)
    with pytest.raises(NotAStore, match=why):
        part.take(last)
    assert part.part is None
    part.close()


async def test_running_and_stopped_stores_give_the_same_part(tmp_path: Path) -> None:
    new_directory(tmp_path / "one")
    new_directory(tmp_path / "two")
    async with running(tmp_path / "s1") as node, Client(node.address) as client:
        await (await client.stream()).append(0, 9)
        there, gone = StoreAddress("s1", node.address), StoreAddress("s2", "127.0.0.1:1")
        found = await copy_running(tmp_path / "one", [there, gone], 5.0, lambda *_: None)
        assert isinstance(found[gone], Unreachable)
        with pytest.raises(DataDirectoryInUse):
            copy_stopped(tmp_path / "two", tmp_path / "s1", lambda *_: None)
    part = found[there]
    assert not isinstance(part, Exception)
    stopped = copy_stopped(tmp_path / "two", tmp_path / "s1", lambda *_: None)
    backups = [complete(tmp_path / "one", [part]), complete(tmp_path / "two", [stopped])]
    assert [read_manifest(tmp_path / "one"), read_manifest(tmp_path / "two")] == backups
    assert [len(backup.parts) for backup in backups] == [1, 1]


def test_a_directory_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with pytest.raises(InvalidArgument, match="is not empty"):
        new_directory(tmp_path)
    with pytest.raises(InvalidArgument, match="cannot be used"):
        new_directory(tmp_path / "other")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "no backup, or one that was cut off"),
        ("nonsense", "cannot be read"),
        ("{}", "cannot be read"),
        (json.dumps({"format": 2}), "another version, format 2"),
        (json.dumps({"format": 1, "made": "", "problems": [], "parts": [{}]}), "cannot be read"),
    ],
)
def test_a_manifest_that_is_not_there_or_not_readable(
    tmp_path: Path, text: str | None, why: str
) -> None:
    if text is not None:
        (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InvalidArgument, match=why):
        read_manifest(tmp_path)
