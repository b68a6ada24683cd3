"""Confirmed delivery: what receivers say that they consumed, and which messages that holds back.

Pure. A message is out of flight, and may leave the retention, once it is stable and enough distinct
receivers have consumed it. The live server receives the confirmations. Without a number asked for,
nothing is held back.
"""

from __future__ import annotations

from quorate.protocol.limits import NOTHING, SEQUENCE_MAX

RECEIVERS_MAX = 10_000
"""The number of receivers that are remembered. Past it, the one furthest behind is forgotten."""


class Confirmations:
    """The position up to which each receiver, by session ID, has consumed the stream."""

    def __init__(self, unique: int) -> None:
        """Begin without any receiver. unique: the number of distinct receivers asked for; 0:
        none."""
        self._unique = unique
        self._consumed: dict[int, int] = {}
        self._begins_at: int | None = None
        self.upto = NOTHING if unique else SEQUENCE_MAX
        """The highest sequence number that enough receivers have consumed. Messages that were
        stable before this source was opened count as consumed."""

    def confirmed(self, session_id: int, upto: int) -> bool:
        """Note that a receiver has consumed everything up to this number. Return whether that is
        news."""
        if upto <= self._consumed.get(session_id, NOTHING):
            return False
        self._consumed[session_id] = upto
        if len(self._consumed) > RECEIVERS_MAX:
            del self._consumed[min(self._consumed, key=self._consumed.__getitem__)]
        self._count()
        return True

    def begin(self, kept_upto: int, stable_upto: int) -> None:
        """Begin a new epoch, which keeps the stream up to kept_upto: later numbers are other
        messages."""
        if self._begins_at is None:
            self._begins_at = stable_upto
        for session_id, upto in self._consumed.items():
            self._consumed[session_id] = min(upto, kept_upto)
        self._count()

    def settled(self, stable_upto: int) -> int:
        """Return the highest sequence number up to which all is stable and consumed often
        enough."""
        return min(stable_upto, self.upto)

    def _count(self) -> None:
        if not self._unique:
            return
        furthest = sorted(self._consumed.values(), reverse=True)
        enough = len(furthest) >= self._unique
        self.upto = furthest[self._unique - 1] if enough else NOTHING
        if self._begins_at is not None:
            self.upto = max(self.upto, self._begins_at)
