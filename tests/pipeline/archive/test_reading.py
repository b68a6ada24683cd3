"""Reading what an archive has."""

from __future__ import annotations

import pickle
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from tests import seams
from tests.pipeline.archive.support import NOON_NS, ORDERS, TRADES, FakeStores, Stream, batch
from tests.pipeline.archive.test_archiving import newest, run

from quorate.archive.files import Files
from quorate.archive.history import History
from quorate.archive.location import Location
from quorate.archive.reading import Archive
from quorate.archive.rules.parts import Picked
from quorate.pipeline import schema
from quorate.pipeline.archive.upkeep import compact
from quorate.pipeline.stores.decoding import record_batches
from quorate.protocol.answers import Piece
from quorate.protocol.errors import (
    ArchiveInvalid,
    ArchiveUnusable,
    CorruptBatch,
    InvalidArgument,
)
from quorate.protocol.filters.bounds import bounds_of
from quorate.protocol.framing import read_header
from quorate.protocol.ranges import HeldRange, Range, RangeSet

FRAMES = [
    batch(
        first,
        first + 9,
        time_ns=NOON_NS + first * 1000,
        attributes=first == 20,
        passing_ns=-7 if first == 50 else 7 * (first > 0),
    )
    for first in range(0, 60, 10)
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an archive with [0, 59], but for [30, 39], in several files and row groups."""
    seams.ARCHIVING_FILE_BYTES_MAX.replace(monkeypatch, 300)
    seams.FILE_WRITER_ROW_GROUP_ROWS.replace(monkeypatch, 10)
    stream = Stream(frames=[*FRAMES[:3], *FRAMES[4:]], stable_upto=59)
    stream.losses = (HeldRange(30, 39, 1),)
    run(FakeStores({ORDERS: stream}), tmp_path / "archive")
    return tmp_path / "archive"


def live(first: int, last: int, columns: pa.Schema) -> list[dict[str, object]]:
    """The same messages as they would come from stores."""
    pieces = []
    for frame in FRAMES:
        header = read_header(frame)
        begin, end = max(first, header.first), min(last, header.last)
        if begin <= end:
            pieces.append(Piece(frame, header, begin, end))
    return [row for rows in record_batches(pieces, columns) for row in rows.to_pylist()]


@pytest.mark.parametrize(("first", "last"), [(0, 29), (40, 59), (7, 7), (9, 20), (45, 50)])
def test_rows_are_those_that_stores_would_give(path: Path, first: int, last: int) -> None:
    archive = pickle.loads(pickle.dumps(Archive(str(path))))
    batches = list(archive.record_batches(ORDERS, first, last, schema.ARROW))
    assert all(each.schema.equals(schema.ARROW) for each in batches)
    assert [row for each in batches for row in each.to_pylist()] == live(first, last, schema.ARROW)


def test_columns_are_as_wanted(path: Path) -> None:
    archive = Archive(str(path))
    some = pa.schema([schema.ARROW.field("sequence"), schema.ARROW.field("topic")])
    rows = [row for each in archive.record_batches(ORDERS, 5, 6, some) for row in each.to_pylist()]
    assert rows == [{"sequence": 5, "topic": "orders"}, {"sequence": 6, "topic": "orders"}]
    none = archive.record_batches(ORDERS, 5, 26, pa.schema([]))
    assert sum(len(each) for each in none) == 22


def test_a_column_is_not_read_again_with_others(path: Path) -> None:
    archive = Archive(str(path))
    run = archive.run_from(ORDERS, 0)
    assert run is not None
    files = Files(Location(str(path)))
    (before,) = files.batches(run, ["topic", "payload", "epoch"], 0, 4)
    with (path / run.file.path).open("r+b") as file:
        file.truncate(0)
    (again,) = files.batches(run, ["epoch", "topic"], 0, 4)
    assert again.to_pylist() == before.select(["epoch", "topic"]).to_pylist()
    with pytest.raises(ArchiveInvalid, match="cannot be read"):
        files.rows(run, ["epoch", "key"], 0, 4)


def test_batches_are_the_sources(path: Path) -> None:
    pieces = list(Archive(str(path)).pieces(ORDERS, 5, 24))
    assert [piece.frame for piece in pieces] == FRAMES[:3]
    assert [(piece.first, piece.last) for piece in pieces] == [(5, 9), (10, 19), (20, 24)]


def test_what_it_lacks_is_an_error_never_left_out(path: Path) -> None:
    archive = Archive(str(path))
    assert archive.has(ORDERS) == RangeSet([Range(0, 29), Range(40, 59)])
    assert not archive.has(TRADES)
    for first, last in ((0, 59), (29, 30), (59, 60)):
        with pytest.raises(ArchiveInvalid, match="lacks"):
            list(archive.record_batches(ORDERS, first, last, schema.ARROW))
        with pytest.raises(ArchiveInvalid, match="lacks"):
            list(archive.pieces(ORDERS, first, last))


def test_a_version_may_still_be_read_after_a_compaction(path: Path) -> None:
    archive = Archive(str(path))
    assert archive.sources[ORDERS].last == 59
    assert compact(str(path)).before > 1
    rows = archive.record_batches(ORDERS, 0, 29, schema.ARROW)
    assert sum(len(each) for each in rows) == 30


def test_a_file_that_a_vacuum_removes_meanwhile_is_read_from_the_newest_version(
    path: Path,
) -> None:
    old = {file.path for file in newest(path).files}
    archive, begun = Archive(str(path)), Archive(str(path))
    assert archive.sources[ORDERS].last == 59
    rows = begun.record_batches(ORDERS, 0, 29, schema.ARROW)
    first = next(rows).to_pylist()
    compact(str(path))
    remove(path, old)
    assert [*first, *(row for each in rows for row in each.to_pylist())] == live(
        0, 29, schema.ARROW
    )
    assert [piece.frame for piece in archive.pieces(ORDERS, 40, 59)] == FRAMES[4:]


def remove(path: Path, files: set[str]) -> None:
    """Remove the files that a version had, as a vacuum does once they are old."""
    gone = files - {file.path for file in newest(path).files}
    assert gone
    for each in gone:
        (path / each).unlink()


@pytest.mark.parametrize("group_rows", [7, 1000])
def test_compaction_may_cut_batches_and_change_the_order(
    path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int
) -> None:
    seams.ARCHIVE_TABLE_GROUP_ROWS.replace(monkeypatch, range(group_rows, group_rows + 1))
    compact(str(path))
    assert len(newest(path).files) == 1
    archive = Archive(str(path))
    assert [piece.frame for piece in archive.pieces(ORDERS, 0, 29)] == FRAMES[:3]
    pieces = list(archive.pieces(ORDERS, 13, 24))
    assert [(piece.first, piece.last) for piece in pieces] == [(13, 19), (20, 24)]
    parts = list(History(archive).parts({ORDERS: Range(3, 59)}))
    at = 3
    for each in parts:
        if isinstance(each, Piece):
            assert each.first == at
            assert each.frame == FRAMES[each.first // 10]
        at = each.last + 1
    assert at == 60
    rows = archive.record_batches(ORDERS, 5, 25, schema.ARROW)
    assert [row for each in rows for row in each.to_pylist()] == live(5, 25, schema.ARROW)


def test_messages_are_found_by_time(path: Path) -> None:
    archive = Archive(str(path))
    assert archive.first_since(ORDERS, 0) == 0
    assert archive.first_since(ORDERS, NOON_NS + 10_000) == 10
    assert archive.first_since(ORDERS, NOON_NS + 10_001) == 11
    assert archive.first_since(ORDERS, NOON_NS + 10_063) == 19
    assert archive.first_since(ORDERS, NOON_NS + 10_064) == 20
    assert archive.first_since(ORDERS, NOON_NS + 20_064) == 40
    assert archive.first_since(ORDERS, NOON_NS + 50_000) == 50
    assert archive.first_since(ORDERS, NOON_NS + 50_001) is None


def test_bounds_of_a_file_are_those_of_its_messages(path: Path) -> None:
    """A filter by time leaves out no file in which a message can pass."""
    last = {file.numbers.last: file for file in newest(path).files if file.numbers is not None}
    assert last[19].times_ns == (NOON_NS, NOON_NS + 10_063)
    assert last[59].times_ns == (NOON_NS + 40_000, NOON_NS + 50_000)
    bounds = bounds_of(f"$time BETWEEN {(NOON_NS + 10_060) / 1e9} AND {(NOON_NS + 10_070) / 1e9}")
    parts = History(Archive(str(path)), bounds).parts({ORDERS: Range(0, 29)})
    numbers = [n for part in parts if isinstance(part, Picked) for n in part.numbers]
    assert min(numbers) <= 19 <= max(numbers)


def test_a_version_is_read_until_the_archive_is_refreshed(path: Path) -> None:
    archive = Archive(str(path))
    archive.refresh()
    assert set(archive.sources) == {ORDERS}
    table = archive.table
    archive.refresh()
    assert archive.table is table
    run(FakeStores({TRADES: Stream(frames=[batch(0, 9, source=TRADES)], stable_upto=9)}), path)
    assert set(archive.sources) == {ORDERS}
    archive.refresh()
    assert set(archive.sources) == {ORDERS, TRADES}


def test_a_path_without_an_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnusable, match="no archive is there"):
        _ = Archive(str(tmp_path)).sources


def test_a_batch_that_changed_in_a_file_is_an_error(path: Path) -> None:
    """No bit of the pages can change so that another batch comes out of them."""
    file = file_from_0(path)
    good = file.read_bytes()
    refused = 0
    for at in range(4, len(good) - footer_bytes(good), 5):
        file.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        try:
            pieces = list(Archive(str(path)).pieces(ORDERS, 0, 9))
        except (ArchiveInvalid, CorruptBatch):
            refused += 1
        else:
            assert [piece.frame for piece in pieces] == FRAMES[:1], at
    assert refused > 100


def footer_bytes(file: bytes) -> int:
    return int.from_bytes(file[-8:-4], "little") + 8


def test_a_file_of_another_size_or_that_is_missing_is_an_error(path: Path) -> None:
    file = file_from_0(path)
    good = file.read_bytes()
    for bad in (good[:-1], good + b"x", b""):
        file.write_bytes(bad)
        with pytest.raises(ArchiveInvalid, match="bytes, not"):
            list(Archive(str(path)).record_batches(ORDERS, 0, 9, schema.ARROW))
    file.unlink()
    with pytest.raises(ArchiveInvalid, match="the file is missing"):
        list(Archive(str(path)).record_batches(ORDERS, 0, 9, schema.ARROW))


def file_from_0(path: Path) -> Path:
    """The file that begins with the first message."""
    (found,) = (file for file in newest(path).files if file.numbers and not file.numbers.first)
    return path / found.path


def test_histories_that_changed_or_are_missing_are_an_error(path: Path) -> None:
    (file,) = (path / "_sources").iterdir()
    good = file.read_bytes()
    file.write_bytes(good[:-9] + b"?" + good[-8:])
    with pytest.raises(ArchiveInvalid, match="its checksum is"):
        _ = Archive(str(path)).sources
    file.unlink()
    with pytest.raises(ArchiveInvalid, match="it is missing"):
        _ = Archive(str(path)).sources


def test_a_table_of_another_program_is_no_archive(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / "other"), pa.table({"a": [1]}))
    with pytest.raises(ArchiveInvalid):
        _ = Archive(str(tmp_path / "other")).sources


@pytest.mark.long
def test_no_bit_that_flips_in_a_page_gives_other_rows(path: Path) -> None:
    expected = live(0, 9, schema.ARROW)
    file = file_from_0(path)
    good = file.read_bytes()
    refused = 0
    for at in range(4, len(good) - footer_bytes(good)):
        file.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        try:
            batches = list(Archive(str(path)).record_batches(ORDERS, 0, 9, schema.ARROW))
        except ArchiveInvalid:
            refused += 1
        else:
            assert [row for each in batches for row in each.to_pylist()] == expected, at
    assert refused > 100


def test_no_path_is_not_the_directory_one_is_in() -> None:
    with pytest.raises(InvalidArgument, match="none is given; name a directory"):
        Archive("")
