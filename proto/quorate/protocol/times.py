"""Moments, and the times of messages: nanoseconds since 1970 UTC. Nothing here reads a clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import NamedTuple

from quorate.protocol.errors import InvalidArgument

TIME_NS_MAX = 2**63 - 1
"""The last time that requests can name: in the year 2262."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECONDS_MAX = 2 * TIME_NS_MAX / 1e9
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


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
    if each[-1] == least and each.count(least) == len(each):
        return Times(least)
    least = min(each)
    return Times(least, [time_ns - least for time_ns in each])


def expiry_ns(expires: datetime | float | None, now_ns: int) -> int | None:
    """Return the time at which a message expires, as an application names it. It may be past.

    expires: a moment, or seconds after now; None: never. Raises InvalidArgument.
    """
    match expires:
        case None:
            return None
        case datetime():
            return nanoseconds_of(expires)
        case int() | float() if isfinite(expires) and not isinstance(expires, bool):
            return later_ns(now_ns, expires)
    raise InvalidArgument("expires", f"is {expires!r}, not a datetime or a number of seconds")


def later_ns(time_ns: int, seconds: float) -> int:
    """Return a time that is so much later, or earlier, limited to what 64 bits hold."""
    seconds = max(-_SECONDS_MAX, min(seconds, _SECONDS_MAX))
    return max(-TIME_NS_MAX, min(time_ns + round(seconds * 1e9), TIME_NS_MAX))


def seconds_of(text: str) -> float | None:
    """Return the seconds of a text such as "15m" or "1.5h"; None: it is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    return float(found[1]) * _UNITS[found[2]] if found is not None else None


def age_of(name: str, text: str) -> float:
    """Return the seconds of an age such as "7d". Raises InvalidArgument.

    name: that of the option.
    """
    if (seconds := seconds_of(text)) is None:
        raise InvalidArgument(name, f"{text!r} is no age; give one such as 7d or 12h")
    return seconds


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
