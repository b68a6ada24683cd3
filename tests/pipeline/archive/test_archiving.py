"""From the stores to Parquet: what is written, what is not, and what happens when it is cut off."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyspark.sql import SparkSession
from tests import seams
from tests.pipeline.archive.support import (
    DAY_NS,
    MEMBERSHIP,
    NOON_NS,
    ORDERS,
    TRADES,
    FakeStores,
    Stream,
    batch,
    here,
)
from tests.pipeline.group import Group, numbered

from quorate.archive.location import Location
from quorate.archive.reading import Archive
from quorate.archive.rules.source import BatchMark
from quorate.archive.table import Table
from quorate.pipeline import schema
from quorate.pipeline.archive.archiving import ArchiveReport, archive
from quorate.pipeline.archive.tasks import Entry, cause, on_spark
from quorate.pipeline.archive.upkeep import compact, vacuum
from quorate.pipeline.errors import MessagesGone, TaskFailed
from quorate.pipeline.stores.client import Stores
from quorate.protocol.errors import ArchiveChanged, ArchiveDiffers, ArchiveUnusable, MissingMessages
from quorate.protocol.framing import read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.recovery import Marker

SECOND = Lineage((Term(1, 0), Term(4, 50)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def run(stores: Stores, path: Path, **fields: Any) -> ArchiveReport:
    return archive(here, stores, str(path), **fields)


def newest(path: Path) -> Table:
    table = Table.open(Location(str(path)))
    assert table is not None
    return table


def frames(path: Path, source: SourceName = ORDERS) -> list[bytes]:
    """All batches of a source, as they are made again from the archive."""
    archive = Archive(str(path))
    return [
        piece.frame
        for each in archive.has(source)
        for piece in archive.pieces(source, each.first, each.last)
    ]


def rows(path: Path) -> list[tuple[str, str, int]]:
    """The topic, the source and the number of each row, as other programs read the table."""
    table = deltalake.DeltaTable(str(path)).to_pyarrow_table(
        columns=["topic", "source", "sequence"]
    )
    return sorted(tuple(row.values()) for row in table.to_pylist())


def numbers(first: int, last: int, source: SourceName = ORDERS) -> list[tuple[str, str, int]]:
    return [(source.topic, f"{source.session_id:#x}", n) for n in range(first, last + 1)]


def on_disk(path: Path) -> set[str]:
    return {
        str(each.relative_to(path))
        for each in path.rglob("*.parquet")
        if not each.relative_to(path).parts[0].startswith("_")
    }


# What is archived.


def test_batches_come_back_byte_for_byte(path: Path) -> None:
    made = [
        batch(0, 9),
        batch(10, 49, marker=b"job 7"),
        batch(50, 69, 4, attributes=True),
        batch(70, 70, 4, attributes=True, time_ns=NOON_NS + 1, marker=b"job 8"),
    ]
    stores = FakeStores({ORDERS: Stream(SECOND, made, 70)})
    report = run(stores, path)
    assert (report.messages, report.failures, report.version) == (71, {}, 1)
    assert frames(path) == made


def test_the_table_says_what_is_in_it(path: Path) -> None:
    stream = Stream(SECOND, [batch(0, 49), batch(50, 99, 4, time_ns=NOON_NS + 5)], 99)
    stream.promised_epoch = 9
    run(
        FakeStores(
            {ORDERS: stream, TRADES: Stream(frames=[batch(0, 4, source=TRADES)], stable_upto=4)}
        ),
        path,
    )
    table = newest(path)
    source = table.sources[ORDERS]
    assert (source.first, source.last, source.lineage) == (0, 99, SECOND)
    assert (source.membership, source.promised_epoch, source.reg_id) == (MEMBERSHIP, 9, 7)
    assert source.information.version == 3
    assert source.last_batch == BatchMark(50, read_header(stream.frames[1]).checksum)
    file = table.files[0]
    assert (file.topic, file.day, file.count, file.numbers) == (
        *("orders", "2026-11-21", 100),
        Range(0, 99),
    )
    assert file.alone == "0x10"
    assert file.times_ns == (NOON_NS, NOON_NS + 5)
    assert file.bytes == (path / file.path).stat().st_size
    assert file.path.startswith("topic=orders/day=2026-11-21/")
    assert table.sources[TRADES].last == 4
    assert table.transaction > 0


def test_rows_have_the_columns_that_spark_reads(path: Path) -> None:
    run(FakeStores({ORDERS: Stream(frames=[batch(0, 2, attributes=True)], stable_upto=2)}), path)
    table = deltalake.DeltaTable(str(path)).to_pyarrow_table()
    assert {*schema.ARROW.names, "batch_first", "batch_checksum", "marker"} < {*table.column_names}
    rows = table.to_pylist()
    assert [(row["topic"], row["source"], row["sequence"], row["epoch"]) for row in rows] == [
        ("orders", "0x10", n, 1) for n in range(3)
    ]
    assert [row["payload"] for row in rows] == [b"message %d" % n for n in range(3)]
    assert [row["key"] for row in rows] == [None, b"key 1", b"key 2"]
    assert rows[1]["properties"] == [("a", b"1"), ("b", b"\0")]
    assert {row["timestamp"].isoformat() for row in rows} == {"2026-11-21T12:00:00.123456+00:00"}
    assert {row["timestamp_ns"] for row in rows} == {NOON_NS}
    assert {row["day"].isoformat() for row in rows} == {"2026-11-21"}
    assert [row["deleted"] for row in rows] == [False, True, False]
    assert [row["expires_ns"] for row in rows] == [None, NOON_NS + 1, NOON_NS + 2]


def test_running_it_again_does_nothing_twice(path: Path) -> None:
    stream = Stream(frames=[batch(0, 49)], stable_upto=49)
    stores = FakeStores({ORDERS: stream})
    run(stores, path)
    before = on_disk(path)
    again = run(stores, path)
    assert (again.messages, again.version, on_disk(path)) == (0, 1, before)
    stream.frames.append(batch(50, 99))
    stream.stable_upto = 99
    assert (run(stores, path).messages, newest(path).version) == (50, 2)
    assert frames(path) == stream.frames


def test_only_batches_that_are_stable_as_a_whole_are_archived(path: Path) -> None:
    stream = Stream(frames=[batch(0, 49), batch(50, 99)], stable_upto=70)
    stores = FakeStores({ORDERS: stream})
    assert run(stores, path).messages == 50
    stream.stable_upto = 99
    run(stores, path)
    assert frames(path) == stream.frames


@pytest.mark.parametrize(
    ("before_ns", "archived"), [(0, 0), (NOON_NS, 0), (NOON_NS + 30, 30), (NOON_NS + 35, 30)]
)
def test_only_what_is_older_than_a_time_is_archived(
    path: Path, before_ns: int, archived: int
) -> None:
    # Of a batch of which a part is older, nothing is archived, and nothing behind it.
    made = [
        batch(first, first + 9, time_ns=NOON_NS + first, passing_ns=1) for first in range(0, 40, 10)
    ]
    stores = FakeStores({ORDERS: Stream(frames=made, stable_upto=39)})
    assert run(stores, path, before_ns=before_ns).messages == archived
    assert run(stores, path, before_ns=before_ns).messages == 0
    assert run(stores, path).messages == 40 - archived
    assert frames(path) == made


def test_an_older_batch_behind_a_newer_one_waits_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.ARCHIVING_PART_MESSAGES_MIN.replace(monkeypatch, 10)
    made = [batch(0, 9), batch(10, 19, time_ns=NOON_NS + DAY_NS), batch(20, 29), batch(30, 39)]
    stores = FakeStores({ORDERS: Stream(frames=made, stable_upto=39)})
    assert run(stores, path, parts=4, before_ns=NOON_NS + 1).messages == 10
    assert rows(path) == numbers(0, 9), "the files of the later parts were left out"
    run(stores, path, parts=4)
    assert frames(path) == made
    assert rows(path) == numbers(0, 39)


def test_of_a_batch_that_an_epoch_cut_off_the_rest_is_archived(path: Path) -> None:
    stream = Stream(SECOND, [batch(0, 69), batch(50, 99, 4, salt="new ")], 99)
    run(FakeStores({ORDERS: stream}), path)
    assert frames(path) == [batch(0, 49), batch(50, 99, 4, salt="new ")]
    # Also if it is the last that is known to be stable.
    stream.stable_upto = 49
    other = path.parent / "other"
    assert run(FakeStores({ORDERS: stream}), other).messages == 50


def test_days_have_files_of_their_own(path: Path) -> None:
    tomorrow = NOON_NS + DAY_NS
    made = [batch(0, 9), batch(10, 19, time_ns=tomorrow), batch(20, 29), batch(30, 39)]
    run(FakeStores({ORDERS: Stream(frames=made, stable_upto=39)}), path)
    made_files = newest(path).files
    assert [(each.numbers, each.count, each.day) for each in made_files] == [
        (Range(0, 39), 30, "2026-11-21"),
        (Range(10, 19), 10, "2026-11-22"),
    ]
    assert frames(path) == made


def test_sources_of_a_topic_share_a_file(path: Path) -> None:
    names = [SourceName("orders", session) for session in (0x9, 0x10, 0x8000_0000_0000_0000)]
    streams = {
        name: Stream(frames=[batch(0, 9, source=name), batch(10, 14, source=name)], stable_upto=14)
        for name in names
    }
    stores = FakeStores(streams)
    run(stores, path)
    (file,) = newest(path).files
    assert (file.count, file.alone, file.sources) == (45, None, ("0x10", "0x9"))
    for name in names:
        assert frames(path, name) == streams[name].frames
    assert rows(path) == sorted(row for name in names for row in numbers(0, 14, name))


def test_more_days_than_files_may_be_open(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seams.FILE_WRITER_OPEN_MAX.replace(monkeypatch, 2)
    seams.FILE_WRITER_WAITING_BYTES.replace(monkeypatch, 1)
    made = [
        batch(first, first + 9, time_ns=NOON_NS + first % 40 // 10 * DAY_NS)
        for first in range(0, 120, 10)
    ]
    run(FakeStores({ORDERS: Stream(frames=made, stable_upto=119)}), path)
    assert len(newest(path).files) == 12
    assert frames(path) == made


def test_parts_are_cut_between_batches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seams.ARCHIVING_PART_MESSAGES_MIN.replace(monkeypatch, 10)
    made = [batch(first, first + 6) for first in range(0, 70, 7)]
    run(FakeStores({ORDERS: Stream(frames=made, stable_upto=69)}), path, parts=3)
    made_files = newest(path).files
    assert len(made_files) == 3
    assert [each.numbers.first % 7 for each in made_files if each.numbers] == [0, 0, 0]
    assert frames(path) == made


def test_a_part_behind_a_hole_is_left_out_and_its_other_sources_are_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.ARCHIVING_PART_MESSAGES_MIN.replace(monkeypatch, 10)
    made = [batch(first, first + 9) for first in range(0, 40, 10)]
    stream = Stream(frames=[made[0], *made[2:]], stable_upto=39)
    trades = Stream(frames=[batch(0, 9, source=TRADES)], stable_upto=9)
    stores = FakeStores({ORDERS: stream, TRADES: trades})
    report = run(stores, path, parts=2)
    assert isinstance(report.failures[ORDERS], MissingMessages)
    assert rows(path) == sorted([*numbers(0, 9), *numbers(0, 9, TRADES)])
    stream.frames = made
    assert run(stores, path, parts=2).failures == {}
    assert rows(path) == sorted([*numbers(0, 39), *numbers(0, 9, TRADES)])
    assert frames(path) == made


def test_large_files_are_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seams.ARCHIVING_FILE_BYTES_MAX.replace(monkeypatch, 500)
    made = [batch(first, first + 9) for first in range(0, 100, 10)]
    run(FakeStores({ORDERS: Stream(frames=made, stable_upto=99)}), path)
    assert len(newest(path).files) > 1
    assert frames(path) == made


def test_accepted_losses_are_noted_and_stay_noted(path: Path) -> None:
    made = [batch(0, 9), batch(20, 49)]
    stream = Stream(frames=made, stable_upto=49, losses=(HeldRange(10, 19, 1),))
    stores = FakeStores({ORDERS: stream})
    assert run(stores, path).messages == 40
    assert newest(path).sources[ORDERS].losses == (HeldRange(10, 19, 1),)
    # What the archive has is not lost, whoever loses it later.
    stream.frames, stream.stable_upto = [batch(50, 59)], 59
    stream.losses = (HeldRange(0, 49, 1),)
    run(stores, path)
    assert newest(path).sources[ORDERS].losses == (HeldRange(10, 19, 1),)
    assert frames(path) == [*made, batch(50, 59)]


def test_an_archive_begins_where_the_first_begins_that_anybody_has(path: Path) -> None:
    stream = Stream(frames=[batch(20, 49)], stable_upto=49, losses=(HeldRange(0, 19, 1),))
    run(FakeStores({ORDERS: stream}), path)
    source = newest(path).sources[ORDERS]
    assert (source.first, source.last, source.losses) == (20, 49, ())


def test_what_stores_have_let_go_is_no_part_of_an_archive(path: Path) -> None:
    below = Marker(14, 1, b"job 7")
    stream = Stream(frames=[batch(20, 49)], stable_upto=49, retained_from=20)
    stream.markers = (below, Marker(30, 1, b"job 8"))
    assert run(FakeStores({ORDERS: stream}), path).failures == {}
    source = newest(path).sources[ORDERS]
    assert (source.first, source.last, source.losses, source.marker) == (20, 49, (), below)


def test_what_one_store_still_has_is_archived_though_others_let_it_go(path: Path) -> None:
    frames_left = [batch(0, 9), batch(20, 29), batch(30, 49)]
    stream = Stream(frames=frames_left, stable_upto=49, retained_from=30)
    run(FakeStores({ORDERS: stream}), path)
    assert newest(path).sources[ORDERS].first == 20, "and [10, 19] nobody has any more"
    assert frames(path) == frames_left[1:]


def test_what_stores_let_go_too_early_is_told_once_and_the_rest_archived(path: Path) -> None:
    stream = Stream(frames=[batch(0, 9)], stable_upto=9)
    stores = FakeStores({ORDERS: stream})
    run(stores, path)
    stream.frames, stream.stable_upto, stream.retained_from = [batch(20, 29)], 29, 20
    report = run(stores, path)
    error = report.failures[ORDERS]
    assert isinstance(error, MessagesGone)
    assert (error.first, error.last) == (10, 19)
    assert newest(path).sources[ORDERS].losses == (HeldRange(10, 19, 1),)
    assert frames(path) == [batch(0, 9), batch(20, 29)]
    assert run(stores, path).failures == {}


def test_stores_are_told_what_is_archived_and_only_that(path: Path) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 9), batch(10, 19)], stable_upto=15)})
    run(stores, path)
    assert stores.archived == {ORDERS: 9}
    stores.archived.clear()
    run(stores, path)
    assert stores.archived == {ORDERS: 9}, "one may have been away"
    other = FakeStores({ORDERS: Stream(SECOND, [batch(0, 9)], 9)})
    other.streams[ORDERS].lineage = Lineage((Term(5, 0),))
    run(other, path)
    assert other.archived == {}, "what differs is in no archive"


# What is not.


def test_a_hole_ends_what_is_archived_and_is_reported(path: Path) -> None:
    stream = Stream(frames=[batch(0, 9), batch(20, 49)], stable_upto=49)
    other = Stream(frames=[batch(0, 9, source=TRADES)], stable_upto=9)
    report = run(FakeStores({ORDERS: stream, TRADES: other}), path)
    error = report.failures[ORDERS]
    assert isinstance(error, MissingMessages)
    assert (error.first, error.last) == (10, 19)
    assert frames(path) == [batch(0, 9)]
    assert rows(path) == sorted([*numbers(0, 9), *numbers(0, 9, TRADES)])
    assert newest(path).sources[TRADES].last == 9, "the others are not kept from it"


def test_a_newer_lineage_of_what_comes_later_is_followed(path: Path) -> None:
    stream = Stream(frames=[batch(0, 49)], stable_upto=49)
    stores = FakeStores({ORDERS: stream})
    run(stores, path)
    stream.lineage, stream.stable_upto = SECOND, 99
    stream.frames.append(batch(50, 99, 4))
    run(stores, path)
    assert newest(path).sources[ORDERS].lineage == SECOND
    assert frames(path) == stream.frames


def test_another_lineage_of_what_is_archived_is_refused(path: Path) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 99)], stable_upto=99)})
    run(stores, path)
    stores.streams[ORDERS] = Stream(SECOND, [batch(0, 49), batch(50, 149, 4)], 149)
    report = run(stores, path)
    error = report.failures[ORDERS]
    assert isinstance(error, ArchiveDiffers)
    assert error.first == 50
    assert newest(path).sources[ORDERS].last == 99


def test_a_stream_that_began_anew_with_the_same_epochs_is_noticed(path: Path) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 99)], stable_upto=99)})
    run(stores, path)
    stream = Stream(frames=[batch(0, 99, time_ns=NOON_NS + 77)], stable_upto=99)
    stores.streams[ORDERS] = stream
    assert isinstance(run(stores, path).failures[ORDERS], ArchiveDiffers)


@pytest.mark.long
def test_a_stream_that_began_anew_is_noticed_though_nothing_else_is_new(
    group: Group, path: Path
) -> None:
    stores = Stores(group.addresses, "anew")
    name = group.publish("anew", numbered(0, 9))
    assert run(stores, path).messages == 10
    assert run(stores, path).messages == 0
    with group.open("anew") as source:
        source.deregister()
    group.publish("anew", numbered(10, 19))
    known = stores.sources().sources[name]
    assert (known.stable_upto, known.archived_upto) == (9, -1)
    report = run(stores, path)
    assert (report.messages, list(report.failures)) == (0, [name])
    assert stores.sources().sources[name].archived_upto == -1


def test_stores_that_know_less_than_the_archive_are_no_failure(path: Path) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 99)], stable_upto=99)})
    run(stores, path)
    stores.streams[ORDERS].stable_upto = 49
    report = run(stores, path)
    assert (report.messages, report.failures) == (0, {})
    assert "up to 49" in report.notes[0]


# Cut off, and two at once.


def test_a_crash_before_the_commit_leaves_garbage_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 49)], stable_upto=49)})
    with monkeypatch.context() as patch:

        def dies(*_: object) -> None:
            raise KeyboardInterrupt

        seams.ARCHIVE_TABLE_COMMIT.replace(patch, dies)
        with pytest.raises(KeyboardInterrupt):
            run(stores, path)
    left = on_disk(path)
    assert len(left) == 1
    assert (newest(path).transaction, rows(path)) == (0, [])
    # The stream went on meanwhile, so that the next run writes another file.
    stores.streams[ORDERS].frames.append(batch(50, 59))
    stores.streams[ORDERS].stable_upto = 59
    run(stores, path)
    assert frames(path) == [batch(0, 49), batch(50, 59)]
    assert rows(path) == numbers(0, 59)
    assert set(vacuum(str(path)).removed) == set(), "it could be of a job that still runs"
    for each in left:
        os.utime(path / each, (0, 0))
    assert set(vacuum(str(path)).removed) == left
    assert on_disk(path) == {each.path for each in newest(path).files}
    assert frames(path) == [batch(0, 49), batch(50, 59)]


def test_a_commit_of_which_nobody_heard_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an object store had taken it, and the connection broke before the answer."""
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 49)], stable_upto=49)})
    commit = seams.ARCHIVE_TABLE_COMMIT.real()
    with monkeypatch.context() as patch:

        def breaks(*arguments: Any) -> None:
            commit(*arguments)
            raise OSError(errno.ECONNRESET, "reset by peer")

        seams.ARCHIVE_TABLE_COMMIT.replace(patch, breaks)
        report = run(stores, path)
    assert (report.messages, report.version, stores.archived) == (50, 1, {ORDERS: 49})
    assert run(stores, path).messages == 0
    assert rows(path) == numbers(0, 49)


