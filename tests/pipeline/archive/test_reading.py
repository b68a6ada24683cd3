"""Reading what an archive has."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import seams
from tests.pipeline.archive.support import NOON_NS, ORDERS, TRADES, FakeStores, Stream, batch, here
from tests.pipeline.archive.test_archiving import newest, run

from quorate.archive.history import History
from quorate.archive.reading import Archive
from quorate.pipeline import schema
from quorate.pipeline.archive.compacting import compact
from quorate.pipeline.stores.decoding import record_batches
from quorate.protocol.answers import Piece
from quorate.protocol.errors import ArchiveInvalid, ArchiveUnusable, InvalidArgument
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


def test_a_file_that_was_put_together_with_others_may_still_be_read(path: Path) -> None:
    archive = Archive(str(path))
    assert archive.sources[ORDERS].last == 59
    assert compact(here, str(path)).before > 1
    rows = archive.record_batches(ORDERS, 0, 29, schema.ARROW)
    assert sum(len(each) for each in rows) == 30


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
    manifest = newest(path)
    last = {file.last: file for file in manifest.files}
    assert last[19].last_time_ns == NOON_NS + 10_063
    assert last[59].first_time_ns == NOON_NS + 40_000
    assert last[59].last_time_ns == NOON_NS + 50_000
    bounds = bounds_of(f"$time BETWEEN {(NOON_NS + 10_060) / 1e9} AND {(NOON_NS + 10_070) / 1e9}")
    parts = History(Archive(str(path)), bounds).parts({ORDERS: Range(0, 29)})
    numbers = [n for part in parts if isinstance(part, Piece) for n in (part.first, part.last)]
    assert min(numbers) <= 19 <= max(numbers)


def test_a_manifest_is_read_once_until_there_is_a_newer_one(path: Path) -> None:
    archive = Archive(str(path))
    assert archive.refreshed() is not archive, "nothing was read yet"
    assert set(archive.sources) == {ORDERS}
    assert archive.refreshed() is archive
    run(FakeStores({TRADES: Stream(frames=[batch(0, 9, source=TRADES)], stable_upto=9)}), path)
    newer = archive.refreshed()
    assert set(newer.sources) == {ORDERS, TRADES}
    assert newer.refreshed() is newer


def test_a_path_without_an_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnusable, match="no archive is there"):
        _ = Archive(str(tmp_path)).sources


def test_nothing_in_a_file_can_change_unnoticed(path: Path) -> None:
    file = min(path.glob("data/*/*/*.parquet"))
    good = file.read_bytes()
    changed = [
        good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :]
        for at in range(0, len(good), 5)
    ]
    for bad in (*changed, good[:-1], good + b"x", b""):
        file.write_bytes(bad)
        with pytest.raises(ArchiveInvalid, match=r"its checksum is|bytes, not"):
            list(Archive(str(path)).record_batches(ORDERS, 0, 9, schema.ARROW))
    file.unlink()
    with pytest.raises(ArchiveInvalid, match="No such file"):
        list(Archive(str(path)).record_batches(ORDERS, 0, 9, schema.ARROW))


def test_a_file_is_checked_once_unless_it_was_touched(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed: list[Path] = []
    checksum = seams.ARCHIVE_FILES_CHECKSUM.real()

    def noted(path: Path) -> Any:
        summed.append(path)
        return checksum(path)

    seams.ARCHIVE_FILES_CHECKSUM.replace(monkeypatch, noted)
    file = min(path.glob("data/*/*/*.parquet"))

    def read() -> int:
        return sum(map(len, Archive(str(path)).record_batches(ORDERS, 0, 9, schema.ARROW)))

    assert (read(), read(), summed) == (10, 10, [file])
    os.utime(file, (1, 1))
    assert (read(), summed) == (10, [file, file])


def test_a_forged_file_gives_no_rows(path: Path) -> None:
    """All checksums within Parquet are right again."""
    file = min(path.glob("data/*/*/*.parquet"))
    rows = pq.read_table(file)
    at = rows.schema.get_field_index("payload")
    payloads = [b"forged", *rows.column("payload").to_pylist()[1:]]
    pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array(payloads)), file)
    with pytest.raises(ArchiveInvalid, match=r"its checksum is|bytes, not"):
        list(Archive(str(path)).record_batches(ORDERS, 0, 9, schema.ARROW))


@pytest.mark.long
def test_no_bit_that_flips_in_the_pages_after_they_were_checked_gives_other_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.ARCHIVE_FILES_CHECK_FILE.replace(monkeypatch, lambda *_: None)
    expected = live(0, 9, schema.ARROW)
    file = min(path.glob("data/*/*/*.parquet"))
    good = file.read_bytes()
    refused = 0
    footer = int.from_bytes(good[-8:-4], "little") + 8
    for at in range(4, len(good) - footer):
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
