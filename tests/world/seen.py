"""Everything that the applications of a world saw, and nothing that is judged of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from quorate.client.replay import Position

Messages = list[tuple[int, bytes]]
"""Sequence numbers and payloads, in the order in which an application got them."""


@dataclass
class Taken:
    """The messages of one source that one instance of a receiver was handed."""

    before: int
    """The highest number that any instance was handed before its first message; -1: none."""
    messages: Messages


@dataclass
class Stream:
    """Everything that applications saw of one source."""

    topic: str = "orders"
    session_id: int = 1
    instances: int = 0
    """The instances of the source that were started."""
    sent: int = 0
    """The messages that the source began to publish."""
    last: int = -1
    """The highest number that `publish` reported as stable."""
    stable: dict[int, bytes] = field(default_factory=dict)
    """The payloads that `publish` reported as stable, by sequence number."""
    conflicts: list[str] = field(default_factory=list)
    """Stable numbers that were given to two messages."""
    taken: list[Taken] = field(default_factory=list)
    """The messages of each instance of the receiver, in the order of their first messages."""
    taken_upto: int = -1
    """The highest number that any instance of the receiver was handed."""
    replayed: Messages = field(default_factory=list)
    """The messages that the subscriber was handed, at whatever store."""
    read: Messages = field(default_factory=list)
    """The messages that a new receiver was handed once all was calm."""

    def payload(self) -> bytes:
        """Return the payload of another message."""
        self.sent += 1
        return b"%s %d %d" % (self.topic.encode(), self.session_id, self.sent)

    def note_stable(self, number: int, payload: bytes) -> None:
        """Keep that `publish` reported this message as stable."""
        before = self.stable.setdefault(number, payload)
        self.last = max(self.last, number)
        if before != payload:
            self.conflicts.append(f"{number}: {before!r}, then {payload!r}")

    def begin_to_take(self) -> Messages:
        """Return the list for the messages of another instance of the receiver."""
        self.taken.append(Taken(self.taken_upto, []))
        return self.taken[-1].messages


@dataclass
class Seen:
    """Everything that applications saw of all sources."""

    streams: list[Stream]
    receivers: Counter[str] = field(default_factory=Counter)
    """The instances of receivers that were started, by topic."""
    contested: set[str] = field(default_factory=set)
    """The topics of which an application was replaced that may wake and take over again."""
    position: Position | None = None
    """The position of the subscriber; None: it got nothing yet."""
    failures: list[str] = field(default_factory=list)
    """Errors that no application should get."""
    reached: Counter[str] = field(default_factory=Counter)
    """How often each kind of event was told to an application."""

    def stream(self, topic: str, session_id: int) -> Stream:
        """Return what was seen of this source."""
        return next(
            each for each in self.streams if (each.topic, each.session_id) == (topic, session_id)
        )

    def note(self, event: object) -> None:
        """Count an event."""
        self.reached[type(event).__name__] += 1
