"""What an application may set of a receiver. Only values and their validation live here."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from quorate.protocol.consensus import Behaviour, StartingPoint
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import FRAME_BYTES_MAX


class Delivery(enum.Enum):
    """When a message is handed over."""

    LIVE = "live"
    """At once; if its source fails before it is stable it may be withdrawn."""
    STABLE = "stable"
    """Once it is stable; it will never be withdrawn."""


class AcknowledgeMode(enum.Enum):
    """What acknowledges a message."""

    AUTOMATIC = "automatic"
    """Taking the next message (or batch), or leaving `async with` without an exception."""
    BATCHED = "batched"
    """Message.consumed(), in any order."""
    EXPLICIT = "explicit"
    """Receiver.acknowledge(message): this one and everything before it."""


@dataclass(frozen=True, slots=True)
class ReceiverOptions:
    """All times in seconds. Raises InvalidArgument."""

    consensus: Behaviour = Behaviour.MAJORITY
    """Whose word counts on where to start when stores differ about what was acknowledged."""
    request_maximum: int | None = None
    """Start at most so many messages behind the newest; None: no limit."""
    choose_start: Callable[[StartingPoint], int] | None = None
    """Is shown where the receiver would start and says where it should: from 0 to high + 1.
    Returning `low` means "not changed". Must not block."""
    buffer_bytes: int = 32 * 1024 * 1024
    """Bound of what waits in memory; past it messages are left at the source and the stores."""
    wait_for_source: float | None = None
    """How long to wait for a source of the topic; None: for ever."""
    registration_interval: float = 3.0
    """How long a store that does not answer holds up a registration that has enough others."""
    activity_timeout: float | None = None
    """Seconds after its last sign of life for which stores refuse another instance of this receiver
    (`take_over` overrides); None: as the stores are configured."""
    state_lifetime: float | None = None
    """Seconds after its last sign of life after which stores forget its position; what a store is
    configured to counts if it is shorter. None: as the stores are configured."""
    acknowledge_interval: float = 0.1
    """How often what was consumed is acknowledged."""
    request_timeout: float = 1.0
    """A store that says nothing for so long is given up for another."""

    waited_for: bool = True
    """Sources that are paced by their receivers wait for this one, and stores that keep messages
    until all have acknowledged them keep them for it. False: it takes what it gets."""
    confirm_delivery: bool = False
    """Tell sources what was consumed also if they do not ask for it."""
    allow_confirmed_delivery: bool = True
    """False: tell no source what was consumed, so that this receiver counts for none."""

    def __post_init__(self) -> None:
        consensus: object = self.consensus
        if not isinstance(consensus, Behaviour):
            one_of = ", ".join(f"Behaviour.{each.name}" for each in Behaviour)
            raise InvalidArgument("consensus", f"{consensus!r} is none of {one_of}")
        maximum: object = self.request_maximum
        if not isinstance(maximum, int | None):
            raise InvalidArgument("request_maximum", f"{maximum!r} is no number")
        if self.request_maximum is not None and self.request_maximum < 0:
            raise InvalidArgument("request_maximum", f"{self.request_maximum} is below 0")
        if self.confirm_delivery and not self.allow_confirmed_delivery:
            raise InvalidArgument("confirm_delivery", "needs allow_confirmed_delivery")
        if self.buffer_bytes < 4 * FRAME_BYTES_MAX:
            raise InvalidArgument(
                "buffer_bytes", f"{self.buffer_bytes:,} is below {4 * FRAME_BYTES_MAX:,}"
            )
        if self.wait_for_source is not None and not self.wait_for_source >= 0:
            raise InvalidArgument("wait_for_source", f"{self.wait_for_source} is not at least 0")
        for name in ("activity_timeout", "state_lifetime"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < inf:
                raise InvalidArgument(name, f"{seconds} is not above 0, and finite")
        for name in ("registration_interval", "acknowledge_interval", "request_timeout"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(name, f"{getattr(self, name)} is not above 0")
