"""What the demo knows of the run so far: the numbers that the view shows and the plan goes by."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class StoreState:
    """A store process as the demo sees it."""

    address: str = ""
    pid: int = 0
    state: str = "starting"
    messages: int = 0
    lag: int = 0
    """Stable messages that it lacks."""
    holes: int = 0


@dataclass(slots=True)
class ReceiverState:
    """A receiver process as the demo sees it."""

    pid: int = 0
    state: str = "starting"
    handed: dict[str, int] = field(default_factory=dict)
    """By topic, one more than the last sequence number it was handed."""
    messages: int = 0
    """In this life; duplicates count."""
    retransmitted: int = 0


@dataclass(slots=True)
class Board:
    """The run so far."""

    started: float = field(default_factory=time.monotonic)
    phase: str = "starting"
    totals: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    stable: dict[str, int] = field(default_factory=dict)
    source_state: str = "starting"
    source_pid: int = 0
    receivers: dict[str, ReceiverState] = field(default_factory=dict)
    stores: dict[str, StoreState] = field(default_factory=dict)
    events: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=500))
    """(seconds since the start, text, style), the newest last."""
    noted: int = 0
    """How many events there were in all."""
    _rates: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=40))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def total(self) -> int:
        return sum(self.totals.values())

    @property
    def share_stable(self) -> float:
        """Of all messages; 0 while the input is not known."""
        return sum(self.stable.values()) / self.total if self.total else 0.0

    def note(self, text: str, style: str = "") -> None:
        """Something happened."""
        self.events.append((self.seconds, text, style))
        self.noted += 1

    def measure(self) -> None:
        """Remember how much is stable now, for the rate."""
        self._rates.append((self.seconds, sum(self.stable.values())))

    @property
    def rate(self) -> float:
        """Stable messages a second, of late."""
        if len(self._rates) < 2:
            return 0.0
        (then, before), (now, after) = self._rates[0], self._rates[-1]
        return (after - before) / (now - then) if now > then else 0.0

    def lag(self, receiver: str) -> int:
        """Messages sent that the receiver was not handed yet."""
        handed = self.receivers[receiver].handed
        return sum(max(0, sent - handed.get(topic, 0)) for topic, sent in self.sent.items())

    def all_handed(self) -> bool:
        """Every receiver was handed the last message of every topic."""
        return bool(self.totals) and all(
            state.handed.get(topic, 0) >= total
            for state in self.receivers.values()
            for topic, total in self.totals.items()
        )
