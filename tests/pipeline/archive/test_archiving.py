"""From the stores to Parquet: what is written, what is not, and what happens when it is cut off."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
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

from quorate.archive.directory import GARBAGE_SECONDS, ArchiveDirectory
from quorate.archive.files import check_file, pieces_of
from quorate.archive.manifest import Manifest
from quorate.pipeline.archive.archiving import ArchiveReport, archive
from quorate.pipeline.archive.tasks import Entry, cause, on_spark
from quorate.pipeline.errors import MessagesGone, TaskFailed
from quorate.pipeline.stores.client import Stores
from quorate.protocol.errors import ArchiveChanged, ArchiveDiffers, MissingMessages
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Marker

SECOND = Lineage((Term(1, 0), Term(4, 50)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def run(stores: Stores, path: Path, **fields: Any) -> ArchiveReport:
    return archive(here, stores, str(path), **fields)


def newest(path: Path) -> Manifest:
    return ArchiveDirectory(str(path)).newest()


def frames(path: Path, source: SourceName = ORDERS) -> list[bytes]:
    """All batches of a source, as they are made again from the archive."""
    manifest = newest(path)
    for file in manifest.files:
        check_file(path, file)
    return [
        piece.frame
        for file in manifest.files_of(source)
        for piece in pieces_of(path, file, file.first, file.last)
    ]


def on_disk(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("data/**/*") if each.is_file()}


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


def test_the_manifest_says_what_is_in_it(path: Path) -> None:
    stream = Stream(SECOND, [batch(0, 49), batch(50, 99, 4, time_ns=NOON_NS + 5)], 99)
    stream.promised_epoch = 9
    run(
        FakeStores(
            {ORDERS: stream, TRADES: Stream(frames=[batch(0, 4, source=TRADES)], stable_upto=4)}
        ),
        path,
    )
    manifest = newest(path)
    source = manifest.sources[ORDERS]
    assert (source.first, source.last, source.lineage) == (0, 99, SECOND)
    assert (source.membership, source.promised_epoch, source.reg_id) == (MEMBERSHIP, 9, 7)
    assert source.information.version == 3
    (file,) = manifest.files_of(ORDERS)
    assert (file.first, file.last, file.count, file.batches) == (0, 99, 100, 2)
    assert (file.first_time_ns, file.last_time_ns) == (NOON_NS, NOON_NS + 5)
    assert file.lineage == SECOND
    assert file.bytes == (path / file.path).stat().st_size
    assert file.path.startswith("data/topic=orders/day=2026-11-21/0x10-")
    assert manifest.sources[TRADES].last == 4
    assert manifest.written_by
    assert manifest.time_ns > 0


def test_rows_have_the_columns_that_spark_reads(path: Path) -> None:
    run(FakeStores({ORDERS: Stream(frames=[batch(0, 2, attributes=True)], stable_upto=2)}), path)
    (file,) = newest(path).files
    rows = pq.ParquetFile(path / file.path).read().to_pylist()
    assert [(row["topic"], row["source"], row["sequence"], row["epoch"]) for row in rows] == [
        ("orders", "0x10", n, 1) for n in range(3)
    ]
    assert [row["payload"] for row in rows] == [b"message %d" % n for n in range(3)]
    assert [row["key"] for row in rows] == [None, b"key 1", b"key 2"]
    assert rows[1]["properties"] == [("a", b"1"), ("b", b"\0")]
    assert {row["timestamp"].isoformat() for row in rows} == {"2026-11-21T12:00:00.123456+00:00"}
    assert {row["timestamp_ns"] for row in rows} == {NOON_NS}
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


def test_only_what_is_older_than_a_time_is_archived(path: Path) -> None:
    later = NOON_NS + DAY_NS
    made = [batch(0, 9), batch(10, 29), batch(30, 39, time_ns=later)]
    stores = FakeStores({ORDERS: Stream(frames=made, stable_upto=39)})
    for first_since, archived in ((0, 0), (30, 30), (35, 0), (40, 10)):
        # Of a batch of which a part is older, nothing is archived.
        stores.first_since = lambda *_, first=first_since: first  # type: ignore[method-assign]
        assert run(stores, path, before_ns=later).messages == archived
    assert frames(path) == made


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
    assert [(each.first, each.last, each.day) for each in made_files] == [
        (0, 9, "2026-11-21"),
        (10, 19, "2026-11-22"),
        (20, 39, "2026-11-21"),
    ]
    assert frames(path) == made


def test_parts_are_cut_between_batches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seams.ARCHIVING_PART_MESSAGES_MIN.replace(monkeypatch, 10)
    made = [batch(first, first + 6) for first in range(0, 70, 7)]
    run(FakeStores({ORDERS: Stream(frames=made, stable_upto=69)}), path, parts=3)
    made_files = newest(path).files
    assert len(made_files) == 3
    assert [each.first % 7 for each in made_files] == [0, 0, 0]
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


def test_stores_that_know_less_than_the_archive_are_no_failure(path: Path) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 99)], stable_upto=99)})
    run(stores, path)
    stores.streams[ORDERS].stable_upto = 49
    report = run(stores, path)
    assert (report.messages, report.failures) == (0, {})
    assert "up to 49" in report.notes[0]


# Cut off, and two at once.


def test_a_crash_before_the_manifest_leaves_garbage_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 49)], stable_upto=49)})
    with monkeypatch.context() as patch:

        def dies(*_: object) -> None:
            raise KeyboardInterrupt

        seams.ARCHIVE_DIRECTORY_COMMIT.replace(patch, dies)
        with pytest.raises(KeyboardInterrupt):
            run(stores, path)
    left = on_disk(path)
    assert len(left) == 1
    assert newest(path).version == 0
    # The stream went on meanwhile, so that the next run writes another file.
    stores.streams[ORDERS].frames.append(batch(50, 59))
    stores.streams[ORDERS].stable_upto = 59
    run(stores, path)
    assert frames(path) == [batch(0, 49), batch(50, 59)]
    assert on_disk(path) >= left, "it could be of a job that still runs"
    for each in left:
        os.utime(path / each, (0, GARBAGE_SECONDS))
    run(stores, path)
    assert on_disk(path) == {each.path for each in newest(path).files}


def test_what_only_a_lost_manifest_named_is_never_removed(path: Path) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 49)], stable_upto=49)})
    run(stores, path)
    stores.streams[ORDERS].frames.append(batch(50, 99))
    stores.streams[ORDERS].stable_upto = 99
    run(stores, path)
    [only_there] = {each.path for each in newest(path).files if each.first == 50}
    max((path / "manifest").iterdir()).unlink()
    foreign = "data/README"
    (path / foreign).touch()
    broken_off = f"{Path(only_there).parent}/.writing-1"
    (path / broken_off).touch()
    for each in (only_there, foreign, broken_off):
        os.utime(path / each, (0, 0))
    # What is archived has left the stores.
    stores.streams[ORDERS].stable_upto = 49
    run(stores, path)
    assert only_there in on_disk(path)
    assert foreign in on_disk(path)
    assert broken_off not in on_disk(path)


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
    assert run(stores, path).messages == 0


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
    assert frames(path, source) == [
        piece.frame for piece in stores.fetch(source, known.lineage, 0, 19_999)
    ]
    rows = spark.read.parquet(str(path / "data")).orderBy("sequence").collect()
    assert [row.payload for row in rows] == numbered(0, 19_999)
    assert {row.topic for row in rows} == {"archived"}
