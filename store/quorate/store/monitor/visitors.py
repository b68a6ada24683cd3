"""The connections to the monitor: how many there may be, and which one gives way. No page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

VISITORS_MAX = 256
"""The connections at a time."""
VISITORS_OF_PEER_MAX = 64
"""The connections of one peer address at a time. More than may look at the group."""


@dataclass(eq=False, slots=True)
class Visitor:
    """One connection."""

    peer: str
    """The address of the other end, without the port."""
    close: Callable[[], object]
    """Ends the connection at once."""
    is_served: bool = False
    """Whether a request is under way."""


class Visitors:
    """All connections, the oldest first."""

    def __init__(self) -> None:
        """Begin without a connection."""
        self._present: dict[Visitor, None] = {}

    def __len__(self) -> int:
        return len(self._present)

    def come(self, visitor: Visitor) -> None:
        """Take a visitor in. If there are too many, close the one that gives way.

        The newest visitor always stays. So a probe is served, however many say nothing.
        """
        same = [each for each in self._present if each.peer == visitor.peer]
        if len(same) >= VISITORS_OF_PEER_MAX:
            self._close(same)
        elif len(self) >= VISITORS_MAX:
            self._close(list(self._present))
        self._present[visitor] = None

    def go(self, visitor: Visitor) -> None:
        """Forget a visitor whose connection has ended."""
        self._present.pop(visitor, None)

    def close_all(self) -> None:
        """Close every connection."""
        while self._present:
            self._close(list(self._present))

    def _close(self, some: list[Visitor]) -> None:
        """Close the oldest visitor that no request keeps here, or else the oldest one."""
        oldest = next((each for each in some if not each.is_served), some[0])
        self.go(oldest)
        oldest.close()
