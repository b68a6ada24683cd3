"""Few files of many: the same content, and readers that are at the old ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.archive.support import DAY_NS, NOON_NS, ORDERS, FakeStores, Stream, batch, here
from tests.pipeline.archive.test_archiving import frames, newest, on_disk, run
from tests.pipeline.archive.test_manifest import WHOLE, file

from quorate.pipeline.archive.archiving import DROPPED_SECONDS
from quorate.pipeline.archive.compacting import compact, together
from quorate.pipeline.archive.tasks import Entry
from quorate.protocol.errors import ArchiveChanged, ArchiveInvalid


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


def test_consecutive_files_of_a_day_become_one(path: Path, stream: Stream) -> None:
    report = compact(here, str(path))
    assert (report.before, report.after) == (4, 1)
    assert [(each.first, each.last) for each in newest(path).files] == [(0, 39), (40, 49)]
    assert frames(path) == stream.frames
    again = compact(here, str(path))
    assert (again.before, again.version) == (0, report.version)


def test_old_files_stay_for_readers_and_go_later(
    path: Path, stream: Stream, stores: FakeStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = on_disk(path)
    compact(here, str(path))
    assert before < on_disk(path)
    dropped = newest(path).dropped
    assert len(dropped) == 4
    stream.frames.append(batch(50, 59))
    stream.stable_upto = 59
    run(stores, path)
    assert before < on_disk(path), "too early"
    later = dropped[0].time_ns + int(DROPPED_SECONDS * 1e9) + 1
    monkeypatch.setattr(time, "time_ns", lambda: later)
    stream.frames.append(batch(60, 69))
    stream.stable_upto = 69
    run(stores, path)
    assert on_disk(path) == {each.path for each in newest(path).files}
    assert newest(path).dropped == ()
    assert frames(path) == stream.frames


def test_archiving_meanwhile_is_not_undone(path: Path, stream: Stream, stores: FakeStores) -> None:
    def slow(parts: Sequence[Any], task: Callable[[Any], Iterator[Entry]]) -> list[Entry]:
        stream.frames.append(batch(50, 59))
        stream.stable_upto = 59
        run(stores, path)
        return here(parts, task)

    with pytest.raises(ArchiveChanged):
        compact(slow, str(path))
    assert frames(path) == stream.frames
    assert compact(here, str(path)).before == 4
    assert frames(path) == stream.frames


def test_a_damaged_file_is_not_made_a_part_of_another(path: Path) -> None:
    manifest = newest(path)
    (path / manifest.files[1].path).write_bytes((path / manifest.files[2].path).read_bytes())
    with pytest.raises(ArchiveInvalid):
        compact(here, str(path))
    assert newest(path) == manifest


def test_what_is_put_together_is_small_and_goes_on() -> None:
    made = [file(0, 9), file(10, 19), file(20, 29), file(40, 49), file(50, 59)]
    assert together(made, 2000, 10_000) == [made[:3], made[3:]]
    assert together(made, 2000, 2000) == [made[:2], made[3:]]
    assert together(made, 1000, 10_000) == []
    large = replace(made[1], bytes=5000)
    assert together([made[0], large, made[2]], 2000, 10_000) == []
    other_day = replace(made[1], first_time_ns=NOON_NS + DAY_NS)
    assert together([made[0], other_day], 2000, 10_000) == []
    assert together(WHOLE.files, 1, 1) == []
