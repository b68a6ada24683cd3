"""What filters leave to be read; nothing that may pass is left out."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from quorate.pipeline.read.filters import (
    CLOCK_STEP_SECONDS_MAX,
    Restriction,
    restrict,
)
from quorate.protocol.identity import SourceName

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT_NS = 1_767_225_600_000_000_000
ALLOWANCE_NS = CLOCK_STEP_SECONDS_MAX * 1_000_000_000


def alone(each: Filter) -> Restriction:
    """What one filter leaves, of which it says all."""
    restriction, rest = restrict([each])
    assert rest == []
    return restriction


def test_topics_and_sources() -> None:
    assert alone(EqualTo(("topic",), "a")).topics == frozenset({"a"})
    assert alone(EqualNullSafe(("topic",), "a")).topics == frozenset({"a"})
    assert alone(In(("source",), ("0x10", "0x11"))).sessions == frozenset({"0x10", "0x11"})
    both, _ = restrict([In(("topic",), ("a", "b")), In(("topic",), ("b", "c"))])
    assert both.topics == frozenset({"b"})
    assert both.selects(SourceName("b", 1))
    assert not both.selects(SourceName("a", 1))
    assert not alone(EqualTo(("source",), "0x010")).selects(SourceName("a", 16))


def test_sequence_numbers() -> None:
    restriction, rest = restrict([GreaterThan(("sequence",), 5), LessThanOrEqual(("sequence",), 9)])
    assert (restriction.first, restriction.until, rest) == (6, 10, [])
    restriction, _ = restrict([GreaterThanOrEqual(("sequence",), 5), LessThan(("sequence",), 9)])
    assert (restriction.first, restriction.until) == (5, 9)
    restriction = alone(EqualTo(("sequence",), 7))
    assert (restriction.first, restriction.until) == (7, 8)
    some = In(("sequence",), (3, 9))
    restriction, rest = restrict([some])
    assert (restriction.first, restriction.until, rest) == (3, 10, [some])
    assert alone(LessThan(("sequence",), -5)).until == 0


def test_times_are_narrowed_down_with_an_allowance_and_left_to_spark() -> None:
    after, before = GreaterThan(("timestamp",), MOMENT), LessThanOrEqual(("timestamp",), MOMENT)
    restriction, rest = restrict([after, before])
    assert restriction.since_ns == MOMENT_NS - ALLOWANCE_NS
    assert restriction.before_ns == MOMENT_NS + 1000 + ALLOWANCE_NS
    assert rest == [after, before]
    earlier = GreaterThan(("timestamp",), datetime(2025, 1, 1, tzinfo=UTC))
    restriction, _ = restrict([after, earlier])
    assert restriction.since_ns == MOMENT_NS - ALLOWANCE_NS


def test_what_is_never_null_need_not_be_looked_at() -> None:
    assert restrict([IsNotNull(("topic",))]) == (Restriction(), [])
    assert restrict([IsNotNull(("key",))])[1] == [IsNotNull(("key",))]


def test_what_is_not_understood_is_left_to_spark() -> None:
    filters: list[Filter] = [
        Not(EqualTo(("topic",), "a")),
        EqualTo(("topic", "length"), "a"),
        EqualTo(("sequence",), "7"),
        EqualTo(("payload",), b"x"),
        IsNull(("topic",)),
        StringStartsWith(("topic",), "a"),
        EqualNullSafe(("topic",), None),
        In(("topic",), ()),
        GreaterThan(("topic",), "a"),
    ]
    assert restrict(filters) == (Restriction(), filters)
