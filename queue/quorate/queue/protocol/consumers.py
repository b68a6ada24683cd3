"""The consumers of a queue, and their leases. When a lease is given is not known here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorate.protocol.identity import SourceName

if TYPE_CHECKING:
    from quorate.queue.protocol.track import Entry


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


class Leases:
    """All leases, in the order in which they end."""

    def __init__(self, seconds: float) -> None:
        """Begin with none. seconds: how long each lasts."""
        self.seconds = seconds
        self._leases: deque[Lease] = deque()

    def give(self, consumer: Consumer, entries: list[Entry], now: float) -> None:
        """Give a consumer a lease for messages."""
        lease = Lease(consumer, now + self.seconds, entries)
        for entry in entries:
            entry.lease = lease
            consumer.held[entry.track.source, entry.sequence] = entry
        self._leases.append(lease)

    def ended(self, now: float) -> list[Entry]:
        """Return the messages whose lease has ended, and that nobody has settled."""
        ended: list[Entry] = []
        while self._leases and self._leases[0].ends_at <= now:
            lease = self._leases.popleft()
            ended += [entry for entry in lease.entries if entry.lease is lease]
        return ended

    @property
    def ends_at(self) -> float | None:
        """When the next lease ends; None: there is none."""
        while self._leases and not any(
            entry.lease is self._leases[0] for entry in self._leases[0].entries
        ):
            self._leases.popleft()
        return self._leases[0].ends_at if self._leases else None
