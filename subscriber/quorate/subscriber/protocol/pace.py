"""The pace of a replay: when the next message is due. Pure.

A pace counts messages or bytes a second, or follows the times of the messages, at a multiple of
their own pace. A replay that is late hands over at once, and never makes up for more than a second.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from math import inf

from quorate.protocol.errors import InvalidArgument

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_LATE_SECONDS = 1.0
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(?:(x)|([kmg]i?)?(b)?/s)\s*", re.I)
_HELP = 'give "1000/s", "500KB/s" or "2x"'


class RateKind(enum.Enum):
    """The things that a rate counts."""

    MESSAGES = "messages"
    """Messages a second."""
    BYTES = "bytes"
    """Bytes of payload a second."""
    MULTIPLE = "multiple"
    """Seconds of the messages' own time a second."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The pace that an application asks for."""

    kind: RateKind
    value: float

    @staticmethod
    def parse(text: str) -> Rate:
        """Return the rate of a text such as "1000/s", "500KB/s" or "2x". Raises InvalidArgument."""
        found = _RATE.fullmatch(str(text))
        if found is None:
            raise InvalidArgument("rate", f"{text!r} is none; {_HELP}")
        number, multiple, unit, in_bytes = found.groups()
        value = float(number) * _UNITS[(unit or "").lower()]
        if not 0 < value < inf:
            raise InvalidArgument("rate", f"{text!r} is not above 0; to stop for a while, pause")
        if multiple:
            return Rate(RateKind.MULTIPLE, value)
        return Rate(RateKind.BYTES if in_bytes else RateKind.MESSAGES, value)


class Pace:
    """The pace of one replay."""

    def __init__(self, rate: Rate, max_gap: float | None = None) -> None:
        """Begin with the first message.

        max_gap: the longest pause, in seconds, that a multiple of the own pace makes; None: none.
        """
        self._rate = rate
        self._max_gap = inf if max_gap is None else max_gap
        self._due_at: float | None = None
        self._time_ns = 0

    def due_at(self, now: float, size: int, time_ns: int) -> float:
        """Return the time at which a message may be handed over, and count it.

        - size: bytes of its payload.
        - time_ns: its own time, in nanoseconds since 1970.
        """
        if self._due_at is None:
            self._due_at, self._time_ns = now, time_ns
        due_at = max(self._due_at, now - _LATE_SECONDS)
        match self._rate.kind:
            case RateKind.MESSAGES:
                self._due_at = due_at + 1 / self._rate.value
            case RateKind.BYTES:
                self._due_at = due_at + size / self._rate.value
            case RateKind.MULTIPLE:
                gap = max(0.0, (time_ns - self._time_ns) / 1e9 / self._rate.value)
                due_at = self._due_at = due_at + min(gap, self._max_gap)
                self._time_ns = max(self._time_ns, time_ns)
        return due_at
