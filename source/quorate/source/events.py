"""What a source tells its application, and the bounded log from which it is read.

An event is a plain value; what to do about one is the application's affair.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from quorate.protocol.errors import QuorateError
from quorate.protocol.policy import Policy

_log = logging.getLogger("quorate.source")

EVENTS_KEPT = 1024


@dataclass(frozen=True, slots=True)
class RegistrationSucceeded:
    """One store has begun the source's epoch."""

    store: str
    reg_id: int
    known: bool
    """The store knew this source from before."""


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """A store refused to register the source; told once for each kind of reason. Others may do."""

    store: str
    reason: QuorateError


@dataclass(frozen=True, slots=True)
class WaitingForStores:
    """A registration waits for promises."""

    missing: tuple[str, ...]
    """Stores that have not answered."""
    seconds: float
    """For so long at most it waits for all of them; 0: for enough of them, as long as it takes."""


@dataclass(frozen=True, slots=True)
class MembershipChanged:
    """The stores that make messages stable are others from this epoch on."""

    from_policies: tuple[Policy, ...]
    to_policies: tuple[Policy, ...]
    epoch: int
    confirmed: bool
    """The record has forgotten where it came from: stores that no policy in `to_policies` names may
    be switched off."""


@dataclass(frozen=True, slots=True)
class BackupSteppedIn:
    """A backup has taken the place of a member that does not answer."""

    group: str
    member: str
    backup: str


@dataclass(frozen=True, slots=True)
class BackupSteppedBack:
    """A member that has caught up has its place again."""

    group: str
    member: str
    backup: str


@dataclass(frozen=True, slots=True)
class RegistrationComplete:
    """Enough stores take the stream: messages are accepted from first_sequence on."""

    first_sequence: int
    epoch: int
    stores: tuple[str, ...]
    missing: tuple[str, ...]
    """Configured stores that do not take the stream yet."""
    groups: tuple[str, ...]
    """The groups of the source's policy whose rule the stores meet that take the stream."""


@dataclass(frozen=True, slots=True)
class StoreUnresponsive:
    """A store does not take the stream; it is tried again by itself."""

    store: str
    reason: QuorateError
    quorum_lost: bool
    """Without it messages are no longer accepted. False also if they were not before."""
    groups: tuple[str, ...]
    """The groups of the source's policy whose rule the stores still meet that take the stream."""


@dataclass(frozen=True, slots=True)
class StoreReturned:
    """A store of which StoreUnresponsive was told takes the stream again.

    It may lack messages yet; StoreCaughtUp tells when it does not any more.
    """

    store: str
    groups: tuple[str, ...]
    """The groups of the source's policy whose rule the stores meet that take the stream now."""


@dataclass(frozen=True, slots=True)
class StoreInLimbo:
    """A store can not vouch for what it lacks; it is asked again until it can."""

    store: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoreKeepsState:
    """A store keeps the registration and the receivers' positions, and is sent no messages: its
    configuration says so (durability = state-only). What is stable is up to the others."""

    store: str


@dataclass(frozen=True, slots=True)
class StoreReplaced:
    """A store came back without its data: what it had acknowledged counts no more.

    What was stable is stable still; the store is registered with anew, by itself.
    """

    store: str
    incarnation: bytes
    """Of the data directory that it has now."""


@dataclass(frozen=True, slots=True)
class StoreCaughtUp:
    """A store that lacked messages has been sent all of them."""

    store: str
    upto: int


@dataclass(frozen=True, slots=True)
class QuorumLost:
    """Sending raises NotRegistered until RegistrationComplete comes again."""

    active: tuple[str, ...]
    """Stores that still take the stream."""
    groups: tuple[str, ...]
    """The groups of the source's policy whose rule they still meet."""


@dataclass(frozen=True, slots=True)
class FlightExceeded:
    """More is unstable than the flight window allows; sending goes on (FlightBehaviour.NOTIFY)."""

    unstable_messages: int
    unstable_bytes: int


@dataclass(frozen=True, slots=True)
class FlightRelieved:
    """What is unstable is within the flight window again."""

    stable_upto: int


@dataclass(frozen=True, slots=True)
class LaggingReceiver:
    """A receiver that a source waits for."""

    session_id: int
    acknowledged_upto: int
    """As far as any store has told; -1: nothing."""


@dataclass(frozen=True, slots=True)
class ReceiversLag:
    """As much was sent as SourceOptions.receiver_pacing allows: sends wait for these receivers, or
    with FlightBehaviour.NOTIFY go on. Told again when it is others that lag."""

    receivers: tuple[LaggingReceiver, ...]
    """The slowest first."""
    unacknowledged_messages: int
    """By the slowest."""
    unacknowledged_bytes: int
    """Of these, as far as this source sent them itself since it registered last."""


