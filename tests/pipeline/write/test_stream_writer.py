"""Writing a stream, by Spark, to real stores; whatever fails, each row is there once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.contents import by_source, payloads
from tests.pipeline.group import PATIENCE_SECONDS, Group, numbered

STREAM_TOPIC = "driver-killed"


def add_file(spark: SparkSession, directory: Path, first: int, last: int) -> None:
    """Another file with these numbers: a micro-batch of its own."""
    frame = spark.range(first, last + 1, 1, 2).selectExpr("cast(id as string) as payload")
    frame.write.mode("append").parquet(str(directory))


def stream(spark: SparkSession, directory: Path) -> DataFrame:
    return (
        spark.readStream.schema("payload string")
        .option("maxFilesPerTrigger", 2)
        .parquet(str(directory))
    )


def run(frame: DataFrame, group: Group, topic: str, checkpoint: Path) -> None:
    """Write all there is, and end."""
    query = (
        frame.writeStream.format("quorate")
        .options(stores=group.stores, topic=topic, checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget_commit(checkpoint: Path, batch: int) -> None:
    """As if the driver had died after the rows were written, and before that was noted."""
    commits = checkpoint / "commits"
    assert (commits / str(batch)).exists()
    for path in commits.glob(f"*{batch}*"):
        path.unlink()


def test_a_stream_goes_on_where_it_was(spark: SparkSession, group: Group, tmp_path: Path) -> None:
    add_file(spark, tmp_path / "in", 0, 9_999)
    run(stream(spark, tmp_path / "in"), group, "restarted", tmp_path / "checkpoint")
    add_file(spark, tmp_path / "in", 10_000, 19_999)
    run(stream(spark, tmp_path / "in"), group, "restarted", tmp_path / "checkpoint")
    assert payloads(group, "restarted") == sorted(numbered(0, 19_999))
    assert len(by_source(group, "restarted")) == 2, "the same sources for every batch"


def test_a_micro_batch_that_is_repeated_is_written_once(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    add_file(spark, tmp_path / "in", 0, 19_999)
    run(stream(spark, tmp_path / "in"), group, "repeated", tmp_path / "checkpoint")
    forget_commit(tmp_path / "checkpoint", 0)
    run(stream(spark, tmp_path / "in"), group, "repeated", tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint" / "commits" / "0").exists(), "it was repeated"
    assert payloads(group, "repeated") == sorted(numbered(0, 19_999))


def test_a_repeated_micro_batch_with_other_partitions_does_not_count(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    add_file(spark, tmp_path / "in", 0, 19_999)
    run(stream(spark, tmp_path / "in"), group, "other-layout", tmp_path / "checkpoint")
    forget_commit(tmp_path / "checkpoint", 0)
    one = stream(spark, tmp_path / "in").coalesce(1)
    with pytest.raises(StreamingQueryException, match="belong to no task of this attempt"):
        run(one, group, "other-layout", tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint" / "commits" / "0").exists()


def test_a_new_checkpoint_is_a_new_write(spark: SparkSession, group: Group, tmp_path: Path) -> None:
    add_file(spark, tmp_path / "in", 0, 99)
    for name in ("one", "other"):
        run(stream(spark, tmp_path / "in"), group, "two-checkpoints", tmp_path / name)
    assert payloads(group, "two-checkpoints") == sorted(numbered(0, 99) * 2)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_driver_that_dies_between_writing_and_committing_repeats_nothing(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    add_file(spark, tmp_path / "in", 0, 19_999)
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.dying_driver", group.stores, str(tmp_path)],
        start_new_session=True,
    )
    try:
        while driver.poll() is None and not (tmp_path / "committing").exists():
            time.sleep(0.05)
        assert driver.poll() is None
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(PATIENCE_SECONDS)
    assert payloads(group, STREAM_TOPIC) == sorted(numbered(0, 19_999)), "all is written"
    assert not list((tmp_path / "checkpoint" / "commits").glob("*")), "and does not count"
    run(stream(spark, tmp_path / "in"), group, STREAM_TOPIC, tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()
    assert payloads(group, STREAM_TOPIC) == sorted(numbered(0, 19_999))


def test_output_that_changes_what_was_sent_is_refused(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    add_file(spark, tmp_path / "in", 0, 9)
    counted = stream(spark, tmp_path / "in").groupBy("payload").count()
    frame = counted.selectExpr("concat(payload, count) as payload")
    with pytest.raises(Exception, match="outputMode: only append"):
        (
            frame.writeStream.format("quorate")
            .outputMode("complete")
            .options(stores=group.stores, topic="t", checkpointLocation=str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
    shutil.rmtree(tmp_path / "in")
