"""The plan of the kills: by progress of the stream, not by time, so that they hit mid-stream.

While a fault is under way, the source publishes no further than shortly behind the next one. So a
machine on which a process needs long to start misses none of them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Act(enum.Enum):
    """The act on a process."""

    KILL = "kill -9"
    START = "start again"


@dataclass(frozen=True, slots=True)
class Fault:
    """An act on a process, due when this share of all messages is stable."""

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
"""The plan of the demo.

Each killed store comes back. After the second kill a quorum needs the store that was killed first,
so that store must have caught up.
"""


_SHARE_BEHIND = 0.05
"""The share of the messages that may be published behind a fault that is not over."""


class Plan:
    """The faults that are left, in order."""

    def __init__(self, faults: tuple[Fault, ...] = STORM) -> None:
        self._left = list(faults)

    def due(self, share: float) -> Fault | None:
        """Return the next fault if it is due at this share of stable messages, only once."""
        if self._left and self._left[0].share <= share:
            return self._left.pop(0)
        return None

    @property
    def share_max(self) -> float:
        """The share of the messages that may be published before the next fault is over."""
        return self._left[0].share + _SHARE_BEHIND if self._left else 1.0

    @property
    def left(self) -> tuple[Fault, ...]:
        """The faults that are not done yet."""
        return tuple(self._left)

    @property
    def victims(self) -> list[str]:
        """The processes that are still to be killed."""
        return [fault.victim for fault in self._left if fault.act is Act.KILL]
