"""The messages of a replay in columns, their pace, and the progress.

A replay hands over slices: the consecutive messages that are due together. So most work is done
once a slice. A caller gives the clock and the sink. Nothing here knows where messages come from or
go to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.times import moment_of

FLAT_OUT = float("inf")
"""The speed of a replay that does not wait for any message to be due."""

GRAIN_SECONDS = 0.002
"""Messages that are due within so many seconds are handed over at once, together."""

PROGRESS_SECONDS = 1.0

SLICE_MESSAGES_MAX = 4096
"""Most messages of a slice."""
SLICE_SECONDS = 0.05
"""A sink that needs longer for a slice gets fewer messages at once, so that it keeps the pace."""

NO_PROPERTIES: Mapping[str, bytes] = MappingProxyType({})


class Position(NamedTuple):
    """A place in the order of a replay, which is by time, topic, source and sequence number."""

    time_us: int
    """The time in µs since 1970."""
    topic: str
    source: str
    sequence: int


class Replayed(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive messages of a replay, in columns of equal length. Times are in µs since 1970."""

    times_us: Sequence[int]
    """The times of their positions, which ascend."""
    topics: Sequence[str]
    sources: Sequence[str]
    sequences: Sequence[int]
    epochs: Sequence[int]
    payloads: Sequence[bytes]
    keys: Sequence[bytes | None]
    properties: Sequence[Mapping[str, bytes]]
    deleted: Sequence[bool]
    expires_us: Sequence[int | None]
    sent_us: Sequence[int]

    def __len__(self) -> int:
        return len(self.times_us)

    def __iter__(self) -> Iterator[Replayed]:
        places = zip(self.times_us, self.topics, self.sources, self.sequences, strict=True)
        expires: Iterable[datetime | None] = repeat(None, len(self))
        if any(each is not None for each in self.expires_us):
            expires = (None if each is None else as_time(each) for each in self.expires_us)
        columns = zip(
            map(Position._make, places),
            self.epochs,
            self.payloads,
            self.keys,
            self.properties,
            self.deleted,
            expires,
            self.sent_us,
            strict=True,
        )
        return map(Replayed._make, columns)

    def position(self, row: int) -> Position:
        return Position(
            self.times_us[row], self.topics[row], self.sources[row], self.sequences[row]
        )

    def rows_upto(self, position: Position) -> int:
        """Return the number of messages that are not behind a position."""
        return bisect_right(range(len(self)), position, key=self.position)

    def part(self, first: int, end: int) -> Slice:
        """Return the messages from the row `first` on and before the row `end`."""
        if first == 0 and end >= len(self):
            return self
        return Slice(*(column[first:end] for column in self._columns()))

    def only(self, topic: str) -> Slice:
        """Return the messages of a topic."""
        rows = [row for row, each in enumerate(self.topics) if each == topic]
        if len(rows) == len(self):
            return self
        return Slice(*([column[row] for row in rows] for column in self._columns()))

    def _columns(self) -> Iterator[Sequence[Any]]:
        return (getattr(self, name) for name in self.__slots__)


class Clock(Protocol):
    """The clock of a replay."""

    def now(self) -> float:
        """Return the seconds since some moment."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Sink(Protocol):
    """The destination of the messages."""

    def take(self, messages: Slice, progress: ReplayProgress) -> None:
        """Take messages in their order, and count each in the progress as soon as it is taken.

        Messages that were sent by an earlier replay are counted as such, and not taken.
        """
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

    def due(self, times_us: Sequence[int], first: int, end: int, now: float) -> int:
        """Return the row before which all messages from `first` on are due; at most `end`.

        times_us: of all rows, ascending.
        """
        if self._speed == FLAT_OUT:
            return end

        def wait(time_us: int) -> float:
            return self.wait(time_us, now)

        return bisect_right(times_us, GRAIN_SECONDS, first, end, key=wait)


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

    def add(self, messages: Slice, count: int) -> None:
        """Count the first messages of a slice, which were handed over."""
        if not count:
            return
        self.messages += count
        self.bytes += sum(map(len, messages.payloads[:count]))
        if self.first_us is None:
            self.first_us = messages.times_us[0]
        self.last_us = messages.times_us[count - 1]

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
    slices: Iterable[Slice],
    sink: Sink,
    pace: Pace,
    clock: Clock,
    progress: ReplayProgress,
    told: Callable[[str], None],
) -> None:
    """Hand each message to the sink when it is due, and keep the progress up to date.

    told: a function that gets a line about the progress every second.
    """
    _Replaying(sink, pace, clock, progress, told).run(slices)


class _Replaying:
    """One run of `replay`."""

    def __init__(
        self,
        sink: Sink,
        pace: Pace,
        clock: Clock,
        progress: ReplayProgress,
        told: Callable[[str], None],
    ) -> None:
        self._sink = sink
        self._pace = pace
        self._clock = clock
        self._progress = progress
        self._told = told
        self._began: float | None = None
        """When the first message was there: the time before belongs to the query."""
        self._told_at = 0.0
        self._at_once = 1
        """Most messages that the sink gets at once, which grows while it is quick."""

    def run(self, slices: Iterable[Slice]) -> None:
        for messages in slices:
            first = 0
            while first < len(messages):
                first = self._hand_over(messages, first)
        self._sink.flush()
        if self._began is not None:
            self._progress.seconds = self._clock.now() - self._began

    def _hand_over(self, messages: Slice, first: int) -> int:
        """Hand over messages from a row on once they are due; return the row behind them."""
        now = self._clock.now()
        if self._began is None:
            self._began = self._told_at = now
        times = messages.times_us
        if self._pace.wait(times[first], now) > GRAIN_SECONDS:
            now = self._waited_for(times[first])
        end = min(len(messages), first + self._at_once)
        # The first message is due, or so nearly that the clock cannot tell.
        end = max(first + 1, self._pace.due(times, first, end, now))
        progress = self._progress
        progress.behind = max(0.0, -self._pace.wait(times[end - 1], now))
        late = max(0.0, -self._pace.wait(times[first], now))
        already = progress.already
        self._sink.take(messages.part(first, end), progress)
        if progress.already - already < end - first:
            progress.behind_max = max(progress.behind_max, late)
        self._note(now, self._clock.now())
        return end

    def _waited_for(self, time_us: int) -> float:
        """Wait until a message of this time is due; return the time of the clock."""
        # Messages that are due must not wait in the sink meanwhile.
        self._sink.flush()
        while (wait := self._pace.wait(time_us, now := self._clock.now())) > GRAIN_SECONDS:
            self._clock.sleep(min(wait, PROGRESS_SECONDS))
        return now

    def _note(self, before: float, now: float) -> None:
        """Adapt the size of the slices to the sink, and tell the progress once a second."""
        if now - before > SLICE_SECONDS:
            self._at_once = max(1, self._at_once // 2)
        elif self._at_once < SLICE_MESSAGES_MAX:
            self._at_once *= 2
        assert self._began is not None
        self._progress.seconds = now - self._began
        if now - self._told_at >= PROGRESS_SECONDS:
            self._told_at = now
            self._told(str(self._progress))
