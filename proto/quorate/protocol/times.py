"""Moments, and the times of messages: nanoseconds since 1970 UTC. Nothing here reads a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

TIME_NS_MAX = 2**63 - 1
"""The last time that requests can name: in the year 2262."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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
