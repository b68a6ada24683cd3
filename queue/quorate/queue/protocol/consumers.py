"""The consumers of a queue, and their leases. When a lease is given is not known here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorate.protocol.identity import SourceName

if TYPE_CHECKING:
    from quorate.queue.protocol.track import Entry


LEASE_ENDED = "its lease ended before the consumer said what became of it"
CONSUMER_LEFT = "its consumer went away"


class Consumer:
    """A consumer, from when it joins until it leaves."""

    def __init__(self, name: str, max_backlog: int) -> None:
        """Begin with nothing.

        max_backlog: the most messages that it has at a time.
        """
        self.name = name
        self.max_backlog = max_backlog
        self.held: dict[tuple[SourceName, int], Entry] = {}
        """The messages that it was handed and has not settled, also if the lease is over by now. So
        a consumer that hangs is not handed more and more."""
        self.number = 0
        """The number of its last settlements."""
        self.is_leaving = False
        """Whether it takes no more."""
        self.early = 0
        """How many messages it has settled before the dispatcher met them."""

    @property
    def room(self) -> int:
        """How many more messages it may be handed."""
        return 0 if self.is_leaving else self.max_backlog - len(self.held)

    @property
    def leased(self) -> int:
        """How many messages it has a lease for."""
        return sum(
            entry.lease is not None and entry.lease.consumer is self for entry in self.held.values()
        )


@dataclass(slots=True, eq=False)
class Lease:
    """Messages that were handed to a consumer together, and until when they are its own."""

    consumer: Consumer
    ends_at: float
    entries: list[Entry]
    """From the end on they are taken out once the lease is over."""
    reason: str = LEASE_ENDED
    """The words for why it is over, once it is."""


class Leases:
    """All leases, in the order in which they end."""

    def __init__(self, seconds: float) -> None:
        """Begin with none. seconds: how long each lasts."""
        self.seconds = seconds
        self._leases: deque[Lease] = deque()
        self._over: list[Lease] = []
        """The leases that are over, and of which messages are left. The last one comes first."""

    def give(self, consumer: Consumer, entries: list[Entry], now: float) -> None:
        """Give a consumer a lease for messages."""
        lease = Lease(consumer, now + self.seconds, entries.copy())
        for entry in entries:
            entry.lease = lease
            consumer.held[entry.track.source, entry.sequence] = entry
        self._leases.append(lease)

    def end(self, consumer: Consumer, now: float, reason: str) -> None:
        """End all leases of a consumer."""
        own = [lease for lease in self._leases if lease.consumer is consumer]
        for lease in own:
            self._leases.remove(lease)
            lease.ends_at, lease.reason = now, reason
        self._over += own

    def ended(self, now: float, most: int) -> list[tuple[Entry, str]]:
        """Return messages that nobody has settled and whose lease is over, and why.

        The last of them comes first. There are more if `ends_at` is not after now.
        """
        while self._leases and self._leases[0].ends_at <= now:
            self._over.append(self._leases.popleft())
        ended: list[tuple[Entry, str]] = []
        while self._over and len(ended) < most:
            lease = self._over[-1]
            if not lease.entries:
                self._over.pop()
                continue
            entry = lease.entries.pop()
            if entry.lease is lease:
                ended.append((entry, lease.reason))
        return ended

    @property
    def ends_at(self) -> float | None:
        """When the next lease ends, or has ended; None: there is none."""
        if self._over:
            return self._over[-1].ends_at
        while self._leases and not any(
            entry.lease is self._leases[0] for entry in self._leases[0].entries
        ):
            self._leases.popleft()
        return self._leases[0].ends_at if self._leases else None
