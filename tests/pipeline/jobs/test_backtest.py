"""Replaying with Spark, from real stores."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.contents import by_source
from tests.pipeline.group import Group
from tests.pipeline.jobs.test_replay import FakeClock

from quorate.pipeline.jobs.backtest import (
    after,
    backtest,
    backtest_to,
    ordered,
    slices,
)
from quorate.pipeline.jobs.command import (
    read_table_options,
    run_backtest,
    run_stats,
)
from quorate.pipeline.jobs.replay import (
    FLAT_OUT,
    Position,
    Replayed,
)
from quorate.protocol.errors import InvalidArgument, UnknownTopic
from quorate.protocol.layout import Layout

SECOND_US = 1_000_000
START_US = 1_790_000_000 * SECOND_US


def table(spark: SparkSession) -> DataFrame:
    """Two topics of which each has what comes between messages of the other."""
    rows = [
        (topic, "0x10", number, 1, START_US + second * SECOND_US, b"%d" % second)
        for topic, seconds in (("even", (0, 2, 4, 4, 600)), ("odd", (1, 3, 4, 5)))
        for number, second in enumerate(seconds)
    ]
    made = spark.createDataFrame(
        rows,
        "topic string, source string, sequence bigint, epoch bigint, us bigint, payload binary",
    )
    return made.repartition(3).selectExpr(
        "topic",
        "source",
        "sequence",
        "epoch",
        "timestamp_micros(us) as timestamp",
        "payload",
        "payload as key",
        "map('n', payload) as properties",
        "sequence = 4 as deleted",
        "timestamp_micros(us + 5) as expires",
    )


IN_ORDER = [
    ("even", 0),
    ("odd", 0),
    ("even", 1),
    ("odd", 1),
    ("even", 2),
    ("even", 3),
    ("odd", 2),
    ("odd", 3),
    ("even", 4),
]


def test_messages_come_in_the_order_of_time_over_all_topics(spark: SparkSession) -> None:
    clock = FakeClock()
    came: list[tuple[Replayed, float]] = []
    report = backtest(
        table(spark), lambda each: came.append((each, clock.now())), speed=2.0, clock=clock
    )
    assert [(each.topic, each.position.sequence) for each, _ in came] == IN_ORDER
    last, when = came[-1]
    assert when - came[0][1] == pytest.approx(300.0, abs=0.01)
    assert (last.payload, last.key, last.properties) == (b"600", b"600", {"n": b"600"})
    assert (last.deleted, last.expires) == (True, last.time + timedelta(microseconds=5))
    assert last.time.timestamp() * SECOND_US == START_US + 600 * SECOND_US
    assert (report.progress.messages, report.interrupted) == (9, False)
    assert report.as_object()["speed"] == pytest.approx(2.0, abs=0.01)


def test_only_what_is_behind_a_position_is_computed(spark: SparkSession) -> None:
    position = Position(START_US + 4 * SECOND_US, "even", "0x10", 3)
    rest = slices(after(ordered(table(spark)), position))
    found = [(each.topic, each.position.sequence) for messages in rest for each in messages]
    assert found == IN_ORDER[6:]


def test_an_interruption_ends_it_and_it_goes_on_later(spark: SparkSession, group: Group) -> None:
    layout = Layout.plain(group.stores)

    class Impatient(FakeClock):
        def sleep(self, seconds: float) -> None:
            if self.slept > 3:
                raise KeyboardInterrupt
            super().sleep(seconds)

    to = "interrupted.replay"
    report = backtest_to(table(spark), to, layout, name="interrupted", clock=Impatient())
    assert report.interrupted
    assert 0 < report.progress.messages < 9
    rest = backtest_to(table(spark), to, layout, name="interrupted", speed=FLAT_OUT)
    assert rest.resumed_at is not None
    assert rest.progress.messages == 9 - report.progress.messages
    assert rest.last == {to: 8}
    [payloads] = by_source(group, to).values()
    assert payloads == [b"0", b"1", b"2", b"3", b"4", b"4", b"4", b"5", b"600"]


def test_what_the_stores_have_is_replayed(spark: SparkSession, group: Group) -> None:
    group.publish("replayed", [b"%d" % number for number in range(3000)])
    options = read_table_options(group.addresses, ["replayed"], None, None, None, None)
    stored = spark.read.format("quorate").options(**options).load()
    report = backtest_to(
        stored, "{topic}.again", Layout.plain(group.stores), name="stores", speed=FLAT_OUT
    )
    assert report.last == {"replayed.again": 2999}
    [payloads] = by_source(group, "replayed.again").values()
    assert payloads == [b"%d" % number for number in range(3000)]


def test_a_topic_that_there_is_not_is_said_before_spark_starts(group: Group) -> None:
    group.publish("there-is", [b"1"])
    with pytest.raises(UnknownTopic, match="there-is"):
        run_backtest(Layout.plain(group.stores), to="t", topics=["there-is-not"], told=print)
    with pytest.raises(UnknownTopic, match="there-is"):
        run_stats(group.addresses, topics=["there-is-not"], told=print)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give either a topic"),
        ({"to": "t", "function": "m:f"}, "give either a topic"),
        ({"to": "t", "name": "n"}, "--until: is needed with a --name"),
        ({"function": "m:f", "name": "n"}, "name: is for a replay to a topic"),
        ({"function": "nonsense"}, "not of the form module:name"),
        ({"function": "no_such_module:f"}, "cannot be loaded"),
        ({"function": "os:sep"}, "cannot be called"),
        ({"to": "t", "speed": "slow"}, "speed: 'slow'"),
        ({"to": "t", "since": "soon"}, "--since"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        run_backtest(Layout.plain("127.0.0.1:1"), told=print, **given)
