"""Moments, and the times of messages: nanoseconds since 1970 UTC. Nothing here reads a clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

TIME_NS_MAX = 2**63 - 1
"""The last time that requests can name: in the year 2262."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Times(NamedTuple):
    """The times of the messages of a batch."""

    least_ns: int
    """The least of them, which is that of the batch: nanoseconds since 1970 UTC."""
    later: Sequence[int] = ()
    """How much later each message was sent, in nanoseconds; empty: all at the same time."""


def times_of(each: Sequence[int]) -> Times:
    """Return the times of messages, at least one, as a batch has them.

    A clock that was set back makes no time negative, because they count from the least.
    """
    least = each[0]
    if each.count(least) == len(each):
        return Times(least)
    least = min(each)
    return Times(least, [time_ns - least for time_ns in each])


def nanoseconds_of(moment: datetime) -> int:
    """Return the time of a moment, limited to what 64 bits hold.

    A moment without a zone is taken as UTC.
    """
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(-TIME_NS_MAX, min((moment - _EPOCH) // _MICROSECOND * 1000, TIME_NS_MAX))


def moment_of(time_ns: int) -> datetime:
    """Return the moment of a time, in UTC and to the microsecond."""
    return _EPOCH + timedelta(microseconds=time_ns // 1000)
