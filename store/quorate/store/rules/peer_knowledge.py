"""The knowledge of a peer: about each source, about itself, and the time when it was heard.

Values only. The rules that use them are in the other modules of quorate.store.rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Marker
from quorate.store.rules.lifetimes import Owner
from quorate.store.storage.maintenance_records import LossRecord
from quorate.v1.messages_pb2 import SourceInformation
from quorate.v1.store_pb2 import (
    EndedReceiver,
    Greeting,
    Moment,
    ReceiverStatus,
)


@dataclass(frozen=True, slots=True)
class SourceKnowledge:
    """The knowledge of a peer about one source."""

    promised_epoch: int = 0
    promised_to: bytes = b""
    begun: BeginRecord = NOT_BEGUN
    """The newest begin that the peer has."""
    held: tuple[HeldRange, ...] = ()
    stable_upto: int = NOTHING
    limbo: bool = False
    """Whether the peer cannot vouch for what it lacks of this source."""
    live: bool = False
    clean: bool = False
    information: SourceInformation | None = None
    receivers: tuple[ReceiverStatus, ...] = ()
    accepted_losses: tuple[HeldRange, ...] = ()
    poison: tuple[LossRecord, ...] = ()
    """All marks of poison and removals of such marks that the peer has."""
    settled: bool = False
    """Whether the peer knows that every store that an end names has adopted it."""
    proxy: bool = False
    """Whether the peer announces the source, which is away, as its proxy."""
    reg_id: int = 0
    """The RegID that the source has at the peer."""
    retained_from: int = 0
    """The lowest number not let go. Everything below was stable."""
    markers: tuple[Marker, ...] = ()
    """The newest stable marker and every later one."""
    takes_data: bool = True
    """Whether the peer keeps messages of the topic."""
    ended_receivers: tuple[EndedReceiver, ...] = ()
    may_miss_receivers: bool = False
    """Whether the peer may lack receivers that are registered."""
    spent_receiver_epoch: int = 0
    """The highest epoch in which any receiver was deregistered."""
    finished: bool = False
    """Whether the source is finished at the peer (quorate.store.rules.finished)."""
    owner: Owner = Owner.UNKNOWN
    """Whether the peer has heard of the owner within the state lifetime."""


UNKNOWN = SourceKnowledge()


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """A peer's whole inventory."""

    store: str
    address: str
    incarnation: bytes
    starts: int = 1
    limbo: bool = False
    """Whether the peer as a whole cannot vouch for what it lacks."""
    blank: bool = False
    founders: tuple[Greeting, ...] = ()
    remembered: Greeting | None = None
    """The greeting of this store that the peer remembered from before the question."""
    sources: Mapping[SourceName, SourceKnowledge] = field(default_factory=dict)
    known: tuple[Greeting, ...] = ()
    """The other stores that the peer knows."""
    advertised: str = ""
    """The address that the peer announces; `address` is where this store asked it."""
    moment: Moment | None = None
    """The moment since which the peer is to be asked for changes; None: for all sources."""
    told: Collection[SourceName] | None = None
    """The sources that may differ from the answer before; None: all may."""

    @property
    def news(self) -> Collection[SourceName]:
        """The sources that may differ from the answer before."""
        return self.sources.keys() if self.told is None else self.told

    def knowledge(self, source: SourceName) -> SourceKnowledge:
        """Return the peer's knowledge of a source; UNKNOWN if it does not name the source."""
        return self.sources.get(source, UNKNOWN)

    def vouches(self, source: SourceName) -> bool:
        """Return whether the peer vouches for what it lacks of this source."""
        knowledge = self.sources.get(source)
        return not (self.limbo if knowledge is None else knowledge.limbo)


@dataclass(frozen=True, slots=True)
class Heard:
    """The latest answer of a peer. Times are this store's monotonic clock, in seconds."""

    answer: PeerAnswer
    asked: float
    """The time when this store sent the question."""
    at: float
    """The time when the answer was complete."""
    first: float
    """The time when this incarnation was first heard."""
    counts: bool = True
    """Whether both stores know each other's incarnation. Otherwise the peer may not have told its
    sources yet that this store was replaced. No store may leave limbo by such an answer."""
    busy: bool = False
    """Whether sources stream to the peer (see quorate.store.tasks.throttle)."""