def test_a_commit_that_fails_is_an_error_and_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 49)], stable_upto=49)})
    with monkeypatch.context() as patch:

        def breaks(*_: object) -> None:
            raise OSError(errno.ECONNRESET, "reset by peer")

        seams.ARCHIVE_TABLE_COMMIT.replace(patch, breaks)
        with pytest.raises(ArchiveUnusable, match="reset by peer"):
            run(stores, path)
    assert (newest(path).transaction, stores.archived) == (0, {})


def test_of_two_at_once_one_loses_and_nothing_is_broken(path: Path) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 49)], stable_upto=49)})

    def slow(parts: Sequence[Any], task: Callable[[Any], Iterator[Entry]]) -> list[Entry]:
        told = here(parts, task)
        run(stores, path)  # another one is faster
        return told

    with pytest.raises(ArchiveChanged):
        archive(slow, stores, str(path))
    assert newest(path).version == 1
    assert frames(path) == [batch(0, 49)]
    assert rows(path) == numbers(0, 49)
    assert run(stores, path).messages == 0


def test_a_job_does_not_mind_a_compaction_meanwhile(path: Path) -> None:
    stream = Stream()
    stores = FakeStores({ORDERS: stream})
    for first in (0, 10, 20):
        stream.frames.append(batch(first, first + 9))
        stream.stable_upto = first + 9
        run(stores, path)
    stream.frames.append(batch(30, 39))
    stream.stable_upto = 39

    def slow(parts: Sequence[Any], task: Callable[[Any], Iterator[Entry]]) -> list[Entry]:
        told = here(parts, task)
        assert compact(str(path)).before == 3
        return told

    assert archive(slow, stores, str(path)).messages == 10
    assert frames(path) == stream.frames
    assert rows(path) == numbers(0, 39)
    assert len(newest(path).files) == 2


