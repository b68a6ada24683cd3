"""Writing a table, by Spark, to real stores; whatever fails, each row is there once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from tests.pipeline.contents import by_source, payloads
from tests.pipeline.group import Group, numbered

from quorate.pipeline import session


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    """Rows whose payloads are numbers as text."""
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as payload")


def write(frame: DataFrame, group: Group, **options: Any) -> None:
    settings = {"stores": group.stores, **options}
    frame.write.format("quorate").mode("append").options(**settings).save()


def test_a_table_is_written_and_read_back(spark: SparkSession, group: Group) -> None:
    write(numbers(spark, 50_000, 3), group, topic="table")
    table = spark.read.format("quorate").options(stores=group.stores, topics="table").load()
    rows = [bytes(row.payload) for row in table.collect()]
    assert sorted(rows) == sorted(numbered(0, 49_999))
    sources = by_source(group, "table")
    assert len(sources) == 3
    for written in sources.values():
        assert written == sorted(written, key=int), "the order of the rows in a partition"


def test_a_thread_that_asks_for_the_session_can_write(spark: SparkSession, group: Group) -> None:
    frame = numbers(spark, 10)

    def work() -> None:
        assert session() is spark
        write(frame, group, topic="from-a-thread")

    with ThreadPoolExecutor(1) as threads:
        threads.submit(work).result()
    assert payloads(group, "from-a-thread") == sorted(numbered(0, 9))


def test_topics_keys_and_properties_come_from_columns(spark: SparkSession, group: Group) -> None:
    frame = spark.createDataFrame(
        [
            ("columns-a", b"1", b"k", {"n": bytearray(b"v")}),
            ("columns-b", b"2", None, None),
            ("columns-a", b"3", None, {}),
        ],
        "topic string, payload binary, key binary, properties map<string,binary>",
    )
    write(frame.coalesce(1), group)
    table = spark.read.format("quorate").options(stores=group.stores, topicsPattern="columns-.")
    rows = table.load().orderBy("payload").collect()
    assert [(row.topic, bytes(row.payload)) for row in rows] == [
        ("columns-a", b"1"),
        ("columns-b", b"2"),
        ("columns-a", b"3"),
    ]


def test_deletions_and_expiries_are_written_and_read_back(
    spark: SparkSession, group: Group
) -> None:
    frame = spark.createDataFrame(
        [
            (b"1", b"k", False, "2026-01-31 12:00:00.123456Z"),
            (b"", b"k", True, None),
            (b"3", None, None, None),
        ],
        "payload binary, key binary, deleted boolean, expires string",
    ).withColumn("expires", col("expires").cast("timestamp"))
    write(frame.coalesce(1), group, topic="deletions")
    table = spark.read.format("quorate").options(stores=group.stores, topics="deletions").load()
    rows = table.orderBy("sequence").selectExpr("deleted", "unix_micros(expires) as us").collect()
    moment = datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)
    us = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert [tuple(row) for row in rows] == [(False, us), (True, None), (False, None)]


def test_a_task_that_fails_is_repeated_without_a_trace(spark: SparkSession, group: Group) -> None:
    def fails_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 2 and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")
            yield batch

    frame = numbers(spark, 60_000).mapInArrow(fails_at_first, "payload string")
    write(frame, group, topic="retried")
    assert payloads(group, "retried") == sorted(numbered(0, 59_999))


def test_a_task_that_fails_again_and_sooner_is_repeated_all_the_same(
    spark: SparkSession, group: Group
) -> None:
    """The rows of its second attempt end before those that the first one wrote."""

    def fails_twice(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == {0: 4, 1: 1}.get(context.attemptNumber()):
                raise RuntimeError("the first attempts fail")
            yield batch

    frame = numbers(spark, 60_000, 1).mapInArrow(fails_twice, "payload string")
    write(frame, group, topic="retried-twice")
    assert payloads(group, "retried-twice") == sorted(numbered(0, 59_999))


def test_rows_that_come_back_different_fail_the_write_without_repeating_a_task(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    def noting_attempts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        (tmp_path / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        yield from batches

    options = {"topic": "differing", "writeId": "differing"}
    write(spark.range(100).selectExpr("concat('a', id) payload").repartition(1), group, **options)
    other = spark.range(100).selectExpr("concat('b', id) payload").repartition(1)
    with pytest.raises(PySparkException, match="did not come back the same"):
        write(other.mapInArrow(noting_attempts, "payload string"), group, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["0-0"]


def writers(group: Group) -> list[psutil.Process]:
    """The processes of Spark's tasks that have a source: it speaks to stores, and listens."""
    ports = {int(address.rpartition(":")[2]) for address in group.addresses}

    def has_source(process: psutil.Process) -> bool:
        connections = _connections(process)
        return any(each.status == psutil.CONN_LISTEN for each in connections) and any(
            each.raddr and each.raddr.port in ports for each in connections
        )

    return [
        process
        for process in psutil.Process().children(recursive=True)
        if "pyspark.daemon" in " ".join(_command(process)) and has_source(process)
    ]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _connections(process: psutil.Process) -> list[Any]:
    try:
        return process.net_connections("tcp")
    except psutil.Error:
        return []


