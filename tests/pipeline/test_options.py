"""What users may say, and how they are told that it is wrong."""

from __future__ import annotations

import pytest

from quorate.pipeline.options import (
    EARLIEST,
    LATEST,
    BoundKind,
    ReadBound,
    parse_time,
    read_options,
)
from quorate.pipeline.read.ranges import stores_of
from quorate.pipeline.timeouts import Timeouts
from quorate.pipeline.write.options import write_options
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.patterns import topic_pattern
from quorate.v1 import store_pb2

STORES = {"stores": "a:1,b:2"}
ORDERS = SourceName("orders", 0x10)


def test_what_is_not_said_has_a_default() -> None:
    options = read_options(STORES)
    assert options.stores == ("a:1", "b:2")
    assert (options.start.of(ORDERS), options.end.of(ORDERS)) == (EARLIEST, LATEST)
    assert options.selects(ORDERS)
    assert options.asked_pattern == ""
    assert options.fail_on_data_loss
    assert (options.trigger_messages_max, options.trigger_bytes_max, options.parts_min) == (0, 0, 0)


def test_the_case_of_a_name_does_not_matter() -> None:
    options = read_options(
        {"STORES": "a:1", "maxmessagespertrigger": "5", "FailOnDataLoss": "False"}
    )
    assert (options.trigger_messages_max, options.fail_on_data_loss) == (5, False)


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_a_list_of_topics_that_names_none_does_not_mean_all(text: str) -> None:
    with pytest.raises(InvalidArgument, match="option topics: names no topic"):
        read_options(STORES | {"topics": text})


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "0001-01-01", "9" * 30, "-" + "9" * 30])
def test_times_far_away_fit_a_request(text: str) -> None:
    time = parse_time(text)
    assert (time > 0) == (text[0] == "9")
    assert store_pb2.LocateRequest(time_ns=time).time_ns == time


def test_topics_by_name_and_by_pattern() -> None:
    assert read_options(STORES | {"topics": "a, b"}).topics == {"a", "b"}
    options = read_options(STORES | {"topicsPattern": "a.c"})
    assert options.asked_pattern == "a.c"
    sources = [SourceName(topic, 1) for topic in ("abc", "abcd", "xabc")]
    assert list(map(options.selects, sources)) == [True, False, False]


def test_stores_are_those_of_the_environment_if_no_option_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUORATE_STORES", "c:3,d:4")
    assert read_options({"topics": "orders"}).stores == ("c:3", "d:4")
    assert read_options(STORES | {"topics": "orders"}).stores == ("a:1", "b:2")
    written = write_options({"topic": "orders"}, streaming=True).layout
    assert [store.address for store in written.stores] == ["c:3", "d:4"]
    grouped = write_options({"topic": "orders", "groups": "g=e:5,f:6"}, streaming=True).layout
    assert [store.address for store in grouped.stores] == ["e:5", "f:6"]


