"""The board of a run of the demo: the numbers that the view shows, and that the plan goes by."""

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
    """One more than the last sequence number that it was handed, by topic."""
    messages: int = 0
    """Messages handed in this life, duplicates included."""
    retransmitted: int = 0


@dataclass(slots=True)
class Board:
    """The state of the run."""

    started: float = field(default_factory=time.monotonic)
    phase: str = "starting"
    totals: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    stable: dict[str, int] = field(default_factory=dict)
    source_state: str = "starting"
    """`up`, `done`, or what it does until it is up."""
    source_pid: int = 0
    receivers: dict[str, ReceiverState] = field(default_factory=dict)
    stores: dict[str, StoreState] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    """The messages that stores lack at the end, as texts such as `store-1 flights.LGA`."""
    verified: list[str] = field(default_factory=list)
    """The parts that were verified, the one at work last."""
    events: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=500))
    """Events as (seconds since the start, text, style), the newest last."""
    noted: int = 0
    """The number of all events, also of those that `events` has dropped."""
    _rates: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=40))

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def total(self) -> int:
        """The number of messages of the input; 0 while it is not known."""
        return sum(self.totals.values())

    @property
    def share_stable(self) -> float:
        """The share of all messages that is stable; 0 while the input is not known."""
        return sum(self.stable.values()) / self.total if self.total else 0.0

    def note(self, text: str, style: str = "") -> None:
        """Add an event."""
        self.events.append((self.seconds, text, style))
        self.noted += 1

    def measure(self) -> None:
        """Remember the number of stable messages now, for the rate."""
        self._rates.append((self.seconds, sum(self.stable.values())))

    @property
    def rate(self) -> float:
        """Recent stable messages a second."""
        if len(self._rates) < 2:
            return 0.0
        (then, before), (now, after) = self._rates[0], self._rates[-1]
        return (after - before) / (now - then) if now > then else 0.0

    @property
    def waiting_for(self) -> str:
        """The process that holds the run up, and what it does; empty if none does."""
        starting = [name for name, store in self.stores.items() if store.state == "starting"]
        if self.phase == "starting" and starting:
            return f"{', '.join(starting)} to start"
        if self.phase in ("starting", "streaming") and self.source_state not in ("up", "done"):
            return f"the source, which is {self.source_state}"
        if self.phase == "settling":
            behind = [name for name in self.receivers if self.lag(name)]
            return ", ".join(behind or self.lacking)
        return ""

    def lag(self, receiver: str) -> int:
        """Return the number of sent messages that the receiver was not handed yet."""
        handed = self.receivers[receiver].handed
        return sum(max(0, sent - handed.get(topic, 0)) for topic, sent in self.sent.items())

    def all_handed(self) -> bool:
        """Return whether every receiver was handed the last message of every topic."""
        return bool(self.totals) and all(
            state.handed.get(topic, 0) >= total
            for state in self.receivers.values()
            for topic, total in self.totals.items()
        )
