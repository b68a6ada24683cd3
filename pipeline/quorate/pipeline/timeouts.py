"""How long a reader waits for stores. Nothing here waits, or knows an option."""

from __future__ import annotations

from dataclasses import dataclass

ANSWER_SECONDS_MAX = 5.0
"""Seconds that a store may take to answer one call, if no user says otherwise."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The seconds for which a reader waits for stores."""

    answer_seconds: float = ANSWER_SECONDS_MAX
    """Seconds that a store may take to answer one call."""
    silence_seconds: float = 5.0
    """A store that owes messages and has sent nothing for so many seconds counts as hung."""
    retry_seconds: float = 10.0
    """Seconds for which stores are asked again while none can be reached, or none can say."""


TIMEOUTS = Timeouts()
"""The timeouts, if no user says otherwise."""