def test_a_table_of_a_catalog_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark hands over none of its options: it must not have every topic of the environment."""
    monkeypatch.setenv("QUORATE_STORES", "c:3,d:4")
    with pytest.raises(InvalidArgument, match="Make a temporary view instead"):
        read_options({})


def test_sources_by_name() -> None:
    options = read_options(STORES | {"assign": "orders/0x10, a.b/0x1"})
    assert options.sources == {ORDERS, SourceName("a.b", 1)}
    assert options.selects(ORDERS)
    assert not options.selects(SourceName("orders", 0x11))
    assert topic_pattern(options.asked_pattern).matches("orders")
    assert not topic_pattern(options.asked_pattern).matches("axb")
    with pytest.raises(InvalidArgument, match="option assign: is given together with topics"):
        read_options(STORES | {"assign": "orders/0x10", "topics": "orders"})
    with pytest.raises(InvalidArgument, match=r"option assign: .*such as orders/0x10"):
        read_options(STORES | {"assign": "orders"})


def test_stores_are_asked_for_all_topics_if_their_names_are_too_long_to_ask() -> None:
    topics = ",".join(f"{'long' * 20}{number}" for number in range(20))
    assert read_options(STORES | {"topics": topics}).asked_pattern == ""


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1767225600000", 1767225600_000_000_000),
        ("2026-01-01T00:00:00Z", 1767225600_000_000_000),
        ("2026-01-01", 1767225600_000_000_000),
        ("2026-01-01T01:00:00.000001+01:00", 1767225600_000_001_000),
        ("1969-12-31T23:59:59Z", -1_000_000_000),
    ],
)
def test_times(text: str, nanoseconds: int) -> None:
    assert parse_time(text) == nanoseconds


def test_bounds_for_all_and_for_some() -> None:
    time = ReadBound(BoundKind.TIME, 1767225600_000_000_000)
    assert read_options(STORES | {"startingOffsets": "2026-01-01"}).start.of(ORDERS) == time
    assert read_options(STORES | {"startingTimestamp": "1767225600000"}).start.of(ORDERS) == time
    some = read_options(
        STORES
        | {
            "startingOffsets": '{"orders/0x10": 7, "a/b/17": "latest", "t/1": -2}',
            "endingOffsets": '{"orders/0x10": "2026-01-01"}',
        }
    )
    assert some.start.of(ORDERS) == ReadBound(BoundKind.SEQUENCE, 7)
    assert some.start.of(SourceName("a/b", 0x11)) == LATEST
    assert some.start.of(SourceName("t", 1)) == EARLIEST
    assert some.start.of(SourceName("other", 1)) == EARLIEST
    assert some.end.of(ORDERS) == time
    assert some.end.of(SourceName("other", 1)) == LATEST


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "option stores: is missing"),
        ({"stores": "nonsense"}, "option stores: 'nonsense'"),
        (STORES | {"startingOfsets": "latest"}, "did you mean startingOffsets"),
        (STORES | {"quark": "1"}, "option quark: is not known; known: .*topicsPattern"),
        (STORES | {"topics": "a", "topicsPattern": "b"}, "give one"),
        (STORES | {"topicsPattern": "("}, "is not a regular expression"),
        (STORES | {"startingOffsets": "soon"}, "option startingOffsets: 'soon'"),
        (STORES | {"startingOffsets": "{"}, "not JSON"),
        (
            STORES | {"startingOffsets": '{"orders": 1}'},
            "is not TOPIC/SESSION, such as orders/0x10",
        ),
        (STORES | {"startingOffsets": '{"orders/1": -3}'}, "-3 is neither"),
        (STORES | {"startingOffsets": '{"orders/1": true}'}, "True is neither"),
        (
            STORES | {"startingOffsets": '{"a/0x10": 1, "b/1": 1, "a/16": 2}'},
            "a/0x10 is named twice",
        ),
        (STORES | {"endingOffsets": '{"a/1": 1, "a/1": 1}'}, "endingOffsets: a/0x1 is named twice"),
        (STORES | {"endingOffsets": "latest", "endingTimestamp": "1"}, "give one"),
        (STORES | {"minPartitions": "0"}, "is not a whole number of at least 1"),
        (STORES | {"failOnDataLoss": "maybe"}, "neither true nor false"),
        (STORES | {"minMessagesPerTrigger": "-1"}, "option minMessagesPerTrigger: '-1' is not a"),
        (
            STORES | {"minMessagesPerTrigger": "11", "maxMessagesPerTrigger": "10"},
            "option minMessagesPerTrigger: is 11, and maxMessagesPerTrigger is 10",
        ),
        ({"subscribe": "t"}, "option subscribe: is one of Spark's source for Kafka; give topics"),
        (STORES | {"maxOffsetsPerTrigger": "5"}, "give maxMessagesPerTrigger"),
        (
            STORES | {"minMessagesPerTrigger": "5", "maxTriggerDelay": "soon"},
            "option maxTriggerDelay: 'soon' is no age",
        ),
        (STORES | {"maxTriggerDelay": "1m"}, "no effect without minMessagesPerTrigger"),
        (STORES | {"answerTimeout": "0"}, "option answerTimeout: '0' is not a number above 0"),
        (STORES | {"fetchTimeout": "5s"}, "option fetchTimeout: '5s' is not a number above 0"),
        (STORES | {"retryTimeout": "inf"}, "option retryTimeout: 'inf' is not a number above 0"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        read_options(given)


def test_how_long_stores_are_waited_for() -> None:
    assert read_options(STORES).timeouts == Timeouts(5.0, 5.0, 10.0)
    given = {"answerTimeout": "1", "fetchTimeout": "2.5", "retryTimeout": "60"}
    made = read_options(STORES | given)
    assert made.timeouts == Timeouts(1.0, 2.5, 60.0)
    assert stores_of(made).timeouts == made.timeouts


def test_when_a_small_micro_batch_begins() -> None:
    made = read_options(STORES)
    assert (made.trigger_messages_min, made.trigger_delay_seconds) == (0, 900.0)
    made = read_options(STORES | {"minMessagesPerTrigger": "10", "maxTriggerDelay": "90s"})
    assert (made.trigger_messages_min, made.trigger_delay_seconds) == (10, 90.0)


def test_what_spark_adds_is_let_pass() -> None:
    read_options(STORES | {"path": "x", "checkpointLocation": "y"})
