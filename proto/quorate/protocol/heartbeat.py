"""Heartbeats: how often a peer must be heard, and when its silence counts.

Pure: times come in as arguments. The sender of heartbeats, and what follows from a silence, are not
known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from quorate.protocol.choices import check_kinds
from quorate.protocol.errors import InvalidArgument

HEARTBEAT_SECONDS = 1.0
"""The usual time, in seconds, between two heartbeats."""
SILENCE_SECONDS = 5.0
"""The usual silence, in seconds, after which a peer is taken for hung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The pace of the heartbeats of one client. Raises InvalidArgument if it makes no sense."""

    interval: float = HEARTBEAT_SECONDS
    """Seconds between two heartbeats."""
    timeout: float = SILENCE_SECONDS
    """Seconds of silence after which either end takes the other for hung."""

    def __post_init__(self) -> None:
        check_kinds(self, "heartbeat_")
        if not 0 < self.interval < inf:
            raise InvalidArgument(
                "heartbeat_interval", f"{self.interval} is not above 0, and finite"
            )
        if not self.interval < self.timeout < inf:
            raise InvalidArgument(
                "heartbeat_timeout",
                f"{self.timeout} is not above the heartbeat_interval of {self.interval:g} s, and "
                "finite",
            )

    @property
    def silence(self) -> str:
        """The silence of a peer that is taken for hung, in words."""
        return f"it said nothing for {self.timeout:g} s"


class Hearing:
    """One end as the other hears it: the time of its last sign of life, and whether it is silent.

    `look` is to be called at each interval. A look that comes late shows that this end did not run
    itself: the time that it missed does not count as the peer's silence.
    """

    def __init__(self, heartbeat: Heartbeat, now: float) -> None:
        """Begin as if the peer was heard just now."""
        self.heartbeat = heartbeat
        self.is_silent = False
        self._heard_at = now
        self._looked_at = now

    @property
    def look_at(self) -> float:
        """The time of the next look."""
        next_look = self._looked_at + self.heartbeat.interval
        if self.is_silent:
            return next_look
        return min(next_look, self._heard_at + self.heartbeat.timeout)

    def heard(self, now: float) -> bool:
        """Note a sign of life. Return whether it ends a silence."""
        self._heard_at = now
        was_silent, self.is_silent = self.is_silent, False
        return was_silent

    def look(self, now: float) -> bool:
        """Return whether the peer has been silent for the timeout, and that is news."""
        self._heard_at += max(0.0, now - self.look_at)
        self._looked_at = now
        if self.is_silent or now < self._heard_at + self.heartbeat.timeout:
            return False
        self.is_silent = True
        return True
