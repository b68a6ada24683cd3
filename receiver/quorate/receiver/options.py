"""The settings of a receiver, checked when they are made. Nothing here acts on them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from quorate.protocol.choices import RemembersGiven, check_kinds, read_choices
from quorate.protocol.consensus import Behaviour, StartingPoint
from quorate.protocol.delays import RECONNECT, Delays
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import FRAME_BYTES_MAX


class AcknowledgeMode(enum.Enum):
    """The act that acknowledges a message."""

    AUTOMATIC = "automatic"
    """Taking the next message (or batch), or leaving `async with` without an exception."""
    EXPLICIT = "explicit"
    """Message.acknowledge(), in any order."""


class ConfirmDelivery(enum.Enum):
    """The sources that a receiver tells what it acknowledged (DeliveryConfirmed)."""

    IF_ASKED = "if-asked"
    """The sources that ask for it (SourceOptions.confirm_delivery)."""
    ALWAYS = "always"
    """All sources."""
    NEVER = "never"
    """None. No source counts this receiver."""


@dataclass(frozen=True, slots=True)
class ReceiverOptions(RemembersGiven):
    """The settings of a receiver; all times are in seconds. Raises InvalidArgument."""

    consensus: Behaviour | str = Behaviour.MAJORITY
    """The rule that chooses where to start when stores differ about what was acknowledged."""
    request_maximum: int | None = None
    """The highest number of messages behind the newest at which to start; None: no limit."""
    choose_start: Callable[[StartingPoint], int] | None = None
    """A function that gets the computed starting point and returns the number to start at.

    It may return 0 to high + 1; `low` means "not changed". It must not block. It decides also where
    stores have a position; `start` of the receiver is enough where they have none.
    """
    buffer_bytes: int = 32 * 1024 * 1024
    """The bytes that may wait in memory; past them messages stay at the source and the stores."""
    wait_for_source: float | None = None
    """How long opening waits for a source of the topic; None: opening returns without one."""
    registration_interval: float = 3.0
    """How long a silent store holds up a registration that enough other stores have answered."""
    delays: Delays = RECONNECT
    """How long the receiver waits between attempts to reach a store or a source.

    `give_up_after` counts the seconds without any store, after which the receiver ends with
    NoQuorum.
    """
    activity_timeout: float | None = None
    """The time after its last sign of life for which stores refuse another instance of the
    receiver.

    `take_over` overrides this. None: the stores' configuration decides.
    """
    state_lifetime: float | None = None
    """The time after its last sign of life after which stores forget the receiver's position.

    A shorter time in a store's configuration wins. None: the stores' configuration decides.
    """
    acknowledge_interval: float = 0.1
    """The interval at which the receiver sends acknowledgements."""
    request_timeout: float = 1.0
    """The silence after which a request to one store goes to another."""

    waited_for: bool = True
    """Whether others wait for this receiver. A source with receiver_pacing does. Stores that keep
    messages until all receivers have acknowledged them keep them for this one. False: it takes what
    is still there."""
    confirm_delivery: ConfirmDelivery | str = ConfirmDelivery.IF_ASKED
    """Which sources the receiver tells what it acknowledged."""

    def __post_init__(self) -> None:
        read_choices(self, consensus=Behaviour, confirm_delivery=ConfirmDelivery)
        check_kinds(self)
        if self.request_maximum is not None and self.request_maximum < 0:
            raise InvalidArgument("request_maximum", f"{self.request_maximum} is below 0")
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
