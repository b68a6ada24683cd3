"""The events of a source, which an application reads.

An event is a plain value. The application decides what to do about it; nothing here acts on it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from quorate.protocol.errors import QuorateError
from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Policy
from quorate.transport.event_log import EventsLost as EventsLost


@dataclass(frozen=True, slots=True)
class RegistrationSucceeded:
    """A store has begun the source's epoch."""

    store: str
    reg_id: int
    known: bool
    """Whether the store knew this source before."""
    newest: int = NOTHING
    """The newest message that the store had when it promised the epoch; -1: none.

    The stream may go on elsewhere: RegistrationComplete has the number of its next message.
    """


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """A store refused to register the source. Other stores may still be enough.

    The source reports each kind of reason once for a store.
    """

    store: str
    reason: QuorateError


@dataclass(frozen=True, slots=True)
class WaitingForStores:
    """A registration waits for the promises of stores."""

    missing: tuple[str, ...]
    """The stores that have not answered. Stores that answered something else are not among them."""
    seconds: float
    """The longest time, in seconds, for which the registration waits for all of them. 0: it waits,
    without a limit, for enough of them."""


@dataclass(frozen=True, slots=True)
class WaitingForIdentity:
    """A registration waits until stores no longer protect another instance of the source.

    Opening the source with take_over=True would fence that instance instead.
    """

    stores: tuple[str, ...]
    """The stores that refuse this instance."""
    seconds: float | None
    """The seconds until they no longer do, if the other instance stays silent. None: the other
    instance has its stream open, and this one waits until it closes."""


@dataclass(frozen=True, slots=True)
class MembershipChanged:
    """From this epoch on, other stores make messages stable."""

    from_policies: tuple[Policy, ...]
    to_policies: tuple[Policy, ...]
    epoch: int
    confirmed: bool
    """Whether the begin record no longer names the policies it came from. Then a store that no
    policy in `to_policies` names may be switched off."""


@dataclass(frozen=True, slots=True)
class BackupSteppedIn:
    """A backup has taken the place of a member that does not answer."""

    group: str
    member: str
    backup: str


@dataclass(frozen=True, slots=True)
class BackupSteppedBack:
    """A member has caught up and takes its place back from the backup."""

    group: str
    member: str
    backup: str


@dataclass(frozen=True, slots=True)
class RegistrationComplete:
    """Enough stores take the stream: the source accepts messages from first_sequence on."""

    first_sequence: int
    epoch: int
    stores: tuple[str, ...]
    missing: tuple[str, ...]
    """The configured stores that do not take the stream yet."""
    groups: tuple[str, ...]
    """The groups of the policy whose rule is met by the stores in `stores`."""


@dataclass(frozen=True, slots=True)
class StoreUnresponsive:
    """A store does not take the stream. The source tries the store again by itself."""

    store: str
    reason: QuorateError
    quorum_lost: bool
    """Whether the source stopped accepting messages because of this. False also if the source
    accepted none before."""
    groups: tuple[str, ...]
    """The groups of the policy whose rule is still met by the stores that take the stream."""


@dataclass(frozen=True, slots=True)
class StoreReturned:
    """A store that StoreUnresponsive reported takes the stream again.

    The store may still lack messages. StoreCaughtUp reports that it has them.
    """

    store: str
    groups: tuple[str, ...]
    """The groups of the policy whose rule is now met by the stores that take the stream."""


@dataclass(frozen=True, slots=True)
class StoreInLimbo:
    """A store cannot vouch for what it lacks: it is in limbo. The source asks it again until it
    can."""

    store: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoreKeepsState:
    """A store keeps the registration and the receivers' positions, but no messages.

    The store's configuration says so (`durability = "state-only"`). The other stores alone make
    messages stable.
    """

    store: str


@dataclass(frozen=True, slots=True)
class StoreReplaced:
    """A store came back without its data. Its earlier acknowledgements no longer count.

    Messages that were stable remain stable. The source registers with the store again by itself.
    """

    store: str
    incarnation: bytes
    """The incarnation (a UUID) of the store's new data directory."""


@dataclass(frozen=True, slots=True)
class StoreCaughtUp:
    """A store that lacked messages has acknowledged all of them, up to `upto`."""

    store: str
    upto: int


@dataclass(frozen=True, slots=True)
class QuorumLost:
    """Too few stores take the stream. A send raises NotRegistered until the next
    RegistrationComplete, unless SourceOptions.without_quorum says otherwise.

    It also comes for a source that was opened without enough stores.
    """

    active: tuple[str, ...]
    """The stores that still take the stream."""
    groups: tuple[str, ...]
    """The groups of the policy whose rule these stores still meet."""


@dataclass(frozen=True, slots=True)
class FlightExceeded:
    """More is unstable than the flight window allows. Sends go on (FlightBehaviour.NOTIFY)."""

    unstable_messages: int
    unstable_bytes: int


@dataclass(frozen=True, slots=True)
class FlightRelieved:
    """The unstable messages fit into the flight window again."""

    stable_upto: int


@dataclass(frozen=True, slots=True)
class LaggingReceiver:
    """A receiver for which a source waits (SourceOptions.receiver_pacing)."""

    session_id: int
    acknowledged_upto: int
    """The highest sequence number that any store reports as acknowledged by this receiver; -1:
    none."""


