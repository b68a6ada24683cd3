"""Moments become nanoseconds since 1970, and the other way round."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from quorate.protocol.times import TIME_NS_MAX, moment_of, nanoseconds_of


@pytest.mark.parametrize(
    ("moment", "time_ns"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1_000),
        (datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC), 1_769_860_800_000_001_000),
    ],
)
def test_both_ways(moment: datetime, time_ns: int) -> None:
    assert nanoseconds_of(moment) == time_ns
    assert moment_of(time_ns) == moment


def test_a_moment_without_a_zone_is_utc_and_another_zone_counts() -> None:
    assert nanoseconds_of(datetime(1970, 1, 2)) == 86_400 * 10**9
    east = timezone(timedelta(hours=1))
    assert nanoseconds_of(datetime(1970, 1, 1, 1, tzinfo=east)) == 0


def test_what_64_bits_do_not_hold_is_their_last_time() -> None:
    assert nanoseconds_of(datetime(9999, 12, 31, tzinfo=UTC)) == TIME_NS_MAX
    assert nanoseconds_of(datetime(1, 1, 1, tzinfo=UTC)) == -TIME_NS_MAX


def test_less_than_a_microsecond_is_left_out() -> None:
    assert moment_of(1_999) == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
