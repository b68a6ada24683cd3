"""Few files of many: the same content, and readers that are at the old ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests import seams
from tests.pipeline.archive.support import DAY_NS, NOON_NS, ORDERS, FakeStores, Stream, batch
from tests.pipeline.archive.test_archiving import frames, newest, numbers, on_disk, rows, run

from quorate.archive.location import Location
from quorate.pipeline.archive.upkeep import compact, vacuum
from quorate.protocol.errors import ArchiveUnusable, InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def stores(stream: Stream) -> FakeStores:
    return FakeStores({ORDERS: stream})


@pytest.fixture
def path(tmp_path: Path, stream: Stream, stores: FakeStores) -> Path:
    """An archive with five small files, the last of another day."""
    for first in range(0, 50, 10):
        time_ns = NOON_NS + (DAY_NS if first == 40 else 0)
        stream.frames.append(batch(first, first + 9, time_ns=time_ns, marker=b"%d" % first))
        stream.stable_upto = first + 9
        run(stores, tmp_path / "archive")
    return tmp_path / "archive"


def test_files_of_a_day_become_one(path: Path, stream: Stream) -> None:
    report = compact(str(path))
    assert (report.before, report.after) == (4, 1)
    files = newest(path).files
    assert [(each.numbers, each.count) for each in files] == [
        (Range(0, 39), 40),
        (Range(40, 49), 10),
    ]
    assert frames(path) == stream.frames
    assert rows(path) == numbers(0, 49)
    again = compact(str(path))
    assert (again.before, again.version) == (0, report.version)


def test_old_files_stay_for_readers_and_go_later(path: Path, stream: Stream) -> None:
    before = on_disk(path)
    compact(str(path))
    assert before < on_disk(path)
    histories = set((path / "_sources").iterdir())
    assert vacuum(str(path)).removed == (), "too early"
    for each in histories:
        os.utime(each, (0, 0))
    removed = vacuum(str(path)).removed
    assert len(removed) == len(histories) - 1, "all but the newest histories"
    assert newest(path).sources[ORDERS].last == 49
    assert frames(path) == stream.frames


def test_what_a_vacuum_leaves_is_whole(
    path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact(str(path))
    synced: list[str] = []
    sync = seams.ARCHIVE_LOCATION_SYNC.real()

    def noted(location: Location, paths: list[str]) -> None:
        synced.extend(paths)
        sync(location, paths)

    seams.ARCHIVE_LOCATION_SYNC.replace(monkeypatch, noted)
    seams.ARCHIVE_TABLE_VACUUM_SECONDS_MIN.replace(monkeypatch, 0)
    removed = vacuum(str(path), keep_seconds=0).removed
    assert len([each for each in removed if not each.startswith("_")]) == 4
    assert {each.path for each in newest(path).files} <= set(synced)
    assert on_disk(path) == {each.path for each in newest(path).files}
    assert frames(path) == stream.frames
    assert rows(path) == numbers(0, 49)


def test_a_vacuum_leaves_what_a_job_may_need(path: Path) -> None:
    with pytest.raises(InvalidArgument, match="the least is an hour"):
        vacuum(str(path), keep_seconds=3599)


def test_a_damaged_file_fails_a_compaction_and_changes_nothing(path: Path) -> None:
    before = newest(path)
    (path / before.files[1].path).write_bytes(b"damaged")
    with pytest.raises(ArchiveUnusable):
        compact(str(path))
    assert newest(path).version == before.version


def test_a_topic_that_is_too_long_for_a_directory_stays_in_small_files(
    path: Path, stores: FakeStores
) -> None:
    long = SourceName("/" * 100, 0x10)
    stream = Stream()
    stores.streams[long] = stream
    for first in (0, 10):
        stream.frames.append(batch(first, first + 9, source=long))
        stream.stable_upto = first + 9
        run(stores, path)
    report = compact(str(path))
    assert (report.before, report.after, report.left_out) == (4, 1, (long.topic,))
    assert frames(path, long) == stream.frames
    assert len([file for file in newest(path).files if file.topic == long.topic]) == 2


@pytest.mark.parametrize("topic", ["a b/ü%", "a=b", "..", "%2F", "day=1"])
def test_any_topic_can_be_archived_and_compacted(
    path: Path, stores: FakeStores, topic: str
) -> None:
    name = SourceName(topic, 0x10)
    stream = Stream()
    stores.streams[name] = stream
    for first in (0, 10):
        stream.frames.append(batch(first, first + 9, source=name))
        stream.stable_upto = first + 9
        run(stores, path)
        assert frames(path, name) == stream.frames
    assert compact(str(path)).before == 6
    assert frames(path, name) == stream.frames
    assert rows(path) == sorted([*numbers(0, 49), *numbers(0, 19, name)])
