"""The refusals of stores that protect another instance of an identity (protocol.md 4.17).

Pure: sources and receivers ask here whether to wait for the end of the protection. Which stores can
be done without is decided elsewhere.
"""

from __future__ import annotations

from math import inf

from quorate.protocol.errors import ReceiverActive, SourceActive

INSIST_SECONDS = 0.5
"""The time, in seconds, for which an open stream is not believed.

A store may be about to notice that the process at the other end was killed."""
_SLACK_SECONDS = 1.0
"""Stores say how long a protection lasts only to about a second."""


class Protection:
    """The stores that refuse an instance, because another one is alive or was so just now."""

    def __init__(self) -> None:
        self.until = -inf
        """The time until which the application waits; inf: it waits for as long as it takes."""
        self._since = inf
        self._refusals: dict[str, SourceActive | ReceiverActive] = {}
        self._free_at: dict[str, float] = {}
        self._first_free_at: dict[str, float] = {}

    def refused(self, store: str, error: SourceActive | ReceiverActive, now: float) -> None:
        """Note that the store protects the other instance."""
        free_at = inf if error.free_in is None else now + error.free_in
        self._since = min(self._since, now)
        self._refusals[store] = error
        self._free_at[store] = free_at
        self._first_free_at.setdefault(store, free_at)

    def ended(self, store: str) -> None:
        """Note that the store no longer refuses because of that."""
        self._refusals.pop(store, None)
        self._free_at.pop(store, None)

    @property
    def stores(self) -> frozenset[str]:
        """The stores that refuse."""
        return frozenset(self._refusals)

    @property
    def refusal(self) -> SourceActive | ReceiverActive | None:
        """The refusal that lasts longest; None: no store refuses."""
        if not self._refusals:
            return None
        return self._refusals[max(self._free_at, key=self._free_at.__getitem__)]

    def ends_in(self, now: float) -> float:
        """Return the seconds until no store refuses, if the other instance stays silent.

        inf: the other instance has a stream open.
        """
        return max(0.0, max(self._free_at.values(), default=now) - now)

    def is_worth_waiting_for(self, now: float) -> bool:
        """Return whether the protection may end before the application stops waiting."""
        if self.until == inf:
            return True
        free_at = max(self._free_at.values(), default=now)
        if free_at == inf:
            return now < self._since + INSIST_SECONDS
        return free_at <= self.until and not self._shows_life()

    def _shows_life(self) -> bool:
        """Return whether the other instance gave a sign of life since the first refusal."""
        return any(
            free_at > self._first_free_at[store] + _SLACK_SECONDS
            for store, free_at in self._free_at.items()
        )
