"""The events of a receiver, which an application reads.

An event is a plain value. Other modules decide when it happens.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.receiver.protocol.fetch_plan import Answer
from quorate.transport.event_log import EventsLost as EventsLost


@dataclass(frozen=True, slots=True)
class NoSourceYet:
    """No store knows a source of the receiver's topic. The receiver waits for one."""

    topic: str
    """The topic, or the pattern that topics must match."""
    known_topics: tuple[str, ...]
    """The topics that the stores have; at most 100 from each. One may be what was meant."""


@dataclass(frozen=True, slots=True)
class StoreRegistered:
    """A store has registered this receiver of the source."""

    source: SourceName
    store: str
    reg_id: int
    """The RegID of the receiver at that store."""
    source_reg_id: int
    """The RegID of the source at that store."""
    known: bool
    """Whether the store knew the receiver before."""
    acknowledged_upto: int
    """The highest sequence number that this receiver acknowledged there; -1: none."""
    limbo: bool
    """Whether the store is in limbo: it cannot vouch for what it lacks. Its position then means "at
    least this"."""
    state_only: bool = False
    """Whether the store keeps positions, and no messages of this topic."""


@dataclass(frozen=True, slots=True)
class StoreUnresponsive:
    """A store did not answer the registration of this receiver, or has become silent.

    The receiver tries it again.
    """

    source: SourceName
    store: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoreReturned:
    """A store that had become silent is heard again."""

    source: SourceName
    store: str


@dataclass(frozen=True, slots=True)
class StoreRefused:
    """A store refused to register this receiver. The receiver tries it again."""

    source: SourceName
    store: str
    error: QuorateError


@dataclass(frozen=True, slots=True)
class RegistrationWaiting:
    """Too few stores outside limbo have answered. Delivery of this source waits for more."""

    source: SourceName
    vouching: tuple[str, ...]
    """The stores that answered and vouch that they have everything they were told."""
    limbo: tuple[str, ...]
    """The stores that answered, but are in limbo: they cannot say what they may have lost."""
    silent: tuple[str, ...]
    """The stores that do not register the receiver. StoreUnresponsive and StoreRefused say why."""

    @property
    def by_kind(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The three groups of stores: vouching, limbo, silent."""
        return self.vouching, self.limbo, self.silent


@dataclass(frozen=True, slots=True)
class WaitingForIdentity:
    """The registration waits until stores no longer protect another instance of the receiver.

    Opening the receiver with take_over=True would fence that instance instead.
    """

    source: SourceName
    stores: tuple[str, ...]
    """The stores that refuse this instance."""
    seconds: float
    """The seconds until they no longer do, if the other instance stays silent."""


@dataclass(frozen=True, slots=True)
class RegistrationComplete:
    """Enough stores have registered this receiver. Delivery of this source begins."""

    source: SourceName
    first_sequence: int
    """The sequence number of the first message that will be delivered."""
    low: int
    """The first sequence number that was not acknowledged, by consensus of the stores. If no store
    has a position of the receiver, the number that its `start` means."""
    low_by_request_maximum: int
    """`low`, but not further back than ReceiverOptions.request_maximum allows."""
    high: int
    """The highest sequence number that a store has; -1: none."""
    stores: tuple[str, ...]
    """The stores that have registered the receiver."""
    missing: tuple[str, ...]
    """The stores of the source that have not answered yet."""
    limbo: tuple[str, ...]
    """The stores, of both lists above, that are in limbo: they cannot vouch for what they lack."""

    @property
    def by_quorum(self) -> bool:
        """Whether enough stores have registered the receiver, but not all."""
        return bool(self.missing)

    @property
    def moved_by_request_maximum(self) -> bool:
        """Whether the request maximum leaves out messages that were not acknowledged."""
        return self.low_by_request_maximum > self.low


@dataclass(frozen=True, slots=True)
class RegistrationChanged:
    """The source has other stores. The receiver registers with the new ones, and only with them."""

    source: SourceName
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceAttached:
    """The live stream of a source has begun to come in."""

    source: SourceName
    address: str
    epoch: int
    next_sequence: int
    """The sequence number at which the live stream goes on; the stores have what is before."""


@dataclass(frozen=True, slots=True)
class SourceDetached:
    """The live stream of a source has ended. The receiver seeks it again and fetches from the
    stores meanwhile."""

    source: SourceName
    reason: str


@dataclass(frozen=True, slots=True)
class SourceGone:
    """A source has closed cleanly, after it sent every message up to last_sequence."""

    source: SourceName
    last_sequence: int


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """A source has another epoch, another address, or other stores."""

    source: SourceName
    epoch: int
    address: str
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """The messages [first, last] cannot be delivered; `cause` and `evidence` say why.

    Delivery goes on after the gap.
    """

    source: SourceName
    first: int
    last: int
    cause: Answer
    """The reason. ABSENT: every store, and the source, knows that it lacks them. LOST: an operator
    has accepted their loss. POISONED: an operator has marked them as not to be delivered.
    RELEASED: they were stable, stores released them by retention, and no store that can be asked
    still has them."""
    evidence: tuple[tuple[str, str], ...]
    """The name of each peer, with what it said."""


@dataclass(frozen=True, slots=True)
class Stalled:
    """Delivery waits for the messages [first, last], which may still exist.

    The receiver goes on asking the peers that may have them.
    """

    source: SourceName
    first: int
    last: int
    waiting_for: tuple[str, ...]
    """The names of the peers that may have what is missing."""
    evidence: tuple[tuple[str, str], ...]
    """The name of each of these peers, with what it said.

    A store that cannot say whether it has a message may have it. If no peer will ever give it, an
    operator can accept its loss with `quorate repair`.
    """


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The messages [first, last] were delivered, but the source's new epoch did not keep them.

    They were not stable. Other messages with these sequence numbers follow.
    """

    source: SourceName
    first: int
    last: int
    epoch: int
    """The new epoch."""


@dataclass(frozen=True, slots=True)
class DeregistrationSucceeded:
    """A store has deleted this receiver's registration and position."""

    source: SourceName
    store: str
    reg_id: int
    """The RegID that the receiver had at this store; 0: it was not registered there."""
    acknowledged_upto: int
    """The highest sequence number that it had acknowledged there; -1: none."""
    source_reg_id: int
    """The RegID of the source at this store; 0: the receiver was not told."""


@dataclass(frozen=True, slots=True)
class DeregistrationComplete:
    """Every store of the source has deleted this receiver's registration and position."""

    source: SourceName


@dataclass(frozen=True, slots=True)
class ProxyServes:
    """The source is away. This store answers for it meanwhile, perhaps among others."""

    source: SourceName
    store: str


@dataclass(frozen=True, slots=True)
class ProxyGone:
    """This store no longer answers for the source: the source is back, or the store is away."""

    source: SourceName
    store: str


Event = (
    NoSourceYet
    | StoreRegistered
    | StoreUnresponsive
    | StoreReturned
    | StoreRefused
    | RegistrationWaiting
    | WaitingForIdentity
    | RegistrationComplete
    | RegistrationChanged
    | SourceAttached
    | SourceDetached
    | SourceGone
    | SourceChanged
    | Gap
    | Stalled
    | Withdrawn
    | DeregistrationSucceeded
    | DeregistrationComplete
    | ProxyServes
    | ProxyGone
    | EventsLost
)
