"""The subscriptions that run at a store: how many there may be, and how far each has read.

Pure: nothing is read or sent here, and time comes in as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from quorate.protocol.application import UNNAMED, Application
from quorate.protocol.errors import TooManySubscriptions
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.store.rules.walk import Walk


@dataclass(eq=False, slots=True)
class Running:
    """One subscription that runs."""

    client: str
    """The address of the client, as gRPC has it."""
    topic: str | None
    """The one topic; None: a pattern selects them."""
    pattern: str
    """The pattern of topics; empty: there is one topic."""
    selects: Callable[[str], bool]
    """Whether the subscription wants a topic."""
    delivered: int
    """The messages that it is given, as the request says."""
    where: Filter | None
    """The filter; None: there is none."""
    opened: float
    """The time at which it was opened, in seconds of the store's clock that never jumps."""
    walk: Walk | None = None
    """Its places; None: the store still looks for the place where it begins."""
    application: Application = UNNAMED
    number: int = 0
    """Its place among the subscriptions since the start of the store; 0: not counted yet."""

    @property
    def undecoded(self) -> int:
        """How many payloads are no JSON, of those that its filter looked into."""
        return 0 if self.where is None else self.where.undecoded


@dataclass(frozen=True, slots=True)
class Slowest:
    """The subscription that is furthest behind in a source."""

    client: str
    upto: int
    """The number up to which the subscription has read."""


class Subscriptions:
    """The subscriptions that run at one store."""

    def __init__(self, store: str, most: int) -> None:
        """most: how many may run at a time; 0: as many as come."""
        self._store = store
        self._running: dict[Running, None] = {}
        self.most = most
        """How many may run at a time; 0: as many as come."""
        self._undecoded = 0
        """How many payloads are no JSON, by the subscriptions that have ended."""
        self._opened = 0
        """How many subscriptions were opened so far."""

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Running]:
        return iter(self._running)

    @contextmanager
    def opened(self, subscription: Running) -> Iterator[Running]:
        """Count a subscription while it runs. Raises TooManySubscriptions."""
        if 0 < self.most <= len(self._running):
            raise TooManySubscriptions(self._store, self.most)
        self._opened += 1
        subscription.number = self._opened
        self._running[subscription] = None
        try:
            yield subscription
        finally:
            self._running.pop(subscription, None)
            self._undecoded += subscription.undecoded

    @property
    def undecoded(self) -> int:
        """How many payloads that filters looked into so far are no JSON."""
        return self._undecoded + sum(each.undecoded for each in self._running)

    def slowest(self, source: SourceName, lineage: Lineage) -> Slowest | None:
        """Return the subscription that has read least of a source; None: none wants it."""
        found: Slowest | None = None
        for each in self._running:
            if each.walk is None or not each.selects(source.topic):
                continue
            upto = each.walk.read_upto(source, lineage)
            if found is None or upto < found.upto:
                found = Slowest(each.client, upto)
            if upto == NOTHING:
                break
        return found
