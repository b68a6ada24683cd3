"""The items that a subscription yields: messages, and what else an application has to know.

No I/O.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count, repeat
from typing import TypeVar

from quorate.protocol.attributes import Attributes
from quorate.protocol.bookmarks import NO_PLACE, Bookmark, Place, Position
from quorate.protocol.columns import Body
from quorate.protocol.framing import BatchHeader
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.times import moment_of
from quorate.subscriber.protocol.conflation import Conflated
from quorate.subscriber.protocol.progress import Open

T = TypeVar("T")


class ReplayedBatch:
    """Messages of one source in one epoch, with ascending numbers."""

    __slots__ = (
        "_attributes", "_body", "_keys", "_properties", "_rows", "_times", "before", "epoch",
        "numbers", "payloads", "source", "stable_upto", "taken", "timestamp_ns",
    )  # fmt: skip

    source: SourceName
    """The source that sent them."""
    epoch: int
    """The source's epoch under which they belong to the stream."""
    timestamp_ns: int
    """The least time of what the source packed together, by the source's clock: nanoseconds since
    1970 UTC."""
    numbers: Sequence[int]
    """The sequence number of each."""
    payloads: Sequence[bytes]
    """The content of each."""
    stable_upto: int
    """The messages up to this number were stable when the store gave them. With
    delivered="stable" that is all of them."""

    def __init__(
        self,
        header: BatchHeader,
        body: Body,
        rows: slice | Sequence[int],
        numbers: Sequence[int],
        before: Place = NO_PLACE,
        payloads: Sequence[bytes] | None = None,
        stable_upto: int = SEQUENCE_MAX,
    ) -> None:
        """Make a batch of these rows of another. Applications get them from a subscriber.

        payloads: the content of each, if it is not that of the other batch.
        """
        self.source = header.source
        self.epoch = header.epoch
        self.timestamp_ns = header.timestamp_ns
        self.numbers = numbers
        self.stable_upto = stable_upto
        self.before = before
        """The subscription's place in the source's stream before the batch."""
        self.taken: Open | None = None
        """Its consumed messages, for a subscription with a bookmark store."""
        self._rows = rows
        self._body = body
        if payloads is None:
            payloads = body.read_payloads()
            payloads = payloads if len(payloads) == len(numbers) else picked(payloads, rows)
        self.payloads = payloads
        self._keys: Sequence[bytes | None] | None = None
        self._properties: Sequence[Mapping[str, bytes]] | None = None
        self._times: Sequence[int] | None = None
        self._attributes: Sequence[Attributes] | None = None

    @property
    def topic(self) -> str:
        """The topic of its source."""
        return self.source.topic

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each message; None: it has no key."""
        if self._keys is None:
            self._keys = picked(self._body.read_keys(), self._rows)
        return self._keys

    @property
    def properties(self) -> Sequence[Mapping[str, bytes]]:
        """The properties of each message, values by name."""
        if self._properties is None:
            self._properties = picked(self._body.read_properties(), self._rows)
        return self._properties

    @property
    def times(self) -> Sequence[int]:
        """The time at which each message was sent, by the source's clock: nanoseconds since 1970
        UTC."""
        if self._times is None:
            self._times = picked(self._body.read_times(self.timestamp_ns), self._rows)
        return self._times

    @property
    def attributes(self) -> Sequence[Attributes]:
        """The attributes of each message."""
        if self._attributes is None:
            self._attributes = picked(self._body.read_every_attributes(), self._rows)
        return self._attributes

    def messages(self) -> Iterator[ReplayedMessage]:
        """Yield its messages. Each is made when it is taken."""
        return map(ReplayedMessage, repeat(self), count(), self.numbers, self.payloads)

    def __len__(self) -> int:
        return len(self.numbers)

    def consumed(self) -> None:
        """Count all its messages as consumed, as `ReplayedMessage.consumed` does."""
        if self.taken is not None:
            for row in range(len(self.numbers)):
                self.taken.note(row)

    def __repr__(self) -> str:
        return f"<ReplayedBatch {self.source} [{self.numbers[0]}, {self.numbers[-1]}]>"


def picked(values: Sequence[T], rows: slice | Sequence[int]) -> Sequence[T]:
    """Return the values in these places."""
    return values[rows] if isinstance(rows, slice) else [values[row] for row in rows]


class ReplayedMessage:
    """A message of the journal."""

    __slots__ = ("_row", "batch", "payload", "sequence")

    batch: ReplayedBatch
    """The batch in which the message came."""
    sequence: int
    """The position in its source's stream: 0, 1, 2, …"""
    payload: bytes
    """The content."""

    def __init__(self, batch: ReplayedBatch, row: int, sequence: int, payload: bytes) -> None:
        """Make a message. Applications get them from a subscriber."""
        self.batch = batch
        self._row = row
        self.sequence = sequence
        self.payload = payload

    @property
    def source(self) -> SourceName:
        """The source that sent it."""
        return self.batch.source

    @property
    def topic(self) -> str:
        """The topic of its source."""
        return self.batch.source.topic

    @property
    def epoch(self) -> int:
        """The source's epoch under which the message belongs to the stream."""
        return self.batch.epoch

    @property
    def key(self) -> bytes | None:
        """The key: what the message is about; None: it has no key."""
        return self.batch.keys[self._row]

    @property
    def properties(self) -> Mapping[str, bytes]:
        """The properties, values by name; often none."""
        return self.batch.properties[self._row]

    @property
    def timestamp_ns(self) -> int:
        """The time at which it was sent, by the source's clock: nanoseconds since 1970 UTC."""
        return self.batch.times[self._row]

    @property
    def time(self) -> datetime:
        """The time at which it was sent, by the source's clock, in UTC."""
        return moment_of(self.timestamp_ns)

    @property
    def attributes(self) -> Attributes:
        """All its attributes as one value."""
        return self.batch.attributes[self._row]

    @property
    def deleted(self) -> bool:
        """Whether it deletes the row of its key in the state of the world."""
        return self.attributes.deleted

    @property
    def expires(self) -> datetime | None:
        """The time at which it expires, in UTC; None: never. It is given also when that is
        past."""
        return self.attributes.expires

    @property
    def stable(self) -> bool:
        """Whether it was stable when the store gave it, so that it is never withdrawn.

        Always true with delivered="stable".
        """
        return self.sequence <= self.batch.stable_upto

    @property
    def bookmark(self) -> Bookmark:
        """The place of the message, for another subscription to begin right behind it."""
        return Bookmark(self.batch.source, self.batch.epoch, self.sequence)

    @property
    def conflated(self) -> int:
        """The number of messages that it stands for: more than 1 only with conflation."""
        return 1

    def consumed(self) -> None:
        """Count this message as consumed; in any order.

        The bookmark store keeps the position before the first message that is not consumed. A
        subscription that begins there, at MOST_RECENT, is given that message, and those behind it.
        Without a bookmark store nothing is kept.
        """
        if self.batch.taken is not None:
            self.batch.taken.note(self._row)

    def __repr__(self) -> str:
        return f"<ReplayedMessage {self.bookmark} {len(self.payload)} bytes>"


