"""The settings of a source, checked when they are made. Nothing here acts on them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import inf

from quorate.protocol.choices import RemembersGiven, check_kinds, read_choices
from quorate.protocol.compression import Compression
from quorate.protocol.consensus import Behaviour
from quorate.protocol.delays import RECONNECT, Delays
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import MESSAGE_BYTES_MAX, MESSAGE_BYTES_USUAL
from quorate.protocol.pacing import ReceiverPacing


class FlightBehaviour(enum.Enum):
    """The effect of a full flight window, or of receivers that lag, on a send."""

    BLOCK = "block"
    """The send waits until enough is stable, or until the receivers have caught up."""
    NOTIFY = "notify"
    """The send goes on, and the application gets FlightExceeded or ReceiversLag. The application
    must then watch the memory and the stores' disks."""


class WithoutQuorum(enum.Enum):
    """The effect of a lost quorum on a send."""

    REFUSE = "refuse"
    """The send raises NotRegistered. It waits instead if it is told to."""
    KEEP = "keep"
    """The send goes on while the flight window has room. The source and its publish store keep the
    messages, and the source sends them in order once enough stores take the stream again."""


class StabilityEvents(enum.Enum):
    """The events that report what becomes stable."""

    NONE = "none"
    """No events. Receipts, `flush` and `stable_upto` tell what is stable."""
    MESSAGE = "message"
    """MessageStable whenever more is stable: one event for all messages since the last one."""
    STORE = "store"
    """Also StoreStable for every acknowledgement of every store, which costs time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(RemembersGiven):
    """The settings of a source. Raises InvalidArgument if one of them makes no sense.

    A member of an enum can be given as its text: `flight_behaviour="notify"`.
    """

    flight_messages: int = 65_536
    """The highest number of messages that may be unstable at once."""
    flight_bytes: int = 32 * 1024 * 1024
    """The highest number of bytes of messages that may be unstable at once."""
    flight_behaviour: FlightBehaviour | str = FlightBehaviour.BLOCK
    """The effect of a full flight window on a send."""
    without_quorum: WithoutQuorum | str = WithoutQuorum.REFUSE
    """The effect of a lost quorum on a send.

    With KEEP, opening needs no quorum either if the publish store is on disk, and has every number
    that the stream gave out. Opening waits for enough stores as always, but returns in the end.
    """
    receiver_pacing: ReceiverPacing | None = None
    """How far ahead of its receivers the source may be; None: it waits for no receiver.

    The source waits for every receiver that is registered with its stores, also while that receiver
    is away. A receiver opts out with ReceiverOptions.waited_for. The stores keep what these
    receivers have not acknowledged.
    """
    message_bytes_max: int = MESSAGE_BYTES_USUAL
    """The size, in bytes, of the largest message that is accepted, up to 64 MiB.

    Key and properties count. A store may be configured with a lower limit, which then applies.
    """
    compression: Compression | str | None = None
    """How batches are compressed; None: not at all.

    A batch that does not become smaller, and a message above 1 MiB, travel as they are. Stores keep
    the compressed bytes; receivers decompress them, and need no option.
    """
    retention_bytes_max: int = 64 * 1024 * 1024
    """The bytes of stable messages that the source keeps for stores that still lack them."""
    registration_interval: float = 3.0
    """Seconds for which a registration waits for every store; then a blocking set is enough."""
    delays: Delays = RECONNECT
    """How long the source waits between attempts to reach a store.

    `give_up_after` counts the seconds with too few stores, after which the source ends with the
    reason (NoQuorum).
    """
    unanswered_after: float = 10.0
    """Seconds without an acknowledgement after which a store that owes one counts as hung.

    The source ends that store's stream, and connects again. A store whose disk hangs may answer
    heartbeats all the same.
    """
    backup_after: float = 10.0
    """Seconds without taking messages after which a backup takes the place of a group's member."""
    stability_lifetime: float = 1200.0
    """Seconds after which NotStable reports a message that is not stable yet."""
    stability_events: StabilityEvents | str = StabilityEvents.NONE
    """The events that report what becomes stable."""
    reclaim_events: bool = False
    """Whether Reclaimed reports every release from the retention. Without it Reclaimed reports only
    messages that some store still lacked."""
    activity_timeout: float | None = None
    """Seconds after the source's last sign of life for which stores refuse another instance of it.

    `take_over` overrides this, and closing the source ends it at once. None: the stores'
    configuration decides.
    """
    state_lifetime: float | None = None
    """Seconds after the source's last sign of life until the source ends at its stores.

    Its messages end with it. Enough stores must agree that nobody has heard of it. A shorter time
    in a store's configuration wins. None: the stores' configuration decides.
    """
    consensus: Behaviour | str = Behaviour.HIGHEST
    """How much a new registration keeps of the messages that may not have been stable."""
    listen: str = "127.0.0.1:0"
    """The address, host:port, on which receivers attach; port 0 takes a free one.

    The sources of one client that name the same address share it.
    """
    advertise: str | None = None
    """The address, host or host:port, that receivers are told; None: the address of `listen`."""
    receiver_queue_bytes: int = 16 * 1024 * 1024
    """The bytes that may wait for one receiver; past them it catches up from the stores."""

    confirm_delivery: bool = False
    """Whether receivers confirm to the source what they acknowledged (DeliveryConfirmed)."""
    unique_confirmations: int = 0
    """The number of distinct receivers that must consume a message before it is out of flight.

    The message must be stable, too. The retention keeps the message as long, while its bytes
    suffice. A number above 0 makes receivers confirm as confirm_delivery does.
    """

    def __post_init__(self) -> None:
        read_choices(
            self,
            flight_behaviour=FlightBehaviour,
            without_quorum=WithoutQuorum,
            stability_events=StabilityEvents,
            consensus=Behaviour,
        )
        if self.compression is not None:
            read_choices(self, compression=Compression)
        check_kinds(self)
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
        if not 0 < self.unanswered_after < inf:
            raise InvalidArgument(
                "unanswered_after", f"{self.unanswered_after} is not above 0, and finite"
            )
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
        if not host or not colon or not port.isdecimal() or int(port) > 65535:
            raise InvalidArgument("listen", f"{self.listen!r} is not of the form host:port")
        if host in ("0.0.0.0", "[::]", "*") and self.advertise is None:
            raise InvalidArgument(
                "advertise",
                f"is needed with listen={self.listen!r}: receivers must be told one address",
            )


def asks_for_confirmation(options: SourceOptions) -> bool:
    """Return whether receivers are to confirm what they have consumed."""
    return options.confirm_delivery or options.unique_confirmations > 0
