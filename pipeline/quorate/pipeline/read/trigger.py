"""When a micro-batch is large enough, or has waited long enough. Nothing here reads a clock."""

from __future__ import annotations

from math import inf


class Trigger:
    """Decides whether a micro-batch waits for more messages.

    The first one of a query never waits: how long ago the last one was is not known.
    """

    def __init__(self, messages_min: int, delay_seconds_max: float) -> None:
        self._messages_min = messages_min
        self._delay_seconds_max = delay_seconds_max
        self._triggered_at = -inf

    def waits(self, messages: int, now: float) -> bool:
        """Return whether a micro-batch of so many messages waits; if not, it begins now.

        now: monotonic seconds.
        """
        waited = now - self._triggered_at
        if messages < self._messages_min and waited < self._delay_seconds_max:
            return True
        if messages:
            self._triggered_at = now
        return False