class ConflatedMessage(ReplayedMessage):
    """The newest message of a key within a window. It stands for the others of the window."""

    __slots__ = ("_conflated",)

    def __init__(self, conflated: Conflated[ReplayedMessage]) -> None:
        """Make a message of the newest one. Applications get them from a subscriber."""
        newest = conflated.newest
        super().__init__(newest.batch, newest._row, newest.sequence, newest.payload)
        self._conflated = conflated

    @property
    def bookmark(self) -> Bookmark:
        """The place of the first message that it stands for.

        A subscription that begins there is given the newest one again.
        """
        return self._conflated.bookmark

    @property
    def conflated(self) -> int:
        """The number of messages that it stands for."""
        return self._conflated.count

    def consumed(self) -> None:
        """Count all messages that it stands for as consumed, as `ReplayedMessage.consumed` does.

        The position that is kept stays before a window until all that it gave is consumed.
        """
        self._conflated.consumed()


class _OneMessage(ReplayedBatch):
    """A batch of one message, which keeps no other one of its batch in memory."""

    __slots__ = ()

    def __init__(self, message: ReplayedMessage) -> None:
        batch = message.batch
        self.source, self.epoch, self.timestamp_ns = batch.source, batch.epoch, batch.timestamp_ns
        self.numbers, self.payloads = (message.sequence,), (message.payload,)
        self._keys, self._properties = (message.key,), (message.properties,)
        self._times, self._attributes = (message.timestamp_ns,), (message.attributes,)
        self.stable_upto = batch.stable_upto
        self.before, self.taken = NO_PLACE, None


def alone(message: ReplayedMessage) -> ReplayedMessage:
    """Return the message without its batch."""
    return ReplayedMessage(_OneMessage(message), 0, message.sequence, message.payload)


@dataclass(frozen=True, slots=True)
class Completed:
    """The end of history: the messages that follow came after the subscription began.

    A subscription with an end yields it as its last item, once all up to the end was given.
    """

    position: Position
    """The position behind all that was given."""


class GapCause(enum.Enum):
    """The reason why messages cannot be given."""

    RELEASED = "released"
    """Retention let them go."""
    LOST = "lost"
    """An operator accepted their loss."""
    POISONED = "poisoned"
    """An operator marked them as poison: they must not be delivered."""
    NOT_ARCHIVED = "not_archived"
    """The archive lacks them: they were lost, or let go, before the others were archived."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that no store can give, and no archive that the subscription has."""

    source: SourceName
    first: int
    last: int
    cause: GapCause


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Messages that were given and are void: a later epoch did not keep them.

    Their numbers may come again, with other content.
    """

    source: SourceName
    first: int
    last: int
    place: Place
    """The place where the subscription goes on."""


Notice = Completed | Gap | Withdrawn
"""An item that is no message."""
Item = ReplayedMessage | Notice
"""An item that a subscription yields."""
