"""The pace of work between stores: full speed while the store is idle, a fifth of the time if not.

It is pure: callers hand in the clock, and report their work and new messages.
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
"""Seconds for which a store counts as busy after it took new messages."""
SHARE = 0.2
"""The part of the time that work may take while the store is busy."""
LOOK_SECONDS = 0.05
"""The longest rest in seconds before the pace looks again whether the store is busy."""
_RATE_SECONDS = 5.0
"""The seconds over which the shown rate is averaged."""


class Pace:
    """A duty cycle over measured working time.

    A worker reports when a step begins and ends, and then rests as often as `rest` says. So a
    processor, a disk or a network is in use for no more than the share of the time.
    """

    def __init__(self, clock: Callable[[], float], share: float = SHARE) -> None:
        """clock: a monotonic clock in seconds. share: above 0, at most 1."""
        self._clock = clock
        self._rest_factor = (1 - share) / share
        self._owed = 0.0
        self._working_since: float | None = None
        self._resting_since: float | None = None
        self._taken = 0
        self._taken_at = -BUSY_SECONDS
        self._done: deque[tuple[float, int]] = deque()

    def is_busy(self) -> bool:
        """Return whether new messages came just now, here or to a peer."""
        return self._clock() - self._taken_at < BUSY_SECONDS

    def taken(self, count: int, *, elsewhere: bool = False) -> None:
        """Note the count of all new messages so far. The store is busy if it has grown.

        elsewhere: the peers are busy. Then this store counts as busy, too, because reading from a
        peer takes the peer's time.
        """
        if count > self._taken or elsewhere:
            self._taken = max(count, self._taken)
            self._taken_at = self._clock()

    def work(self) -> None:
        """Note that a step begins. If one is under way, it goes on."""
        if self._working_since is None:
            self._working_since = self._clock()
            self._resting_since = None

    def worked(self, size: int = 0) -> None:
        """Note that the step is over. size: the bytes that it moved."""
        if self._working_since is None:
            return
        now = self._clock()
        self._owed += (now - self._working_since) * self._rest_factor
        self._working_since = None
        if size:
            self._done.append((now, size))
            self._forget(now)

    def rest(self) -> float:
        """Return the seconds to rest before asking again; 0: go on."""
        now = self._clock()
        if self._resting_since is not None:
            self._owed -= now - self._resting_since
        self._resting_since = now
        if not self.is_busy():
            self._owed = 0.0
        if self._owed <= 0.0:
            # A rest that was too long gives no credit: the next step may be a long one.
            self._owed = 0.0
            self._resting_since = None
            return 0.0
        return min(self._owed, LOOK_SECONDS)

    def bytes_per_second(self) -> float:
        """Return the rate of the last seconds, in bytes a second."""
        self._forget(self._clock())
        return sum(size for _, size in self._done) / _RATE_SECONDS

    def _forget(self, now: float) -> None:
        while self._done and self._done[0][0] < now - _RATE_SECONDS:
            self._done.popleft()


def is_busy_peer(known: Heard | None, answer: PeerAnswer, at: float, *, in_limbo: bool) -> bool:
    """Return whether new messages come to a peer often enough to keep it busy.

    at: the time at which the answer was complete. known: the peer's previous answer. Without a
    previous answer a store in limbo takes a peer with a live source for busy. A store in limbo
    fetches at once, and asks again soon.
    """
    if known is None or known.answer.incarnation != answer.incarnation:
        return in_limbo and any(each.live for each in answer.sources.values())
    came = sum(
        max(0, _upto(now) - _upto(known.answer.knowledge(source)))
        for source in answer.news
        if (now := answer.knowledge(source)).live  # otherwise repair brings them
    )
    seconds = at - known.at
    if not came:
        return known.busy and seconds < BUSY_SECONDS  # too soon to tell
    return came * BUSY_SECONDS >= seconds


def _upto(known: SourceKnowledge) -> int:
    return max(known.stable_upto, known.held[-1].last if known.held else NOTHING)
