"""The state of the world as a table, from real stores."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.group import Group

from quorate.pipeline.options import StateOptions, read_options, state_options, wants_state
from quorate.protocol.errors import InvalidArgument
from quorate.source import SourceOptions
from quorate.source.blocking import Source

KEYED = '[[topic]]\npattern = "orders|trades"\nkeys = "$key"\n'
NOW_NS = 1_700_000_000 * 10**9


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Three stores with two topics that have keys."""
    made = Group(tmp_path_factory.mktemp("keyed"), configuration=KEYED)
    made.start()
    yield made
    made.stop()


def send(group: Group, topic: str, *rows: tuple[bytes, bytes | None]) -> None:
    """Send a payload for each key; None deletes the row."""
    options = SourceOptions(registration_interval=0.3)
    with Source.open(topic, session_id=0x10, stores=group.stores, options=options) as source:
        for key, payload in rows:
            if payload is None:
                source.delete(key)
            else:
                source.send(payload, key=key, properties={"who": b"me"})
        source.flush()


def table(spark: SparkSession, group: Group, **options: str) -> DataFrame:
    given = {"stores": group.stores, "state": "true", **options}
    return spark.read.format("quorate").options(**given).load()


def payloads(rows: DataFrame) -> dict[bytes, bytes]:
    found = [(bytes(row.key), bytes(row.payload)) for row in rows.collect()]
    assert len(found) == len(dict(found))
    return dict(found)


def test_the_last_message_of_each_key_is_a_row(spark: SparkSession, keyed: Group) -> None:
    send(keyed, "orders", (b"a", b'{"n": 1}'), (b"b", b'{"n": 2}'), (b"c", b'{"n": 3}'))
    between = datetime.now(UTC)
    time.sleep(0.01)
    send(keyed, "orders", (b"a", b'{"n": 4}'), (b"c", None))
    send(keyed, "trades", (b"t", b"{}"))
    now = {b"a": b'{"n": 4}', b"b": b'{"n": 2}'}
    assert payloads(table(spark, keyed, topics="orders")) == now
    assert payloads(table(spark, keyed, topics="orders,trades")) == {**now, b"t": b"{}"}
    assert payloads(table(spark, keyed, topics="orders", where="n > 3")) == {b"a": b'{"n": 4}'}
    then = {b"a": b'{"n": 1}', b"b": b'{"n": 2}', b"c": b'{"n": 3}'}
    assert payloads(table(spark, keyed, topics="orders", asOf=between.isoformat())) == then
    [row] = table(spark, keyed, topics="orders", where="n = 4").collect()
    assert (row.topic, row.source, row.sequence, row.epoch) == ("orders", "0x10", 3, 2)
    assert (row.deleted, row.expires, row.properties["who"]) == (False, None, b"me")
    assert table(spark, keyed, topics="orders").select("sequence").count() == 2


def test_a_store_that_is_away_is_not_needed(spark: SparkSession, keyed: Group) -> None:
    send(keyed, "orders", (b"away", b'{"n": 9}'))
    keyed.kill(0)
    assert payloads(table(spark, keyed, topics="orders", where="n = 9")) == {b"away": b'{"n": 9}'}
    keyed.start(0)


def test_a_topic_without_keys_is_refused(spark: SparkSession, keyed: Group) -> None:
    send(keyed, "plain", (b"a", b"1"))
    # The driver says so before a task begins, which Spark would repeat.
    with pytest.raises(PySparkException, match=r"read partitions[^|]*TopicHasNoKeys"):
        table(spark, keyed, topics="plain").collect()


def test_a_wrong_filter_is_refused_before_a_task_begins(spark: SparkSession, keyed: Group) -> None:
    send(keyed, "orders", (b"filtered", b"1"))
    with pytest.raises(PySparkException, match=r"read partitions[^|]*where"):
        table(spark, keyed, topics="orders", where="n >>> 3").collect()


def read(**given: str) -> StateOptions:
    return state_options({"stores": "a:1,b:2", "state": "true", "topics": "t", **given}, NOW_NS)


def test_options() -> None:
    assert read() == StateOptions(("a:1", "b:2"), ("t",), "", None)
    assert read(topics="u, t,u").topics == ("t", "u")
    assert read(asOf="-15m").as_of_ns == NOW_NS - 900 * 10**9
    assert read(where=" n > 1 ").where == "n > 1"
    assert wants_state({"STATE": "True"})
    assert not wants_state({})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": ""}, "option topics"),
        ({"asOf": "soon"}, "option asOf"),
        ({"asOf": "2999-01-01"}, "still to come"),
        ({"startingOffsets": "latest"}, "option startingoffsets: is not known"),
        ({"topicsPattern": ".*"}, "option topicspattern: is not known"),
    ],
)
def test_a_bad_option_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        read(**given)


def test_a_stream_has_no_rows_of_keys() -> None:
    with pytest.raises(InvalidArgument, match="option state: is for tables"):
        read_options({"stores": "a:1", "state": "true", "topics": "t"})


@pytest.mark.parametrize("name", ["where", "asOf"])
def test_options_of_rows_need_the_state(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option {name}: needs the option state"):
        read_options({"stores": "a:1", "state": "false", name: "-15m"})
