"""What a receiver tells besides messages, and the bounded streams that tell it.

Only the events themselves and their distribution; who finds out what is elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.receiver.protocol.fetch_plan import Answer

KEPT = 1024
"""So many events are kept for one that does not take them, and for those who come late."""


@dataclass(frozen=True, slots=True)
class StoreRegistered:
    """A store knows this receiver of this source now."""

    source: SourceName
    store: str
    reg_id: int
    """The receiver's at that store."""
    source_reg_id: int
    """The source's at that store."""
    known: bool
    """It knew the receiver before."""
    acknowledged_upto: int
    """The highest sequence number that this receiver acknowledged there; -1: none."""
    limbo: bool
    """It can not vouch for what it lacks: the position means "at least this"."""
    state_only: bool = False
    """It keeps positions, and no messages of this topic."""


@dataclass(frozen=True, slots=True)
class StoreUnresponsive:
    """A store did not answer the registration of this receiver; it is tried again."""

    source: SourceName
    store: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoreRefused:
    """A store refused to register this receiver; it is tried again."""

    source: SourceName
    store: str
    error: QuorateError


@dataclass(frozen=True, slots=True)
class RegistrationWaiting:
    """Too few stores that can vouch for what they say have answered: delivery waits for more."""

    source: SourceName
    vouching: tuple[str, ...]
    """Stores that answered, and know that they have everything they were told."""
    limbo: tuple[str, ...]
    """Stores that answered, and can not say what they may have lost."""
    silent: tuple[str, ...]
    """Stores that did not register the receiver; StoreUnresponsive and StoreRefused say why."""

    @property
    def by_kind(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """vouching, limbo, silent."""
        return self.vouching, self.limbo, self.silent


@dataclass(frozen=True, slots=True)
class RegistrationComplete:
    """Enough stores know this receiver; delivery of this source begins."""

    source: SourceName
    first_sequence: int
    """The first message that will be delivered."""
    low: int
    """The first that was not acknowledged, by consensus."""
    low_by_request_maximum: int
    """The same, not further back than the request maximum allows."""
    high: int
    """The newest that a store has; -1: none."""
    stores: tuple[str, ...]
    missing: tuple[str, ...]
    """Stores of the source that have not answered yet."""
    limbo: tuple[str, ...]
    """Those of stores and missing that can not vouch for what they lack."""

    @property
    def by_quorum(self) -> bool:
        """Enough stores registered it, but not all."""
        return bool(self.missing)

    @property
    def moved_by_request_maximum(self) -> bool:
        """The request maximum leaves out messages that were not acknowledged."""
        return self.low_by_request_maximum > self.low


@dataclass(frozen=True, slots=True)
class RegistrationChanged:
    """The source has other stores: the receiver registers with the new ones, and only with them."""

    source: SourceName
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceAttached:
    """The live stream of a source comes in."""

    source: SourceName
    address: str
    epoch: int
    next_sequence: int
    """Where the live stream goes on; what is before comes from the stores."""


@dataclass(frozen=True, slots=True)
class SourceDetached:
    """The live stream of a source ended; it is sought again, and the stores are asked meanwhile."""

    source: SourceName
    reason: str


@dataclass(frozen=True, slots=True)
class SourceGone:
    """A source closed, cleanly, having sent everything up to last_sequence."""

    source: SourceName
    last_sequence: int


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """A source is in another epoch, at another address, or has other stores."""

    source: SourceName
    epoch: int
    address: str
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """[first, last] can not be delivered: every store, and the source, said no; or an operator
    accepted its loss; or retention has let it go."""

    source: SourceName
    first: int
    last: int
    cause: Answer
    """ABSENT if all know that they do not have it; LOST if an operator accepted its loss; RELEASED
    if it was stable and stores let it go on purpose, and none that can be asked has it still."""
    evidence: tuple[tuple[str, str], ...]
    """Who said what."""


@dataclass(frozen=True, slots=True)
class Stalled:
    """Nothing can be delivered until one of these answers: they may have what is missing."""

    source: SourceName
    first: int
    last: int
    waiting_for: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]
    """Each of them with what it said: a store that can not say whether it has a message may have
    it. If nobody will ever give it, an operator can accept its loss: see `quorate repair`."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """[first, last] was delivered, but the source's new epoch did not keep it.

    It was not stable. Other messages with these numbers follow.
    """

    source: SourceName
    first: int
    last: int
    epoch: int
    """The new epoch."""


@dataclass(frozen=True, slots=True)
class DeregistrationSucceeded:
    """A store has forgotten this receiver of this source."""

    source: SourceName
    store: str
    reg_id: int
    """What its registration there was; 0: it had none."""
    acknowledged_upto: int
    """The highest sequence number that it had acknowledged there; -1: none."""
    source_reg_id: int
    """The source's there, as this receiver was told when it registered; 0: it was not told."""


@dataclass(frozen=True, slots=True)
class DeregistrationComplete:
    """Every store of the source has forgotten this receiver."""

    source: SourceName


@dataclass(frozen=True, slots=True)
class ProxyServes:
    """The source is away, and this store answers for it meanwhile."""

    source: SourceName
    store: str


@dataclass(frozen=True, slots=True)
class ProxyGone:
    """This store does not answer for the source any more: it is back, or the store is away."""

    source: SourceName
    store: str


Event = (
    StoreRegistered
    | StoreUnresponsive
    | StoreRefused
    | RegistrationWaiting
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
)


class Events:
    """Any number of streams of the same events, each bounded: the oldest go first."""

    def __init__(self) -> None:
        self._history: deque[Event] = deque(maxlen=KEPT)
        self._queues: list[tuple[deque[Event], asyncio.Event]] = []
        self._ended = False

    def tell(self, event: Event) -> None:
        self._history.append(event)
        for queue, told in self._queues:
            queue.append(event)
            told.set()

    def end(self) -> None:
        """Let every stream end once it is empty."""
        self._ended = True
        for _, told in self._queues:
            told.set()

    async def stream(self) -> AsyncIterator[Event]:
        """What was told so far, then what is told from now on."""
        queue: deque[Event] = deque(self._history, maxlen=KEPT)
        told = asyncio.Event()
        place = (queue, told)
        self._queues.append(place)
        try:
            while True:
                while queue:
                    yield queue.popleft()
                if self._ended:
                    return
                told.clear()
                await told.wait()
        finally:
            self._queues.remove(place)
