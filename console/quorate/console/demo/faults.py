"""When the demo kills what: by progress of the stream, not by time, so that it hits mid-stream."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Act(enum.Enum):
    """What is done to a process."""

    KILL = "kill -9"
    START = "start again"


@dataclass(frozen=True, slots=True)
class Fault:
    """Done once this share of all messages is stable."""

    share: float
    act: Act
    victim: str


STORM = (
    Fault(0.15, Act.KILL, "store-2"),
    Fault(0.27, Act.START, "store-2"),
    Fault(0.40, Act.KILL, "receiver-1"),
    Fault(0.45, Act.START, "receiver-1"),
    Fault(0.60, Act.KILL, "source"),
    # Without a source there is no progress to wait for.
    Fault(0.60, Act.START, "source"),
    Fault(0.75, Act.KILL, "store-1"),
    Fault(0.87, Act.START, "store-1"),
)
"""Each store that is killed comes back, and the second kill leaves a quorum only together with the
store that was killed first: so that one must really have caught up."""


class Plan:
    """Hands out faults in order as the stream gets on."""

    def __init__(self, faults: tuple[Fault, ...] = STORM) -> None:
        self._left = list(faults)

    def due(self, share: float) -> list[Fault]:
        """The faults to do now, with this share of all messages stable; each only once."""
        now = [fault for fault in self._left if fault.share <= share]
        self._left = self._left[len(now) :]
        return now

    @property
    def left(self) -> tuple[Fault, ...]:
        return tuple(self._left)

    @property
    def victims(self) -> list[str]:
        """Who is still to be killed."""
        return [fault.victim for fault in self._left if fault.act is Act.KILL]
