"""The history of several sources in an archive: each in its order, together by time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests import seams
from tests.pipeline.archive.support import (
    DAY_NS,
    NOON_NS,
    ORDERS,
    TRADES,
    FakeStores,
    Stream,
    batch,
)
from tests.pipeline.archive.test_archiving import newest, run

from quorate.archive.history import History
from quorate.archive.reading import Archive
from quorate.archive.rules.parts import Hole, Part, Passed, Picked
from quorate.pipeline.archive.upkeep import compact
from quorate.protocol.answers import Piece
from quorate.protocol.attributes import checked_attributes
from quorate.protocol.errors import ArchiveInvalid
from quorate.protocol.filters.bounds import bounds_of
from quorate.protocol.framing import body_of, check_batch, encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.ranges import HeldRange, Range


def stream(source: SourceName, count: int, *, begin_ns: int, step_ns: int) -> Stream:
    """Batches of ten messages."""
    frames = [
        batch(first, first + 9, source=source, time_ns=begin_ns + first // 10 * step_ns)
        for first in range(0, count, 10)
    ]
    return Stream(frames=frames, stable_upto=count - 1)


def shown(part: Part) -> tuple[object, ...]:
    kind = {Piece: "", Picked: "picked ", Passed: "passed ", Hole: "hole "}[type(part)]
    source = part.header.source if isinstance(part, Piece | Picked) else part.source
    first = None if isinstance(part, Passed) else part.first
    return (kind + source.topic, first, part.last)


def of(path: Path, firsts: dict[SourceName, int], where: str = "$sequence >= 0") -> list[object]:
    archive = Archive(str(path))
    ranges = {name: Range(first, archive.sources[name].last) for name, first in firsts.items()}
    return [shown(each) for each in History(archive, bounds_of(where)).parts(ranges)]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an archive with three days of orders, and two of trades between them."""
    seams.FILE_WRITER_ROW_GROUP_ROWS.replace(monkeypatch, 10)
    both = {
        ORDERS: stream(ORDERS, 60, begin_ns=NOON_NS, step_ns=DAY_NS // 2),
        TRADES: stream(TRADES, 40, begin_ns=NOON_NS + DAY_NS // 4, step_ns=DAY_NS // 2),
    }
    run(FakeStores(both), tmp_path / "archive")
    return tmp_path / "archive"


def test_sources_are_joined_by_time(path: Path) -> None:
    assert of(path, {TRADES: 0, ORDERS: 0}) == [
        ("orders", 0, 9),
        ("trades", 0, 9),
        ("orders", 10, 19),
        ("trades", 10, 19),
        ("orders", 20, 29),
        ("trades", 20, 29),
        ("orders", 30, 39),
        ("trades", 30, 39),
        ("orders", 40, 49),
        ("orders", 50, 59),
    ]


def test_each_source_begins_at_its_number(path: Path) -> None:
    assert of(path, {ORDERS: 35, TRADES: 39}) == [
        ("orders", 35, 39),
        ("trades", 39, 39),
        ("orders", 40, 49),
        ("orders", 50, 59),
    ]


def test_a_range_may_end_anywhere(path: Path) -> None:
    parts = History(Archive(str(path)), bounds_of("$sequence < 15")).parts({ORDERS: Range(5, 33)})
    assert list(map(shown, parts)) == [
        ("orders", 5, 9),
        ("orders", 10, 15),
        ("passed orders", None, 19),
        ("passed orders", None, 29),
        ("passed orders", None, 33),
    ]
    (part,) = History(Archive(str(path))).parts({ORDERS: Range(60, 70)})
    assert shown(part) == ("hole orders", 60, 70)


def test_sources_beyond_the_bound_wait_for_a_run_to_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.FILE_WRITER_ROW_GROUP_ROWS.replace(monkeypatch, 20)
    seams.ARCHIVE_HISTORY_RUNS_MAX.replace(monkeypatch, 1)
    # The first day of orders has one batch, the next ones two.
    assert of(path, {ORDERS: 0, TRADES: 0})[:5] == [
        ("orders", 0, 9),
        ("trades", 0, 9),
        ("orders", 10, 19),
        ("orders", 20, 29),
        ("trades", 10, 19),
    ]


def test_what_cannot_pass_is_not_read(path: Path) -> None:
    (day,) = {file.path for file in newest(path).files if file.numbers == Range(30, 49)}
    (path / day).write_bytes(b"damaged")
    with pytest.raises(ArchiveInvalid):
        of(path, {ORDERS: 0})
    early = f"$time < {(NOON_NS + DAY_NS) / 1e9}"
    assert of(path, {ORDERS: 0}, early) == [
        ("picked orders", 0, 9),
        ("picked orders", 10, 19),
        ("passed orders", None, 29),
        ("passed orders", None, 49),
        ("passed orders", None, 59),
    ]
    assert of(path, {ORDERS: 5}, "$sequence BETWEEN 12.5 AND 24 AND $topic = 'orders'") == [
        ("passed orders", None, 9),
        ("passed orders", None, 12),
        ("orders", 13, 19),
        ("orders", 20, 24),
        ("passed orders", None, 29),
        ("passed orders", None, 49),
        ("passed orders", None, 59),
    ]
    assert of(path, {ORDERS: 0}, "$topic = 'trades'") == [
        ("passed orders", None, number) for number in (9, 29, 49, 59)
    ]


def test_what_the_archive_lacks_is_a_hole(tmp_path: Path) -> None:
    orders = stream(ORDERS, 60, begin_ns=NOON_NS, step_ns=1000)
    orders.frames = [*orders.frames[1:3], *orders.frames[4:]]
    orders.losses, orders.retained_from = (HeldRange(30, 39, 1),), 10
    run(FakeStores({ORDERS: orders}), tmp_path / "archive")
    assert of(tmp_path / "archive", {ORDERS: 3}) == [
        ("hole orders", 3, 9),
        ("orders", 10, 19),
        ("orders", 20, 29),
        ("hole orders", 30, 39),
        ("orders", 40, 49),
        ("orders", 50, 59),
    ]


def test_compaction_may_replace_files_meanwhile(path: Path) -> None:
    more = stream(ORDERS, 80, begin_ns=NOON_NS, step_ns=DAY_NS // 2)
    run(FakeStores({ORDERS: more}), path)
    archive = Archive(str(path))
    parts = History(archive).parts({ORDERS: Range(0, 79)})
    found = [shown(next(parts))]
    old = {file.path for file in newest(path).files}
    compact(str(path))
    gone = old - {file.path for file in newest(path).files}
    assert gone
    for each in gone:
        (path / each).unlink()
    found += map(shown, parts)
    assert found == [("orders", first, first + 9) for first in range(0, 80, 10)]


def test_picked_messages_are_found_in_the_newest_version_too(path: Path) -> None:
    more = stream(ORDERS, 80, begin_ns=NOON_NS, step_ns=DAY_NS // 2)
    run(FakeStores({ORDERS: more}), path)
    archive = Archive(str(path))
    where = bounds_of(f"$time >= {NOON_NS / 1e9!r}")
    parts = History(archive, where).parts({ORDERS: Range(0, 79)})
    next(parts)
    old = {file.path for file in newest(path).files}
    compact(str(path))
    for each in old - {file.path for file in newest(path).files}:
        (path / each).unlink()
    found = [part for part in parts if isinstance(part, Picked)]
    assert [n for part in found for n in part.numbers] == list(range(10, 80))


@pytest.mark.parametrize("group_rows", [10, 1000])
@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("$key = 'key 25' AND price IS NULL", [[25]]),
        ("$key IN ('key 1', 'key 25', 'key 26', 'none')", [[1], [25, 26]]),
        ("$properties.a = '33'", [[33]]),
        ("$properties.a IN ('33', '5') AND $key = 'key 5'", [[5]]),
        ("$key = 'key 8' OR $properties.a = '11' OR $properties.a >= '7'", [[7, 8, 9], [11]]),
        ("$properties.c = 'x'", []),
        ("$key = 'key 3'", []),
        (
            f"$time >= {NOON_NS / 1e9 + 20!r} AND $time < {NOON_NS / 1e9 + 50!r}",
            [[*range(20, 30)], [*range(30, 40)]],
        ),
    ],
)
def test_messages_that_cannot_pass_are_not_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    group_rows: int,
    where: str,
    found: list[list[int]],
) -> None:
    seams.FILE_WRITER_ROW_GROUP_ROWS.replace(monkeypatch, group_rows)
    second = 10**9
    frames = [
        batch(first, first + 9, time_ns=NOON_NS + first * second, attributes=True, passing_ns=7)
        for first in range(0, 40, 10)
    ]
    run(FakeStores({ORDERS: Stream(frames=frames, stable_upto=39)}), tmp_path / "archive")
    archive = Archive(str(tmp_path / "archive"))
    parts = list(History(archive, bounds_of(where)).parts({ORDERS: Range(0, 39)}))
    picked = [each for each in parts if isinstance(each, Picked)]
    assert [each.numbers for each in picked] == found
    at = 0
    for each in parts:
        if isinstance(each, Picked):
            assert each.first == at, "those before were passed"
            assert contents(each.frame, each.numbers) == contents(frames[at // 10], each.numbers)
        at = each.last + 1
    assert at == 40


@pytest.mark.parametrize("group_rows", [10, 1000])
@pytest.mark.parametrize(
    ("where", "form", "found"),
    [
        ("price >= 33", PayloadFormat.JSON, [[33], [34, 35], [37, 38, 39]]),
        ("$key = 'key 35' AND price >= 33", PayloadFormat.JSON, [[35]]),
        ("$key = 'key 5' AND price >= 33", PayloadFormat.JSON, []),
        ("price = -1 OR name = 'none'", PayloadFormat.JSON, []),
        ("$key = 'key 5' AND price >= 33", PayloadFormat.MSGPACK, [[5]]),
    ],
)
def test_payloads_that_cannot_pass_are_not_decoded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    group_rows: int,
    where: str,
    form: PayloadFormat,
    found: list[list[int]],
) -> None:
    seams.FILE_WRITER_ROW_GROUP_ROWS.replace(monkeypatch, group_rows)
    frames = [
        encode_batch(
            ORDERS,
            1,
            first,
            [b'{"price": %d}' % (n if n != 36 else 3) for n in range(first, last + 1)],
            NOON_NS,
            attributes=[
                checked_attributes(b"key %d" % n, {}, False, None) for n in range(first, last + 1)
            ],
        )
        for first, last in ((0, 33), (34, 36), (37, 39))
    ]
    run(FakeStores({ORDERS: Stream(frames=frames, stable_upto=39)}), tmp_path / "archive")
    archive = Archive(str(tmp_path / "archive"))
    parts = History(archive, bounds_of(where), form).parts({ORDERS: Range(0, 39)})
    assert [each.numbers for each in parts if isinstance(each, Picked)] == found


def contents(frame: bytes, numbers: Sequence[int]) -> list[object]:
    """Return the contents of a batch for each of these messages: its own, or ten in a row."""
    header = check_batch(frame)
    body = body_of(frame, header)
    columns = (
        body.read_payloads(),
        body.read_every_attributes(),
        body.read_times(header.timestamp_ns),
    )
    rows = [*zip(*columns, strict=True)]
    return list(rows) if len(rows) == len(numbers) else [rows[number % 10] for number in numbers]
