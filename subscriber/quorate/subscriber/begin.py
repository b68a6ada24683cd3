"""Where a subscription begins and ends, as an application names it. No I/O, and no clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

from quorate.protocol.bookmarks import Bookmark, Position, is_behind
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.times import TIME_NS_MAX, later_ns, moment_of, nanoseconds_of, seconds_of

_POINTS = (
    "one or several bookmarks such as orders/0x1@7:3836, a position, or a time such as "
    '2026-01-31T12:00Z, 1769860800 or "-15m"'
)
_BEGINS = (
    f'give "epoch", "now", "most_recent", {_POINTS}. Before a bookmark or a '
    'time, "at" means that the range has it, and "after" that it has not'
)
_ENDS = (
    f'give "now", {_POINTS}. Before a bookmark or a time, "at" means that the range has it, and '
    '"before" that it has not'
)


_SECONDS_MIN = 1e8
"""The least number of seconds since 1970 that counts as a time, not as a mistake: in 1973."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The first message of each source."""

    def __str__(self) -> str:
        return "epoch"


@dataclass(frozen=True, slots=True)
class Now:
    """Between what is there now, and what is sent from now on."""

    def __str__(self) -> str:
        return "now"


@dataclass(frozen=True, slots=True)
class Time:
    """Before the first message of each source of this time or later."""

    time_ns: int
    """Nanoseconds since 1970 UTC."""

    def __str__(self) -> str:
        return moment_of(self.time_ns).isoformat()


@dataclass(frozen=True, slots=True)
class Behind:
    """Right behind the earliest of these messages; to end at, behind the latest."""

    bookmarks: tuple[Bookmark, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.bookmarks))


@dataclass(frozen=True, slots=True)
class Ahead:
    """Right before the earliest of these messages; to end at, before the latest."""

    bookmarks: tuple[Bookmark, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.bookmarks))


@dataclass(frozen=True, slots=True)
class MostRecent:
    """Where the bookmark store says that the application has come to; EPOCH if it says nothing."""

    def __str__(self) -> str:
        return "most_recent"


EPOCH = Epoch()
"""The first message of each source that is still there."""
NOW = Now()
"""To begin: the first message that is sent from now on. To end: the last one that is there."""

MOST_RECENT = MostRecent()
"""Where the application has come to, by its bookmark store."""

End = Now | Time | Position | Behind | Ahead
"""Where a subscription ends, as a value."""
Begin = Epoch | MostRecent | End
"""Where a subscription begins, as a value."""

_NAMED: dict[str, Epoch | Now | MostRecent] = {
    "epoch": EPOCH,
    "now": NOW,
    "most_recent": MOST_RECENT,
}

GivenEnd = Now | Position | Bookmark | Sequence[Bookmark] | datetime | float | str
"""Where a subscription ends, as an application may name it."""
GivenBegin = Epoch | MostRecent | GivenEnd
"""Where a subscription begins, as an application may name it."""

_Point = Epoch | Now | MostRecent | Position | tuple[Bookmark, ...] | Time


def read_begin(given: GivenBegin, now_ns: int) -> Begin:
    """Return the value of what an application named. Raises InvalidArgument.

    now_ns: the time by the clock, in nanoseconds since 1970 UTC.
    """
    word, point = _read("begin", given, now_ns, _BEGINS)
    match word, point:
        case "" | "after", tuple():
            return Behind(point)
        case "at", tuple():
            return Ahead(point)
        case "" | "at", Time():
            return point
        case "after", Time(time_ns):
            return _behind(time_ns)
        case "", Epoch() | Now() | MostRecent() | Position():
            return point
    raise InvalidArgument("begin", f"{str(given)!r} is none; {_BEGINS}")


def read_end(given: GivenEnd, now_ns: int) -> End:
    """Return the value of what an application named. Raises InvalidArgument.

    now_ns: the time by the clock, in nanoseconds since 1970 UTC.
    """
    word, point = _read("end", given, now_ns, _ENDS)
    match word, point:
        case "" | "at", tuple():
            return Behind(point)
        case "before", tuple():
            return Ahead(point)
        case "" | "before", Time():
            return point
        case "at", Time(time_ns):
            return _behind(time_ns)
        case "", Now() | Position():
            return point
    raise InvalidArgument("end", f"{str(given)!r} is none; {_ENDS}")


def read_time(name: str, given: datetime | str, now_ns: int) -> int:
    """Return a time that has passed, as an application named it, in nanoseconds since 1970 UTC.

    name: that of the argument. Raises InvalidArgument.
    """
    wanted = 'give a time: a datetime, "2026-11-21T10:00", or "-15m"'
    word, point = _read(name, given, now_ns, wanted)
    if word or not isinstance(point, Time):
        raise InvalidArgument(name, f"{str(given)!r} is none; {wanted}")
    if point.time_ns > now_ns:
        raise InvalidArgument(name, f"{str(given)!r} is still to come; {wanted}")
    return point.time_ns


def check_order(begin: Begin, end: End, now_ns: int) -> None:
    """Raise InvalidArgument if it is certain already that the end is before the beginning."""
    match begin, end:
        case Time(since_ns), Time(before_ns):
            is_wrong = before_ns < since_ns
        case Now(), Time(before_ns):
            is_wrong = before_ns < now_ns
        case Position(), Position():
            is_wrong = is_behind(begin, end)
        case _:
            return
    if is_wrong:
        raise ends_first(begin, end)


def ends_first(begin: Begin, end: End) -> InvalidArgument:
    """Return the error for an end that is before the beginning."""
    return InvalidArgument("end", f"{end} is before the beginning, {begin}: exchange the two")


def _behind(time_ns: int) -> Time:
    """Return the next time that an application can name."""
    return Time(min(time_ns + 1000, TIME_NS_MAX))


def _read(name: str, given: object, now_ns: int, wanted: str) -> tuple[str, _Point]:
    """Return the word before a point, and the point."""
    match given:
        case Epoch() | Now() | MostRecent() | Position():
            return "", given
        case Bookmark():
            return "", (given,)
        case datetime():
            return "", Time(nanoseconds_of(given))
        case int() | float() if _SECONDS_MIN <= given < inf:
            return "", Time(later_ns(0, given))
        case str():
            word, text = _split(given.strip())
            return word, _parsed(name, text, now_ns, wanted)
        case [*several]:
            bookmarks = tuple(each for each in several if isinstance(each, Bookmark))
            if bookmarks and len(bookmarks) == len(several):
                return "", bookmarks
    raise InvalidArgument(name, f"{given!r} is none; {wanted}")


def _split(text: str) -> tuple[str, str]:
    parts = re.fullmatch(r"(at|after|before)\s+(.+)", text, re.IGNORECASE | re.DOTALL)
    return (parts[1].lower(), parts[2]) if parts else ("", text)


def _parsed(name: str, text: str, now_ns: int, wanted: str) -> _Point:
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    if text[:1] in ("+", "-") and (seconds := seconds_of(text[1:])) is not None:
        return Time(later_ns(now_ns, seconds if text[0] == "+" else -seconds))
    if re.fullmatch(r"\d{9,11}(\.\d{1,9})?", text, re.ASCII):  # a date has eight digits
        return Time(later_ns(0, float(text)))
    if text.startswith("["):
        return Position.parse(text)
    if "@" in text:
        return tuple(map(Bookmark.parse, re.split(r",\s*", text)))
    try:
        return Time(nanoseconds_of(datetime.fromisoformat(text)))
    except ValueError:
        raise InvalidArgument(name, f"{text!r} is none; {wanted}") from None
