"""How fast the work between stores may go: at full speed while idle, a fifth of the time if not.

Pure: the clock is handed in. What is work, and whether the store is busy, is told from outside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quorate.protocol.limits import NOTHING
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
    SourceKnowledge,
)

BUSY_SECONDS = 0.1
"""A store that took something new within this time is busy."""
SHARE = 0.2
"""How much of the time work may take while the store is busy."""
LOOK_SECONDS = 0.05
"""The longest rest before it is looked whether the store is still busy."""
_RATE_SECONDS = 5.0
"""Over how long the rate that people see is taken."""


class Pace:
    """A duty cycle by measured working time.

    Whoever works says when a step begins and ends, and then rests for as long as `rest` says, a
    piece at a time. Whatever a step uses, be it a processor, the disk or the network, is so used
    for no more than its share of the time.
    """

    def __init__(self, clock: Callable[[], float], share: float = SHARE) -> None:
        """clock: seconds, never going back. share: above 0, at most 1."""
        self._clock = clock
        self._rest_factor = (1 - share) / share
        self._owed = 0.0
        self._working_since: float | None = None
        self._resting_since: float | None = None
        self._taken = 0
        self._taken_at = -BUSY_SECONDS
        self._done: deque[tuple[float, int]] = deque()

    def is_busy(self) -> bool:
        """Something new came just now, here or to a peer."""
        return self._clock() - self._taken_at < BUSY_SECONDS

    def taken(self, count: int, *, elsewhere: bool = False) -> None:
        """So much that is new has come in all; the store is busy if that has grown.

        elsewhere: its peers are busy, and so it is: what it reads there is their work, too.
        """
        if count > self._taken or elsewhere:
            self._taken = max(count, self._taken)
            self._taken_at = self._clock()

    def work(self) -> None:
        """A step begins. A step that is under way already goes on."""
        if self._working_since is None:
            self._working_since = self._clock()
            self._resting_since = None

    def worked(self, size: int = 0) -> None:
        """The step is over; it moved so many bytes."""
        if self._working_since is None:
            return
        now = self._clock()
        self._owed += (now - self._working_since) * self._rest_factor
        self._working_since = None
        if size:
            self._done.append((now, size))
            self._forget(now)

    def rest(self) -> float:
        """How many seconds to rest now before asking again; 0: go on."""
        now = self._clock()
        if self._resting_since is not None:
            self._owed -= now - self._resting_since
        self._resting_since = now
        if not self.is_busy():
            self._owed = 0.0
        if self._owed <= 0.0:
            # A rest that was too long is not made up for: the next step may be a long one.
            self._owed = 0.0
            self._resting_since = None
            return 0.0
        return min(self._owed, LOOK_SECONDS)

    def bytes_per_second(self) -> float:
        """What was moved lately."""
        self._forget(self._clock())
        return sum(size for _, size in self._done) / _RATE_SECONDS

    def _forget(self, now: float) -> None:
        while self._done and self._done[0][0] < now - _RATE_SECONDS:
            self._done.popleft()


def is_busy_peer(known: Heard | None, answer: PeerAnswer, at: float, *, in_limbo: bool) -> bool:
    """Whether messages come to a peer as often as keeps a store busy.

    known: its answer before, without which that can not be told: a store in limbo, which begins to
    fetch at once and soon asks again, takes it for busy. at: when this answer was complete.
    """
    if known is None or known.answer.incarnation != answer.incarnation:
        return in_limbo and any(each.live for each in answer.sources.values())
    came = sum(
        max(0, _upto(now) - _upto(known.answer.knowledge(source)))
        for source, now in answer.sources.items()
        if now.live  # else it gets them from its peers
    )
    seconds = at - known.at
    if not came:
        return known.busy and seconds < BUSY_SECONDS  # too soon to tell
    return came * BUSY_SECONDS >= seconds


def _upto(known: SourceKnowledge) -> int:
    return max(known.stable_upto, known.held[-1].last if known.held else NOTHING)
