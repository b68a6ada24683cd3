"""What an application may set on a source. Checked when made; nothing here acts on it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import inf

from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import MESSAGE_BYTES_MAX
from quorate.protocol.pacing import ReceiverPacing


class FlightBehaviour(enum.Enum):
    """What happens to a send while as much is unstable as the flight window allows, or receivers
    lag by as much as `receiver_pacing` does."""

    BLOCK = "block"
    """It waits until enough has become stable, or receivers have caught up."""
    NOTIFY = "notify"
    """It goes on, and the application gets FlightExceeded, or ReceiversLag; memory, and the stores'
    disks, are then its to watch."""


class StabilityEvents(enum.Enum):
    """How much an application is told, as events, of what becomes stable."""

    NONE = "none"
    """Nothing: receipts, `flush` and `stable_upto` say it."""
    MESSAGE = "message"
    """MessageStable whenever more is stable: one event for all messages since the last one."""
    STORE = "store"
    """Also StoreStable for every acknowledgement of every store. It costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Settings of a source; raises InvalidArgument if one makes no sense."""

    flight_messages: int = 65_536
    """How many messages may be unstable at once."""
    flight_bytes: int = 32 * 1024 * 1024
    """How many bytes of messages may be unstable at once."""
    flight_behaviour: FlightBehaviour = FlightBehaviour.BLOCK
    receiver_pacing: ReceiverPacing | None = None
    """How far ahead of its receivers the source may be: every one that is registered with its
    stores, unless it does not want to be waited for (ReceiverOptions.waited_for), also while it is
    away. The stores keep what these have not acknowledged. None: it waits for none."""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """Largest message that is accepted, its key and properties counted."""
    retention_bytes_max: int = 64 * 1024 * 1024
    """How many bytes of stable messages are kept for stores that still lack them."""
    registration_interval: float = 3.0
    """Seconds for which registration waits for every store before a blocking set will do."""
    backup_after: float = 10.0
    """Seconds for which a group's member may take no messages before a backup stands in for it."""
    stability_lifetime: float = 1200.0
    """Seconds after which the application is told NotStable of what is not stable yet."""
    stability_events: StabilityEvents = StabilityEvents.NONE
    reclaim_events: bool = False
    """Tell of every release from the retention; those by force, of what some store lacks, are told
    in any case."""
    activity_timeout: float | None = None
    """Seconds after its last sign of life for which stores refuse another instance of this source
    (`take_over` overrides; closing releases it at once). None: as the stores are configured."""
    state_lifetime: float | None = None
    """Seconds after its last sign of life after which stores delete everything of this source; what
    a store is configured to counts if it is shorter. None: as the stores are configured."""
    consensus: Behaviour = Behaviour.HIGHEST
    """How much of what may not have been stable a new registration keeps."""
    listen: str = "127.0.0.1:0"
    """Where receivers attach, host:port; port 0 takes a free one."""
    advertise: str | None = None
    """The address that receivers are told, host or host:port; None: the one listened on."""
    receiver_queue_bytes: int = 16 * 1024 * 1024
    """How much may wait for one receiver before it is left to catch up from the stores."""

    confirm_delivery: bool = False
    """Receivers tell what they have consumed; the application gets DeliveryConfirmed."""
    unique_confirmations: int = 0
    """So many distinct receivers must have consumed a message before it is out of flight, besides
    its being stable, and before it leaves the retention by itself. Above 0 asks receivers like
    confirm_delivery."""

    def __post_init__(self) -> None:
        for setting in (
            "flight_messages",
            "flight_bytes",
            "message_bytes_max",
            "receiver_queue_bytes",
        ):
            if getattr(self, setting) < 1:
                raise InvalidArgument(setting, f"{getattr(self, setting)} is not at least 1")
        if self.unique_confirmations < 0:
            raise InvalidArgument("unique_confirmations", f"{self.unique_confirmations} is below 0")
        for setting in (
            "retention_bytes_max",
            "registration_interval",
            "backup_after",
            "stability_lifetime",
        ):
            if not getattr(self, setting) >= 0:
                raise InvalidArgument(setting, f"{getattr(self, setting)} is not at least 0")
        for setting in ("activity_timeout", "state_lifetime"):
            seconds = getattr(self, setting)
            if seconds is not None and not 0 < seconds < inf:
                raise InvalidArgument(setting, f"{seconds} is not above 0, and finite")
        if self.message_bytes_max > MESSAGE_BYTES_MAX:
            raise InvalidArgument(
                "message_bytes_max",
                f"{self.message_bytes_max:,} is more than the {MESSAGE_BYTES_MAX:,} that stores "
                "and receivers take",
            )
        host, colon, port = self.listen.rpartition(":")
        if not host or not colon or not port.isdigit() or int(port) > 65535:
            raise InvalidArgument("listen", f"{self.listen!r} is not of the form host:port")
        if host in ("0.0.0.0", "[::]", "*") and self.advertise is None:
            raise InvalidArgument(
                "advertise",
                f"is needed with listen={self.listen!r}: receivers must be told one address",
            )

    @property
    def asks_for_confirmation(self) -> bool:
        """Receivers are to tell what they have consumed."""
        return self.confirm_delivery or self.unique_confirmations > 0