def test_a_file_that_can_not_be_finished_is_removed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    seams.ROWS_OF_IN_FILE_WRITER.replace(monkeypatch, full)
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 9)], stable_upto=9)})
    with pytest.raises(OSError, match="no room"):
        run(stores, path)
    assert on_disk(path) == set()


def test_the_report_is_json(path: Path) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 9)], stable_upto=9)})
    said = json.loads(json.dumps(run(stores, path).as_object()))
    assert said["messages"] == 10
    assert said["sources"][0]["source"] == "0x10"


# With Spark, from real stores.


@pytest.mark.long
def test_a_task_that_fails_is_a_clear_error(spark: SparkSession) -> None:
    def full(part: int) -> Iterator[Entry]:
        raise OSError(errno.ENOSPC, f"no room for {part}")

    with pytest.raises(TaskFailed, match=r"no room for 7"):
        on_spark(spark)([7], full)


def test_the_cause_of_a_failure_is_the_line_that_says_it() -> None:
    ours = str(MissingMessages("orders/0x10", 1, 5, "nobody"))
    trace = (
        f"Job aborted\nx.PythonException: a trace\n  quorate.protocol.errors.M: {ours}\n at java"
    )
    assert cause(trace) == ours
    assert cause("Job aborted\nOSError: [Errno 28] no room\n") == "OSError: [Errno 28] no room"
    assert cause("Job aborted\n") == "Job aborted"
    lacking = "Traceback\n  File x\nModuleNotFoundError: No module named 'quorate'\nmore"
    assert "Install quorate[spark] for that Python" in cause(lacking)
    assert cause("ModuleNotFoundError: No module named 'pandas'").endswith("'pandas'")


@pytest.mark.long
def test_spark_archives_from_real_stores(
    spark: SparkSession, group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.ARCHIVING_PART_MESSAGES_MIN.replace(monkeypatch, 5_000)
    source = group.publish("archived", numbered(0, 19_999))
    path = tmp_path / "archive"
    stores = Stores(group.addresses)
    report = archive(on_spark(spark), stores, str(path), selects=lambda topic: topic == "archived")
    assert (report.failures, report.messages) == ({}, 20_000)
    assert len(newest(path).files) == 2
    known = stores.sources().sources[source]
    assert known.archived_upto == 19_999
    assert frames(path, source) == [
        piece.frame for piece in stores.fetch(source, known.lineage, 0, 19_999)
    ]
    table = deltalake.DeltaTable(str(path)).to_pyarrow_table().sort_by("sequence")
    assert table.column("payload").to_pylist() == numbered(0, 19_999)
    assert set(table.column("topic").to_pylist()) == {"archived"}
