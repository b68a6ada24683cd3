"""The stores that have not reached the position of a subscription. Pure.

One such store lags, and another one goes on. If no store of the group has reached it, nobody can
go on: the position is of another group, or its messages are lost.
"""

from __future__ import annotations

from quorate.protocol.errors import PositionNotReached, QuorateError


class Unreached:
    """The last answer of each store, as far as it is that it has not reached the position."""

    def __init__(self, stores: int) -> None:
        """Begin without answers. stores: how many the group has."""
        self._stores = stores
        self._answers: dict[str, PositionNotReached] = {}

    def left(self, store: str, reason: QuorateError) -> PositionNotReached | None:
        """Note why the subscription leaves a store.

        Return the error of the store that comes nearest if no store has reached the position;
        None: one may have. A store that cannot be asked may have it.
        """
        self._answers.pop(store, None)
        if not isinstance(reason, PositionNotReached):
            return None
        self._answers[store] = reason
        of_source = [each for each in self._answers.values() if each.source == reason.source]
        if len(of_source) < self._stores:
            return None
        return max(of_source, key=lambda each: (each.epoch, each.upto))
