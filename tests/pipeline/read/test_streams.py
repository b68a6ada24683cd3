"""Streaming queries of Spark over real stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.pipeline.group import Group, numbered, until
from tests.pipeline.read.test_stream_reader import positions

from quorate.pipeline.stores.client import Stores
from quorate.protocol.identity import SourceName

Batches = dict[int, list[bytes]]


class Sink:
    """What each micro-batch had; the last word on it counts."""

    def __init__(self) -> None:
        self.batches: Batches = {}
        self.fail_at: int | None = None

    def __call__(self, rows: DataFrame, number: int) -> None:
        self.batches[number] = sorted(row.payload for row in rows.select("payload").collect())
        if number == self.fail_at:
            raise RuntimeError("as the test wants")

    @property
    def payloads(self) -> list[bytes]:
        return sorted(payload for batch in self.batches.values() for payload in batch)


def writer(
    spark: SparkSession, group: Group, sink: Sink, checkpoint: Path, **options: str
) -> DataStreamWriter:
    rows = spark.readStream.format("quorate").options(stores=group.stores, **options).load()
    return rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))


def over_what_there_is(query: DataStreamWriter) -> StreamingQuery:
    started = query.trigger(availableNow=True).start()
    assert started.awaitTermination(100)
    return started


def test_a_query_that_runs_again_and_again_over_what_there_is(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    group.publish("run-again", numbered(0, 99))
    sink = Sink()
    options = {"topicsPattern": "run-again.*", "maxMessagesPerTrigger": "40", "cursorName": "again"}
    over_what_there_is(writer(spark, group, sink, tmp_path, **options))
    assert [len(sink.batches[number]) for number in range(3)] == [40, 40, 20]
    assert sink.payloads == sorted(numbered(0, 99))
    # Spark never says that the last batch is done; that it asks for another one does.
    assert positions(group, "again") == {SourceName("run-again", 0x10): {99}}
    group.publish("run-again", numbered(100, 109))
    group.publish("run-again-more", numbered(110, 119))
    over_what_there_is(writer(spark, group, sink, tmp_path, **options))
    assert sorted(sink.batches[3]) == sorted(numbered(100, 119))
    assert len(sink.batches) == 4


def test_a_small_micro_batch_waits_until_it_is_large_enough(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    group.publish("waits", numbered(0, 4))
    sink = Sink()
    options = {"topics": "waits", "minMessagesPerTrigger": "10", "maxTriggerDelay": "1h"}
    query = writer(spark, group, sink, tmp_path, **options).start()
    try:
        until("the first one does not wait", lambda: len(sink.payloads) == 5)
        group.publish("waits", numbered(5, 8))
        query.processAllAvailable()
        group.publish("waits", numbered(9, 14))
        until("the rest is read", lambda: len(sink.payloads) == 15)
    finally:
        query.stop()
    assert {number: len(batch) for number, batch in sink.batches.items()} == {0: 5, 1: 10}


def test_a_batch_that_failed_comes_back_exactly_as_it_was(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    group.publish("as-it-was", numbered(0, 49))
    sink = Sink()
    options = {"topicsPattern": "as-it-was.*"}
    sink.fail_at = 0
    query = writer(spark, group, sink, tmp_path, **options).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="as the test wants"):
        query.awaitTermination(100)
    assert sink.batches == {0: sorted(numbered(0, 49))}
    group.publish("as-it-was", numbered(50, 59))
    group.publish("as-it-was-too", numbered(60, 69))
    sink.batches.clear()
    sink.fail_at = None
    over_what_there_is(writer(spark, group, sink, tmp_path, **options))
    assert sink.batches == {0: sorted(numbered(0, 49)), 1: sorted(numbered(50, 69))}


@pytest.mark.expects_log("does not take")  # If the source is not stopped first.
def test_what_appears_while_a_query_runs_is_read_also_when_a_store_dies(
    spark: SparkSession, own_group: Group, tmp_path: Path
) -> None:
    sink = Sink()
    query = writer(spark, own_group, sink, tmp_path, topicsPattern="live.*").start()
    try:
        own_group.publish("live-a", numbered(0, 9))
        until("the first topic is read", lambda: len(sink.payloads) == 10)
        own_group.kill(0)
        own_group.publish("live-b", numbered(10, 19))
        until("another topic is read", lambda: len(sink.payloads) == 20)
        assert query.exception() is None
    finally:
        query.stop()
    assert sink.payloads == sorted(numbered(0, 19))


def test_progress_shows_how_many_messages_were_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    group = Group(tmp_path, configuration="retention_messages = 5000")
    group.start()
    try:
        messages = [b"%0100d" % number for number in range(50_000)]
        group.publish("left-out", messages[:45_000])
        name = group.publish("left-out", messages[45_000:])
        stores = Stores(group.addresses)
        until("most was let go", lambda: stores.sources().sources[name].earliest == 45_000)
        options = {"startingOffsets": json.dumps({str(name): 0}), "failOnDataLoss": "false"}
        sink = Sink()
        query = over_what_there_is(
            writer(spark, group, sink, tmp_path / "checkpoint", topics="left-out", **options)
        )
        assert sink.payloads == messages[45_000:]
        [progress] = [each for each in query.recentProgress if each["numInputRows"]]
        [source] = progress["sources"]
        assert json.loads(source["endOffset"]) == {str(name): 50_000}
        assert json.loads(source["latestOffset"]) == {str(name): 50_000, "leftOut": 45_000}
        assert "leftOut" not in (tmp_path / "checkpoint" / "offsets" / "0").read_text()
    finally:
        group.stop()
