"""Where a subscription begins, as an application names it. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.times import nanoseconds_of, seconds_of

_HELP = (
    'give "epoch", "now" or "most_recent", a bookmark such as orders/0x1@7:3836, several of '
    'them, or a position. Or give a time such as 2026-01-31T12:00Z, or an age such as "-15m"'
)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The first message of each source."""

    def __str__(self) -> str:
        return "epoch"


@dataclass(frozen=True, slots=True)
class Now:
    """The first message that is sent from now on."""

    def __str__(self) -> str:
        return "now"


@dataclass(frozen=True, slots=True)
class Since:
    """The first message of each source of this time or later."""

    time_ns: int
    """Nanoseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Ago:
    """The first message of each source that is not older."""

    seconds: float


@dataclass(frozen=True, slots=True)
class MostRecent:
    """Where the bookmark store says that the application has come to; EPOCH if it says nothing."""

    def __str__(self) -> str:
        return "most_recent"


EPOCH = Epoch()
"""The first message of each source that is still there."""
NOW = Now()
"""The first message that is sent from now on."""

MOST_RECENT = MostRecent()
"""Where the application has come to, by its bookmark store."""

Begin = Epoch | Now | MostRecent | Since | Ago | Position | tuple[Bookmark, ...]
"""Where a subscription begins, as a value."""

_NAMED: dict[str, Begin] = {"epoch": EPOCH, "now": NOW, "most_recent": MOST_RECENT}

GivenBegin = Begin | Bookmark | Sequence[Bookmark] | datetime | str
"""Where a subscription begins, as an application may name it."""


def read_begin(given: GivenBegin) -> Begin:
    """Return the value of what an application named. Raises InvalidArgument."""
    match given:
        case Epoch() | Now() | MostRecent() | Since() | Ago() | Position():
            return given
        case Bookmark():
            return (given,)
        case datetime():
            return Since(nanoseconds_of(given))
        case str():
            return _parsed(given.strip())
        case [*bookmarks] if bookmarks and all(isinstance(each, Bookmark) for each in bookmarks):
            return tuple(bookmarks)
    raise InvalidArgument("begin", f"{given!r} is none; {_HELP}")


def _parsed(text: str) -> Begin:
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    if text.startswith("-") and (age := seconds_of(text[1:])) is not None:
        return Ago(age)
    if text.startswith("["):
        return Position.parse(text)
    if "@" in text:
        return tuple(map(Bookmark.parse, re.split(r",\s*", text)))
    try:
        return Since(nanoseconds_of(datetime.fromisoformat(text)))
    except ValueError:
        raise InvalidArgument("begin", f"{text!r} is none; {_HELP}") from None
