"""Handing messages over again at the pace at which they once came: when each is due, and progress.

Pure but for the clock and the sink that it is given. Where messages come from and go to is not
known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from quorate.protocol.errors import InvalidArgument

FLAT_OUT = float("inf")
"""A speed: nothing is waited for."""

GRAIN_SECONDS = 0.002
"""What is due within so short a time is handed over now, together."""

PROGRESS_SECONDS = 1.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Position(NamedTuple):
    """A place in the order of a replay: by time, then topic, source and number."""

    time_us: int
    """µs since 1970."""
    topic: str
    source: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """A message that comes again."""

    position: Position
    epoch: int
    payload: bytes
    key: bytes | None
    properties: Mapping[str, bytes]

    @property
    def topic(self) -> str:
        return self.position.topic

    @property
    def time(self) -> datetime:
        """When it was sent."""
        return as_time(self.position.time_us)


def as_time(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)


class Clock(Protocol):
    """Time as it passes for the replay."""

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Sink(Protocol):
    """Where messages go."""

    def take(self, message: Replayed) -> bool:
        """Accept it; False: it was there already."""
        ...

    def flush(self) -> None:
        """What was taken has to be on its way now."""
        ...


class Pace:
    """Maps the time of messages to the time of the clock, from the first message on."""

    def __init__(self, speed: float) -> None:
        """speed: how many times faster than it was; FLAT_OUT. Raises InvalidArgument."""
        if not speed > 0:
            raise InvalidArgument("speed", f"{speed:g} is no number above 0")
        self._speed = speed
        self._began: tuple[int, float] | None = None

    def wait(self, time_us: int, now: float) -> float:
        """Seconds until a message of that time is due; negative: it is late by so many."""
        if self._speed == FLAT_OUT:
            return 0.0
        if self._began is None:
            self._began = (time_us, now)
        first_us, began = self._began
        return began + (time_us - first_us) / 1e6 / self._speed - now


@dataclass(slots=True)
class Progress:
    """How far a replay has come."""

    messages: int = 0
    """Handed over."""
    already: int = 0
    """Were there before."""
    bytes: int = 0
    first_us: int | None = None
    last_us: int | None = None
    seconds: float = 0.0
    behind: float = 0.0
    """Seconds by which the last message was late."""
    behind_max: float = 0.0

    @property
    def original_seconds(self) -> float:
        """Between the first message and the last, as they once came."""
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
    progress: Progress,
    told: Callable[[str], None],
) -> None:
    """Hand all over, each when it is due; progress is kept up to date, and told every second."""
    began = told_at = None
    for message in messages:
        now = clock.now()
        if began is None or told_at is None:
            # Until the first one comes somebody else computes.
            began = told_at = now
        wait = pace.wait(message.position.time_us, now)
        if wait > GRAIN_SECONDS:
            # Nothing that is due stays behind while it is waited.
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


def _count(progress: Progress, message: Replayed, behind: float) -> None:
    progress.messages += 1
    progress.bytes += len(message.payload)
    if progress.first_us is None:
        progress.first_us = message.position.time_us
    progress.last_us = message.position.time_us
    progress.behind = behind
    progress.behind_max = max(progress.behind_max, behind)
