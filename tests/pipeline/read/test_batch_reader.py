"""Reading as a table, from real stores."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.pipeline.group import Group, numbered, until

from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.options import read_options
from quorate.pipeline.read.batch_reader import (
    BatchReader,
    StoresPartition,
)
from quorate.pipeline.read.ranges import stores_of
from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.client import Stores
from quorate.protocol.errors import InvalidArgument, MissingMessages, UnknownTopic


def table(spark: SparkSession, group: Group, schema: str = "", **options: str) -> DataFrame:
    reader = spark.read.format("quorate").options(stores=group.stores, **options)
    return (reader.schema(schema) if schema else reader).load()


def sequences(rows: DataFrame) -> list[int]:
    return sorted(row.sequence for row in rows.select("sequence").collect())


def times(spark: SparkSession, group: Group, topic: str) -> list[Row]:
    return table(spark, group, topics=topic).orderBy("sequence").select("timestamp").collect()


def test_every_message_is_a_row_once(spark: SparkSession, group: Group) -> None:
    group.publish("every-message", numbered(0, 49_999))
    rows = table(spark, group, topics="every-message").orderBy("sequence").collect()
    assert [row.payload for row in rows] == numbered(0, 49_999)
    assert [row.sequence for row in rows] == list(range(50_000))
    assert {(row.topic, row.source, row.epoch, row.key, row.properties) for row in rows} == {
        ("every-message", "0x10", 1, None, None)
    }


def test_filters_of_every_kind_and_several_of_one_table(spark: SparkSession, group: Group) -> None:
    for topic in ("filter-a", "filter-b"):
        for session in (0x10, 0x11):
            group.publish(topic, numbered(0, 99), session)
    rows = table(spark, group, topicsPattern="filter-.*")
    some = rows.where("topic = 'filter-a' AND source = '0x11' AND sequence BETWEEN 10 AND 19")
    assert sequences(some) == list(range(10, 20))
    assert rows.where("topic = 'filter-a' OR sequence = 5").count() == 202
    assert sequences(rows.where("sequence < 2").union(rows.where("sequence > 97"))) == [
        number for number in (0, 1, 98, 99) for _ in range(4)
    ]


def test_two_parts_of_a_query_have_each_their_own_filters(
    spark: SparkSession, group: Group
) -> None:
    group.publish("subqueries", numbered(0, 99))
    table(spark, group, topics="subqueries").createOrReplaceTempView("subqueries")
    found = spark.sql(
        "SELECT (SELECT count(*) FROM subqueries WHERE sequence < 10) AS few, "
        "(SELECT count(*) FROM subqueries WHERE sequence >= 50) AS many"
    ).first()
    assert found == Row(few=10, many=50)


def test_sources_are_chosen_by_name(spark: SparkSession, group: Group) -> None:
    for session in (0x10, 0x11, 0x12):
        group.publish("assigned", numbered(session, session), session)
    some = table(spark, group, assign="assigned/0x10,assigned/0x12")
    assert sorted(row.source for row in some.collect()) == ["0x10", "0x12"]
    with pytest.raises(Exception, match="assigned/0x99"):
        table(spark, group, assign="assigned/0x99").collect()


@pytest.mark.expects_log("the table is empty: no topic matches nobody-has-.*; known: .*asked")
def test_a_pattern_that_matches_nothing_is_logged(group: Group) -> None:
    group.publish("asked", numbered(0, 0))
    _, partitions = parts_of(group, topicsPattern="nobody-has-.*")
    assert [each.part.ranges for each in partitions] == [()]


@pytest.mark.expects_log("beyond/0x10 is to be read with (starting|ending)Offsets 500, but .* 10")
def test_an_offset_beyond_the_end_is_logged(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    group.publish("beyond", numbered(0, 9))
    beyond = json.dumps({"beyond/0x10": 500})
    for option in ("startingOffsets", "endingOffsets"):
        parts_of(group, topics="beyond", **{option: beyond})
        assert option in caplog.text
    end = json.dumps({"beyond/0x10": 10})
    caplog.clear()
    parts_of(group, topics="beyond", startingOffsets=end, endingOffsets=end)
    assert not caplog.records


def test_stores_are_asked_only_for_what_is_read(group: Group) -> None:
    for topic in ("asked", "not-asked"):
        group.publish(topic, numbered(0, 0))
    stores = stores_of(read_options({"stores": group.stores, "topics": "asked"}))
    assert {name.topic for name in stores.sources().sources} == {"asked"}


def test_a_schema_chooses_columns(spark: SparkSession, group: Group) -> None:
    group.publish("columns", numbered(0, 9))
    rows = table(spark, group, "sequence BIGINT, topic STRING", topics="columns")
    assert rows.orderBy("sequence").first() == Row(sequence=0, topic="columns")
    with pytest.raises(Exception, match="there is no column price"):
        table(spark, group, "price BIGINT", topics="columns").collect()


def test_from_and_to_any_position(spark: SparkSession, group: Group) -> None:
    group.publish("positions", numbered(0, 99))
    time.sleep(0.005)
    group.publish("positions", numbered(100, 199))
    rows = times(spark, group, "positions")
    begun = rows[100].timestamp
    assert rows[99].timestamp < begun
    some = json.dumps({"positions/0x10": 50})
    for options, expected in (
        ({"startingOffsets": some}, (50, 200)),
        ({"endingOffsets": some}, (0, 50)),
        ({"startingOffsets": json.dumps({"positions/0x10": 500})}, (200, 200)),
        ({"startingTimestamp": begun.isoformat() + "Z"}, (100, 200)),
        ({"endingOffsets": begun.isoformat() + "Z"}, (0, 100)),
        ({"startingOffsets": "latest"}, (200, 200)),
    ):
        found = sequences(table(spark, group, topics="positions", **options))
        assert found == list(range(*expected)), options


def test_partitions_are_as_many_as_asked_for(spark: SparkSession, group: Group) -> None:
    group.publish("partitions", numbered(0, 99_999))
    few = table(spark, group, topics="partitions", minPartitions="3")
    assert few.rdd.getNumPartitions() == 3
    assert sequences(few) == list(range(100_000))
    many = table(spark, group, topics="partitions", maxMessagesPerPartition="10000")
    assert many.rdd.getNumPartitions() == 10
    assert table(spark, group, topics="partitions").rdd.getNumPartitions() == 1


def test_large_messages_make_partitions_by_their_bytes(spark: SparkSession, group: Group) -> None:
    group.publish("large", [b"x" * 900_000] * 60)
    rows = table(spark, group, topics="large")
    assert rows.rdd.getNumPartitions() == 3
    assert sequences(rows) == list(range(60))
    asked = table(spark, group, topics="large", minPartitions="20")
    assert asked.rdd.getNumPartitions() == 20


def test_an_unknown_topic_and_a_wrong_option_are_errors(spark: SparkSession, group: Group) -> None:
    with pytest.raises(Exception, match=UnknownTopic.__name__):
        table(spark, group, topics="nobody-has-it").collect()
    with pytest.raises(Exception, match="did you mean topics"):
        table(spark, group, topic="a").collect()


def test_it_is_found_without_being_registered() -> None:
    import pyspark_quorate

    assert pyspark_quorate.DefaultSource.name() == "quorate"


def parts_of(group: Group, **options: str) -> tuple[BatchReader, list[StoresPartition]]:
    reader = BatchReader(read_options({"stores": group.stores, **options}), ARROW)
    return reader, reader.partitions()


def test_a_store_that_is_killed_in_mid_read_is_made_up_for(own_group: Group) -> None:
    payloads = [b"%0100d" % number for number in range(60_000)]
    own_group.publish("killed", payloads)
    reader, [partition] = parts_of(own_group, topics="killed", minPartitions="1")
    found: list[bytes] = []
    batches = reader.read(partition)
    found += next(batches).column("payload").to_pylist()
    assert len(found) < 30_000
    # The one that is read from: it is the first that is asked.
    own_group.kill(0)
    for batch in batches:
        found += batch.column("payload").to_pylist()
    assert found == payloads


def test_spark_reads_whole_what_two_of_three_stores_have(
    spark: SparkSession, own_group: Group
) -> None:
    own_group.publish("two-of-three", numbered(0, 59_999))
    rows = table(spark, own_group, topics="two-of-three", minPartitions="3")
    own_group.kill(1)
    assert rows.count() == 60_000
    own_group.pause(2)
    try:
        assert sequences(rows) == list(range(60_000))
    finally:
        own_group.resume(2)


def test_what_nobody_can_say_is_not_taken_for_lost(own_group: Group) -> None:
    own_group.publish("away", numbered(0, 999))
    reader, [partition] = parts_of(own_group, topics="away", retryTimeout="0.5")
    own_group.kill(0, 1, 2)
    with pytest.raises(MissingMessages) as caught:
        list(reader.read(partition))
    assert all(address in caught.value.might_have for address in own_group.addresses)


@pytest.mark.expects_log("are left out")
def test_what_the_stores_let_go_is_no_loss_unless_one_asks_for_it(tmp_path: Path) -> None:
    group = Group(tmp_path, configuration="retention_messages = 5000")
    group.start()
    try:
        messages = [b"%0100d" % number for number in range(50_000)]
        group.publish("let-go", messages[:45_000])
        name = group.publish("let-go", messages[45_000:])
        stores = Stores(group.addresses)
        until("most was let go", lambda: stores.sources().sources[name].earliest == 45_000)
        reader, partitions = parts_of(group, topics="let-go")
        found = [
            number
            for partition in partitions
            for batch in reader.read(partition)
            for number in batch.column("sequence").to_pylist()
        ]
        assert found == list(range(found[0], 50_000))
        assert found[0] == 45_000
        whole = {"topics": "let-go", "startingOffsets": json.dumps({str(name): 0})}
        reader, [partition, *_] = parts_of(group, **whole)
        with pytest.raises(MessagesGone, match="let it go"):
            list(reader.read(partition))
        reader, partitions = parts_of(group, failOnDataLoss="false", **whole)
        rows = sum(batch.num_rows for each in partitions for batch in reader.read(each))
        assert rows == len(found)
    finally:
        group.stop()


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_a_position_of_a_source_that_is_not_read_is_refused(group: Group, option: str) -> None:
    group.publish("begins-here", numbered(0, 9))
    group.publish("not-selected", numbered(0, 9))
    for name in ("begins-here/0x11", "not-selected/0x10"):
        given = {"stores": group.stores, "topics": "begins-here", option: json.dumps({name: 5})}
        with pytest.raises(
            InvalidArgument,
            match=f"option {option}: {name} is not one of the sources to read, which are 1: begin",
        ):
            BatchReader(read_options(given), ARROW).partitions()
