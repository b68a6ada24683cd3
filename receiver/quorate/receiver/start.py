"""Start positions, as an application names them: where a receiver begins that has no position yet.

No I/O. Which message a start position means in a source's stream is decided in
quorate.receiver.protocol.start_position.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.times import moment_of, nanoseconds_of

_HELP = 'give "earliest", "latest", "last:N", a sequence number or a time such as 2026-01-31T12:00Z'


class StartKind(enum.Enum):
    """The kinds of start positions. `Start.value` differs by kind."""

    AT = "at"
    """The value is a sequence number."""
    LAST = "last"
    """The value is a number of messages."""
    SINCE = "since"
    """The value is a time, in nanoseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True, repr=False)
class Start:
    """The place where a receiver starts with a source for which no store has a position of it.

    Stores that have a position decide by it. So a receiver that is started again goes on where it
    stopped, whatever its start is.
    """

    kind: StartKind
    value: int

    EARLIEST: ClassVar[Start]
    """The first message that is still there."""
    LATEST: ClassVar[Start]
    """The first message that is sent after the receiver has subscribed."""

    @classmethod
    def at(cls, sequence: int) -> Start:
        """Return the message with this sequence number. Raises InvalidArgument.

        0 is EARLIEST. A number beyond the end of a stream is LATEST.
        """
        if isinstance(sequence, bool) or not 0 <= sequence <= SEQUENCE_MAX:
            raise InvalidArgument("start", f"{sequence!r} is not a sequence number")
        return cls(StartKind.AT, sequence)

    @classmethod
    def last(cls, count: int) -> Start:
        """Return the newest so many messages of each source. Raises InvalidArgument.

        0 is LATEST. All messages count as newest that come after the receiver has subscribed.
        """
        if isinstance(count, bool) or count < 0:
            raise InvalidArgument("start", f"{count!r} is not a number of messages")
        return cls(StartKind.LAST, count)

    @classmethod
    def since(cls, time: datetime) -> Start:
        """Return the first message that was sent at this time or later.

        Each source's own clock counts. A time without a zone is taken as UTC.
        """
        return cls(StartKind.SINCE, nanoseconds_of(time))

    @classmethod
    def of(cls, value: Start | str | int | datetime) -> Start:
        """Return the start position that a text, a number or a time stands for.

        A text is "earliest", "latest", "last:N", a sequence number, or a time in ISO 8601. Raises
        InvalidArgument.
        """
        match value:
            case Start():
                return value
            case datetime():
                return cls.since(value)
            case int():
                return cls.at(value)
            case str():
                return cls._parsed(value)
        raise InvalidArgument("start", f"{value!r} is none; {_HELP}")

    @classmethod
    def _parsed(cls, text: str) -> Start:
        if text == "earliest":
            return cls.EARLIEST
        if text == "latest":
            return cls.LATEST
        if counted := re.fullmatch(r"last:([0-9]+)", text):
            return cls.last(int(counted[1]))
        if re.fullmatch(r"[0-9]+", text):
            return cls.at(int(text))
        try:
            return cls.since(datetime.fromisoformat(text))
        except ValueError:
            raise InvalidArgument("start", f"{text!r} is none; {_HELP}") from None

    def __repr__(self) -> str:
        return f"Start.of({str(self)!r})"

    def __str__(self) -> str:
        """Return the text that `of` reads."""
        match self.kind:
            case StartKind.AT:
                return str(self.value) if self.value else "earliest"
            case StartKind.LAST:
                return f"last:{self.value}" if self.value else "latest"
            case StartKind.SINCE:
                return moment_of(self.value).isoformat()


Start.EARLIEST = Start.at(0)
Start.LATEST = Start.last(0)