@dataclass(frozen=True, slots=True)
class ReceiversLag:
    """The source has sent as much as SourceOptions.receiver_pacing allows.

    Sends wait for these receivers; with FlightBehaviour.NOTIFY they go on. The source reports this
    again when further receivers lag.
    """

    receivers: tuple[LaggingReceiver, ...]
    """The receivers that lag, the slowest first."""
    unacknowledged_messages: int
    """The number of sent messages that the slowest receiver has not acknowledged."""
    unacknowledged_bytes: int
    """The bytes of these messages. Messages from before the last registration do not count."""


@dataclass(frozen=True, slots=True)
class ReceiversCaughtUp:
    """Every receiver that the source waits for is within half of the allowed distance again.

    The source reports this once no send has waited for five seconds; with FlightBehaviour.NOTIFY at
    once.
    """

    acknowledged_upto: int | None
    """The highest sequence number that all of them have acknowledged; None: the source waits for
    none."""


class NotStableCause(enum.Enum):
    """The reason why messages are not stable."""

    TIMEOUT = "timeout"
    """The messages passed the stability lifetime. The source still tries to make them stable."""
    REFUSED = "refused"
    """A store has other content under these sequence numbers."""
    ENDED = "ended"
    """The source has ended with an error. These messages may be stable, but it will not know."""


@dataclass(frozen=True, slots=True)
class NotStable:
    """Messages that should be stable are not."""

    first: int
    last: int
    cause: NotStableCause
    store: str = ""
    """The store that refused the messages; empty with the other causes."""


@dataclass(frozen=True, slots=True)
class MessageStable:
    """The messages from first to last are stable (SourceOptions.stability_events)."""

    first: int
    last: int
    stores: tuple[str, ...]
    """The stores that hold the last of these messages, and so all of them."""
    groups: tuple[str, ...]
    """The groups whose rule these stores meet."""


@dataclass(frozen=True, slots=True)
class StoreStable:
    """A store has acknowledged the messages from first to last (StabilityEvents.STORE).

    The three flags below describe the last of them.
    """

    store: str
    group: str
    """The group of the store; empty: the store takes the stream, but is in no group."""
    first: int
    last: int
    intragroup: bool
    """Whether the rule of this group is met."""
    intergroup: bool
    """Whether the rule over the groups is met."""
    stable: bool
    """Whether the message is stable; all messages before it are then stable, too. While the stores
    change, every policy in force must be met."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Stable messages have left the source's retention."""

    first: int
    last: int
    forced: bool
    """Whether a store still lacked these messages. That store fetches them from its peers."""


@dataclass(frozen=True, slots=True)
class ReceiverAttached:
    """A receiver has attached to the live stream."""

    session_id: int
    address: str


@dataclass(frozen=True, slots=True)
class DeliveryConfirmed:
    """A receiver has consumed every message up to this one (SourceOptions.confirm_delivery)."""

    session_id: int
    reg_id: int
    """The RegID of the receiver; 0: its stores assigned different RegIDs."""
    upto: int
    unique_upto: int | None
    """The highest sequence number that enough receivers have consumed; -1: none.

    SourceOptions.unique_confirmations says how many are enough; None: it asks for none. Messages
    that were stable before the source was opened count as consumed.
    """


@dataclass(frozen=True, slots=True)
class ReceiverOverrun:
    """A receiver was too slow for the live stream. It catches up from the stores."""

    session_id: int
    dropped_frames: int


@dataclass(frozen=True, slots=True)
class ReceiverDetached:
    """A receiver no longer takes the live stream."""

    session_id: int
    address: str
    reason: str
    """Why, in words: it left or its connection broke, it hung, or the source was closed.

    A receiver that hangs "said nothing for 5 s". It attaches again by itself once it goes on.
    """


@dataclass(frozen=True, slots=True)
class DeregistrationSucceeded:
    """A store has ended this source."""

    store: str
    reg_id: int
    """The RegID that the source had at this store; 0: it was not registered there."""
    last_sequence: int
    """The sequence number of the last message that the store had; -1: none."""


@dataclass(frozen=True, slots=True)
class DeregistrationComplete:
    """So many stores have ended this source that it stays ended."""


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The source cannot go on. Every call raises this error; open a new source."""

    error: QuorateError


@dataclass(frozen=True, slots=True)
class SourceClosed:
    """The source is closed; no event follows."""

    last_sequence: int
    """The highest sequence number that was accepted; -1: none."""
    stable_upto: int


Event = (
    RegistrationSucceeded
    | RegistrationComplete
    | StoreUnresponsive
    | StoreReturned
    | StoreInLimbo
    | StoreKeepsState
    | WaitingForStores
    | WaitingForIdentity
    | MembershipChanged
    | BackupSteppedIn
    | BackupSteppedBack
    | StoreReplaced
    | StoreCaughtUp
    | QuorumLost
    | FlightExceeded
    | FlightRelieved
    | ReceiversLag
    | ReceiversCaughtUp
    | NotStable
    | MessageStable
    | StoreStable
    | Reclaimed
    | RegistrationRefused
    | ReceiverAttached
    | DeliveryConfirmed
    | ReceiverOverrun
    | ReceiverDetached
    | DeregistrationSucceeded
    | DeregistrationComplete
    | SourceFailed
    | SourceClosed
    | EventsLost
)