def waiting_at_first(go: Path) -> Any:
    """Rows of which the first attempt gets the second half only once the file is there."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 3 and context.attemptNumber() == 0:
                give_up_at = time.monotonic() + 100
                while not go.exists() and time.monotonic() < give_up_at:
                    time.sleep(0.02)
            yield batch

    return wait


def test_a_worker_that_is_killed_in_the_middle_is_replaced(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    go, over = tmp_path / "go", threading.Event()
    there: list[int] = []

    def kill() -> None:
        while not payloads(group, "killed") and not over.wait(0.05):
            pass
        for worker in writers(group):
            os.kill(worker.pid, signal.SIGKILL)
            there.append(len(payloads(group, "killed")))
        go.touch()

    killer = threading.Thread(target=kill)
    killer.start()
    frame = numbers(spark, 60_000, 1).mapInArrow(waiting_at_first(go), "payload string")
    try:
        write(frame, group, topic="killed")
    finally:
        over.set()
        killer.join()
    assert len(there) == 1
    assert 0 < there[0] < 60_000
    assert payloads(group, "killed") == sorted(numbered(0, 59_999))


def test_a_write_with_an_id_is_done_once(spark: SparkSession, group: Group) -> None:
    for _ in range(2):
        write(numbers(spark, 20_000), group, topic="named", writeId="nightly")
    assert payloads(group, "named") == sorted(numbered(0, 19_999))
    other = numbers(spark, 20_000).selectExpr("concat(payload, '!') as payload")
    with pytest.raises(PySparkException, match="did not come back the same"):
        write(other, group, topic="named", writeId="nightly")
    assert payloads(group, "named") == sorted(numbered(0, 19_999))


def test_batches_of_a_write_go_through_the_same_sources(spark: SparkSession, group: Group) -> None:
    for batch in (1, 2, 1):
        frame = numbers(spark, 1000).selectExpr(f"concat('{batch}-', payload) as payload")
        write(frame, group, topic="rounds", writeId="hourly", batchId=batch)
    assert len(by_source(group, "rounds")) == 2
    expected = [b"%d-%d" % (batch, number) for batch in (1, 2) for number in range(1000)]
    assert payloads(group, "rounds") == sorted(expected)


def test_fewer_partitions_than_before_are_found_out(spark: SparkSession, group: Group) -> None:
    """Partition 0 begins with what it was; partition 1 was of the first run only."""
    write(numbers(spark, 2000, 2), group, topic="layout", writeId="layout")
    with pytest.raises(PySparkException, match="belong to no task of this attempt") as raised:
        write(numbers(spark, 2000, 1), group, topic="layout", writeId="layout")
    assert "wrote 1,000 rows that belong to no task" in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("id as payload", {"topic": "t"}, "payload is bigint; cast it to binary or string"),
        ("id as other", {}, "there is no payload"),
        ("cast(id as string) payload", {}, "there is no topic"),
        ("cast(id as string) payload", {"topic": "t", "topik": "t"}, "did you mean topic"),
    ],
)
def test_what_can_not_be_written_is_said_at_once(
    spark: SparkSession, group: Group, columns: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        write(spark.range(1).selectExpr(columns), group, **options)


def test_a_row_that_can_not_be_written_fails_the_write_without_repeating_a_task(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    def noting_attempts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        (tmp_path / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        yield from batches

    row = "case when id = 70000 then null else cast(id as string) end payload"
    frame = spark.range(0, 100_000, 1, 2).selectExpr(row)
    with pytest.raises(PySparkException, match="rows of partition 1 cannot be written") as raised:
        write(frame.mapInArrow(noting_attempts, "payload string"), group, topic="refused")
    assert "column payload: is null in some row" in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "1-0"]


def test_nothing_is_overwritten(spark: SparkSession, group: Group) -> None:
    frame = numbers(spark, 1).write.format("quorate").options(stores=group.stores, topic="t")
    with pytest.raises(PySparkException, match="mode: only append"):
        frame.mode("overwrite").save()
