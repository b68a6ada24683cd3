"""Reading as a table, from real stores."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.group import Group, numbered


def table(spark: SparkSession, group: Group, **options: str) -> DataFrame:
    return spark.read.format("quorate").options(stores=group.stores, **options).load()


def test_every_message_is_a_row_once(spark: SparkSession, group: Group) -> None:
    group.publish("every-message", numbered(0, 49_999))
    rows = table(spark, group, topics="every-message").orderBy("sequence").collect()
    assert [row.payload for row in rows] == numbered(0, 49_999)
    assert [row.sequence for row in rows] == list(range(50_000))
    assert {(row.topic, row.source, row.epoch, row.key, row.properties) for row in rows} == {
        ("every-message", "0x10", 1, None, None)
    }
