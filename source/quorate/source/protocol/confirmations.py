"""Confirmed delivery: what receivers say that they consumed, and what that holds up.

Pure. A message is out of flight, and may leave the retention, once it is stable and as many
distinct receivers have consumed it as the application asked for. How it comes in is the live
server's affair; that nothing is waited for unless asked is decided here.
"""

from __future__ import annotations

from quorate.protocol.limits import NOTHING, SEQUENCE_MAX

RECEIVERS_MAX = 10_000
"""So many receivers are remembered; those that are furthest behind are forgotten first."""


class Confirmations:
    """How far each receiver, by session ID, has consumed the stream."""

    def __init__(self, unique: int) -> None:
        """unique: how many distinct receivers must have consumed a message; 0: none."""
        self._unique = unique
        self._consumed: dict[int, int] = {}
        self._begins_at: int | None = None
        self.upto = NOTHING if unique else SEQUENCE_MAX
        """Everything up to here was consumed by as many receivers as were asked for, or was stable
        before this source was opened."""

    def confirmed(self, session_id: int, upto: int) -> bool:
        """A receiver has consumed everything up to here. Returns whether that is news."""
        if upto <= self._consumed.get(session_id, NOTHING):
            return False
        self._consumed[session_id] = upto
        if len(self._consumed) > RECEIVERS_MAX:
            del self._consumed[min(self._consumed, key=self._consumed.__getitem__)]
        self._count()
        return True

    def begin(self, kept_upto: int, stable_upto: int) -> None:
        """A new epoch keeps the stream up to here; what follows are other messages."""
        if self._begins_at is None:
            self._begins_at = stable_upto
        for session_id, upto in self._consumed.items():
            self._consumed[session_id] = min(upto, kept_upto)
        self._count()

    def settled(self, stable_upto: int) -> int:
        """Everything up to here is stable, and consumed as often as was asked."""
        return min(stable_upto, self.upto)

    def _count(self) -> None:
        if not self._unique:
            return
        furthest = sorted(self._consumed.values(), reverse=True)
        enough = len(furthest) >= self._unique
        self.upto = furthest[self._unique - 1] if enough else NOTHING
        if self._begins_at is not None:
            self.upto = max(self.upto, self._begins_at)
