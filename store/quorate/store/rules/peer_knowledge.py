"""What a peer knows: of each source, of itself, and when it was heard.

Values only. The rules that use them are in quorate.store.rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import NO_LINEAGE, Lineage
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Marker
from quorate.v1.messages_pb2 import SourceInformation
from quorate.v1.store_pb2 import (
    DELETION_UNSPECIFIED,
    EndedReceiver,
    Greeting,
    ReceiverStatus,
)


@dataclass(frozen=True, slots=True)
class SourceKnowledge:
    """What a peer knows of one source."""

    promised_epoch: int = 0
    promised_to: bytes = b""
    begun_epoch: int = 0
    lineage: Lineage = NO_LINEAGE
    membership: Membership | None = None
    held: tuple[HeldRange, ...] = ()
    stable_upto: int = NOTHING
    limbo: bool = False
    """The peer can not vouch for what it lacks of this source."""
    live: bool = False
    clean: bool = False
    information: SourceInformation | None = None
    receivers: tuple[ReceiverStatus, ...] = ()
    accepted_losses: tuple[HeldRange, ...] = ()
    deletion: int = DELETION_UNSPECIFIED
    """Why the peer deleted it, if it did: then this is what it remembers of it."""
    proxy: bool = False
    """The peer answers for it while it is away."""
    reg_id: int = 0
    """That the source has at the peer."""
    retained_from: int = 0
    """Everything below was stable and was let go on purpose."""
    markers: tuple[Marker, ...] = ()
    """The newest of what is stable, and all above."""
    takes_data: bool = True
    """The peer keeps messages of that topic."""
    ended_epoch: int = 0
    """Up to here epochs were of streams that are deleted."""
    ended_receivers: tuple[EndedReceiver, ...] = ()
    may_miss_receivers: bool = False
    """That it does not know a receiver says nothing."""
    spent_receiver_epoch: int = 0
    """The highest in which any receiver was over."""
    deleted_upto: int = 0
    """Up to which epoch the peer deleted it, as whoever had it deleted said."""


UNKNOWN = SourceKnowledge()


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """A peer's whole inventory."""

    store: str
    address: str
    incarnation: bytes
    starts: int = 1
    limbo: bool = False
    """The peer as a whole can not vouch for what it lacks."""
    blank: bool = False
    founders: tuple[Greeting, ...] = ()
    remembered: Greeting | None = None
    """What the peer remembered of this store, from before it was asked."""
    sources: Mapping[SourceName, SourceKnowledge] = field(default_factory=dict)
    known: tuple[Greeting, ...] = ()
    """The other stores that it knows."""
    advertised: str = ""
    """The address that it says of itself; `address` is where it was asked."""

    def knowledge(self, source: SourceName) -> SourceKnowledge:
        """What it knows of a source; nothing, if it does not name it."""
        return self.sources.get(source, UNKNOWN)

    def vouches(self, source: SourceName) -> bool:
        """Whether it can say what it lacks of this source."""
        knowledge = self.sources.get(source)
        return not (self.limbo if knowledge is None else knowledge.limbo)


@dataclass(frozen=True, slots=True)
class Heard:
    """The latest answer of a peer. Times are of this store's clock, in seconds, monotonic."""

    answer: PeerAnswer
    asked: float
    """When the question was sent that this answers."""
    at: float
    """When the answer was complete."""
    first: float
    """When this incarnation was first heard."""
    counts: bool = True
    """Both know which incarnation the other one has. Else the peer may not have told its sources
    yet that this store was replaced, and what it says is nothing to leave limbo by (G3)."""
    busy: bool = False
    """Sources stream to it: see quorate.store.tasks.throttle."""
