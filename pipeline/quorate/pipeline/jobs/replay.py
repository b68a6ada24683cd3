"""The pace of a replay: when each message is due, and the progress.

A caller gives the clock and the sink. Nothing here knows where messages come from or go to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.times import moment_of

FLAT_OUT = float("inf")
"""The speed of a replay that does not wait for any message to be due."""

GRAIN_SECONDS = 0.002
"""Messages that are due within so many seconds are handed over at once, together."""

PROGRESS_SECONDS = 1.0


class Position(NamedTuple):
    """A place in the order of a replay, which is by time, topic, source and sequence number."""

    time_us: int
    """The time in µs since 1970."""
    topic: str
    source: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """A message of a replay."""

    position: Position
    epoch: int
    payload: bytes
    key: bytes | None
    properties: Mapping[str, bytes]
    deleted: bool = False
    expires: datetime | None = None
    sent_us: int | None = None
    """The time of the message in µs since 1970; None: that of its position."""

    @property
    def topic(self) -> str:
        return self.position.topic

    @property
    def time(self) -> datetime:
        """The time at which the message was first sent, in UTC."""
        return as_time(self.position.time_us if self.sent_us is None else self.sent_us)


def as_time(time_us: int) -> datetime:
    return moment_of(time_us * 1000)


class Clock(Protocol):
    """The clock of a replay."""

    def now(self) -> float:
        """Return the seconds since some moment."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Sink(Protocol):
    """The destination of the messages."""

    def take(self, message: Replayed) -> bool:
        """Take a message; return False if it was sent by an earlier replay."""
        ...

    def flush(self) -> None:
        """Send all messages that were taken."""
        ...


class Pace:
    """A map from the times of messages to those of the clock, which begins at the first message."""

    def __init__(self, speed: float) -> None:
        """speed: times faster than the original, or FLAT_OUT. Raises InvalidArgument."""
        if not speed > 0:
            raise InvalidArgument("speed", f"{speed:g} is not a number above 0")
        self._speed = speed
        self._began: tuple[int, float] | None = None

    def wait(self, time_us: int, now: float) -> float:
        """Return the seconds until a message of that time is due; negative if it is late."""
        if self._speed == FLAT_OUT:
            return 0.0
        if self._began is None:
            self._began = (time_us, now)
        first_us, began = self._began
        return began + (time_us - first_us) / 1e6 / self._speed - now


@dataclass(slots=True)
class ReplayProgress:
    """The progress of a replay."""

    messages: int = 0
    """Number of messages that were handed over."""
    already: int = 0
    """Number of messages that an earlier replay had sent."""
    bytes: int = 0
    first_us: int | None = None
    last_us: int | None = None
    seconds: float = 0.0
    behind: float = 0.0
    """Seconds by which the last message was late."""
    behind_max: float = 0.0

    @property
    def original_seconds(self) -> float:
        """Seconds between the original times of the first and the last message."""
        if self.first_us is None or self.last_us is None:
            return 0.0
        return (self.last_us - self.first_us) / 1e6

    def __str__(self) -> str:
        if self.last_us is None:
            return "no message yet"
        at = as_time(self.last_us).strftime("%Y-%m-%d %H:%M:%S")
        rate = self.messages / self.seconds if self.seconds > 0 else 0.0
        late = f", {self.behind:.1f} s late" if self.behind >= 0.1 else ""
        return f"{self.messages:,} messages, {rate:,.0f}/s, at {at}{late}"


def replay(
    messages: Iterable[Replayed],
    sink: Sink,
    pace: Pace,
    clock: Clock,
    progress: ReplayProgress,
    told: Callable[[str], None],
) -> None:
    """Hand each message to the sink when it is due, and keep the progress up to date.

    told: a function that gets a line about the progress every second.
    """
    began = told_at = None
    for message in messages:
        now = clock.now()
        if began is None or told_at is None:
            # The time until the first message belongs to the query, not to the replay.
            began = told_at = now
        wait = pace.wait(message.position.time_us, now)
        if wait > GRAIN_SECONDS:
            # Messages that are due must not wait in the sink meanwhile.
            sink.flush()
            while (wait := pace.wait(message.position.time_us, clock.now())) > GRAIN_SECONDS:
                clock.sleep(min(wait, PROGRESS_SECONDS))
            now = clock.now()
        if sink.take(message):
            _count(progress, message, max(0.0, -wait))
        else:
            progress.already += 1
        progress.seconds = now - began
        if now - told_at >= PROGRESS_SECONDS:
            told_at = now
            told(str(progress))
    sink.flush()
    if began is not None:
        progress.seconds = clock.now() - began


def _count(progress: ReplayProgress, message: Replayed, behind: float) -> None:
    progress.messages += 1
    progress.bytes += len(message.payload)
    if progress.first_us is None:
        progress.first_us = message.position.time_us
    progress.last_us = message.position.time_us
    progress.behind = behind
    progress.behind_max = max(progress.behind_max, behind)