@dataclass(frozen=True, slots=True)
class ReceiversCaughtUp:
    """No receiver that is waited for is behind by more than half of what is allowed any more.

    Told when sends have not waited for five seconds; with FlightBehaviour.NOTIFY at once.
    """

    acknowledged_upto: int | None
    """By all of them; None: there are none."""


class NotStableCause(enum.Enum):
    """Why messages are not stable."""

    TIMEOUT = "timeout"
    """They passed the stability lifetime; they are not given up."""
    REFUSED = "refused"
    """A store has other content under their numbers."""


@dataclass(frozen=True, slots=True)
class NotStable:
    """Messages are not stable as they should be."""

    first: int
    last: int
    cause: NotStableCause
    store: str = ""
    """Who refused them."""


@dataclass(frozen=True, slots=True)
class MessageStable:
    """Messages are stable (SourceOptions.stability_events)."""

    first: int
    last: int
    stores: tuple[str, ...]
    """Those that hold the last of them, and so all."""
    groups: tuple[str, ...]
    """The groups whose rule these stores meet."""


@dataclass(frozen=True, slots=True)
class StoreStable:
    """A store holds messages (StabilityEvents.STORE); what is said of rules is said of the last."""

    store: str
    group: str
    """Empty: the store is in no group, but takes the stream."""
    first: int
    last: int
    intragroup: bool
    """The rule of this group is met."""
    intergroup: bool
    """The rule over the groups is met."""
    stable: bool
    """It is stable: all before it is, too, and while the stream moves, under the old policy as
    well."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Stable messages have left the source's retention."""

    first: int
    last: int
    forced: bool
    """Some store lacked them: it will get them from its peers."""


@dataclass(frozen=True, slots=True)
class ReceiverAttached:
    session_id: int
    address: str


@dataclass(frozen=True, slots=True)
class DeliveryConfirmed:
    """A receiver has consumed everything up to here (SourceOptions.confirm_delivery)."""

    session_id: int
    reg_id: int
    """The receiver's; 0 if its stores assigned different ones."""
    upto: int
    unique_upto: int | None
    """Everything up to here was consumed by SourceOptions.unique_confirmations receivers, or was
    stable before the source was opened; -1: nothing; None: none were asked for."""


@dataclass(frozen=True, slots=True)
class ReceiverOverrun:
    """A receiver was too slow for the live stream; it catches up from the stores."""

    session_id: int
    dropped_frames: int


@dataclass(frozen=True, slots=True)
class ReceiverDetached:
    session_id: int
    address: str


@dataclass(frozen=True, slots=True)
class DeregistrationSucceeded:
    """A store has forgotten this source."""

    store: str
    reg_id: int
    """What its registration there was; 0: it had none."""
    last_sequence: int
    """The last message that it had stored; -1: none."""


@dataclass(frozen=True, slots=True)
class DeregistrationComplete:
    """Every store has forgotten this source."""


@dataclass(frozen=True, slots=True)
class SourceFailed:
    """The source can not go on; every call raises this error. Open a new one."""

    error: QuorateError


@dataclass(frozen=True, slots=True)
class SourceClosed:
    last_sequence: int
    stable_upto: int


@dataclass(frozen=True, slots=True)
class EventsLost:
    """The reader was so slow that events went by unseen."""

    count: int


Event = (
    RegistrationSucceeded
    | RegistrationComplete
    | StoreUnresponsive
    | StoreReturned
    | StoreInLimbo
    | StoreKeepsState
    | WaitingForStores
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


class EventLog:
    """The newest events, read by any number of consumers, each at its own pace."""

    def __init__(self, on_event: Callable[[Event], None] | None = None) -> None:
        """on_event: is handed each event as it comes."""
        self._on_event = on_event
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._count = 0
        self._ended = False
        self._news = asyncio.Event()

    def add(self, event: Event) -> None:
        self._events.append(event)
        self._count += 1
        self._wake()
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                # The application's own affair: the source goes on.
                _log.exception("on_event failed with %s", event)

    def end(self) -> None:
        """No event follows: readers finish once they have read what is there."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news.clear()

    def kept(self) -> list[Event]:
        """The newest events, oldest first."""
        return list(self._events)

    async def read(self) -> AsyncIterator[Event]:
        """All events that are still kept, then those that follow, until the source is closed."""
        position = 0
        while True:
            oldest = self._count - len(self._events)
            if position < oldest:
                yield EventsLost(oldest - position)
                position = oldest
            elif position < self._count:
                event = self._events[position - oldest]
                position += 1
                yield event
            elif self._ended:
                return
            else:
                await self._news.wait()
