"""The values that an application receives: messages, their batches, their acknowledgements.

No I/O. The hot path makes one object for each message; the batch keeps what its messages share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from typing import TypeVar

from quorate.protocol.attributes import Attributes
from quorate.protocol.bookmarks import Bookmark
from quorate.protocol.columns import Body
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.fragments import LargeBatch
from quorate.protocol.framing import body_of, cut, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.times import moment_of
from quorate.receiver.protocol.consumed import Consumption
from quorate.receiver.protocol.selecting import select
from quorate.receiver.protocol.stream import BatchPart

Value = TypeVar("Value")


class MessageHandle:
    """A handle that acknowledges a message, or all of a batch. It keeps no payload in memory."""

    __slots__ = ("_first", "_progress", "epoch", "sequence", "source")

    source: SourceName
    """The source that sent the message."""
    epoch: int
    """The source's epoch under which the message belongs to the stream."""
    sequence: int
    """The sequence number of the message, or of the last message of the batch."""

    def __init__(self, batch: DeliveredBatch, first: int, last: int) -> None:
        """Make a handle of these messages. Applications use `Message.handle`."""
        self.source = batch.source
        self.epoch = batch.epoch
        self.sequence = last
        self._first = first
        self._progress = batch._progress

    def acknowledge(self, *, all_before: bool = False) -> None:
        """Acknowledge as `Message.acknowledge` does."""
        _acknowledge(self._progress, self._first, self.sequence, all_before)

    def __repr__(self) -> str:
        return f"<MessageHandle {self.source} {self.sequence}>"


class DeliveredBatch:
    """Consecutive messages of one source in one epoch. A filter splits what a source packed."""

    __slots__ = (
        "_attributes", "_body", "_keys", "_payloads", "_piece", "_progress", "_properties",
        "_redeliver", "_taken", "_times", "attempt", "first", "last", "size",
    )  # fmt: skip

    first: int
    """The sequence number of its first message."""
    last: int
    """The sequence number of its last message."""
    size: int
    """The size in bytes, framing included."""
    _taken: int
    """The sequence number of the last message that the application took; first - 1: none yet."""
    _progress: Consumption
    """The count of what was consumed of this batch's source."""
    attempt: int
    """The number of times that the receiver has delivered it: 1, and one more after each nack."""

    def __init__(
        self,
        piece: BatchPart,
        progress: Consumption,
        redeliver: Callable[[DeliveredBatch, float], None],
        attempt: int = 1,
    ) -> None:
        """Make a batch. redeliver: delivers it again after so many seconds."""
        self.first = piece.first
        self.last = piece.last
        self.size = piece.size
        self._taken = piece.first - 1
        self._progress = progress
        self.attempt = attempt
        self._redeliver = redeliver
        self._piece = piece
        self._body: Body | None = None
        self._payloads: list[bytes] | None = None
        self._keys: list[bytes | None] | None = None
        self._properties: list[Mapping[str, bytes]] | None = None
        self._times: list[int] | None = None
        self._attributes: list[Attributes] | None = None

    @property
    def source(self) -> SourceName:
        """The source that sent it."""
        return self._piece.header.source

    @property
    def topic(self) -> str:
        """The topic of its source."""
        return self._piece.header.source.topic

    @property
    def epoch(self) -> int:
        """The source's epoch under which its messages belong to the stream."""
        return self._piece.header.epoch

    @property
    def timestamp_ns(self) -> int:
        """The least time of what the source packed together, by the source's clock: nanoseconds
        since 1970 UTC."""
        return self._piece.header.timestamp_ns

    @property
    def retransmitted(self) -> bool:
        """Whether it came from a store or from the source's retention, not from a live stream."""
        return self._piece.retransmitted

    @property
    def source_reg_id(self) -> int:
        """The RegID of the source at its stores; 0: its stores assigned different ones."""
        return self._progress.source_reg_id

    @property
    def payloads(self) -> list[bytes]:
        """The contents of its messages, in order."""
        payloads = self._payloads
        if payloads is None:
            frame = self._piece.frame
            if isinstance(frame, LargeBatch):
                payloads = [frame.message()[0]]
            else:
                payloads = self._own(self._columns().read_payloads())
            self._payloads = payloads
        return payloads

    def attributes_of(self, sequence: int) -> Attributes:
        """Return the attributes of one of its messages."""
        attributes = self._attributes
        if attributes is None:
            attributes = self._attributes = self._own(self._columns().read_every_attributes())
        own = attributes[sequence - self.first]
        return own._replace(properties=dict(own.properties))  # an application may change it

    def _time_of(self, sequence: int) -> int:
        times = self._times
        if times is None:
            header = self._piece.header
            times = self._times = self._own(self._columns().read_times(header.timestamp_ns))
        return times[sequence - self.first]

    def _key_of(self, sequence: int) -> bytes | None:
        keys = self._keys
        if keys is None:
            keys = self._keys = self._own(self._columns().read_keys())
        return keys[sequence - self.first]

    def _properties_of(self, sequence: int) -> Mapping[str, bytes]:
        properties = self._properties
        if properties is None:
            properties = self._properties = self._own(self._columns().read_properties())
        return dict(properties[sequence - self.first])  # an application may change it

    def _columns(self) -> Body:
        """Return the columns of the batch, which may have more messages than this part."""
        body = self._body
        if body is None:
            frame = self._piece.frame
            if isinstance(frame, LargeBatch):
                body = frame.columns()
            else:
                body = body_of(frame, self._piece.header)
            self._body = body
        return body

    def _own(self, values: Sequence[Value]) -> list[Value]:
        """Return the values of this part."""
        first = self._piece.header.first
        return list(values[self.first - first : self.last - first + 1])

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"<DeliveredBatch {self.source} [{self.first}, {self.last}] epoch {self.epoch}>"

    def messages(self) -> Iterator[Message]:
        """Yield its messages in order. Each message is made when it is taken."""
        return self._messages_of(self.payloads)

    def _messages_of(self, payloads: list[bytes]) -> Iterator[Message]:
        """Yield its messages; payloads: its own, or a copy that ends the iteration when emptied."""
        return map(Message, repeat(self), range(self.first, self.last + 1), payloads)

    def acknowledge(self, *, all_before: bool = False) -> None:
        """Acknowledge all its messages, as `Message.acknowledge` does."""
        _acknowledge(self._progress, self.first, self.last, all_before)

    def nack(self, delay: float = 0.0) -> None:
        """Deliver all its messages again after `delay` seconds, as `Message.nack` does."""
        _nack(self, self.first, self.last, delay)

    def handle(self) -> MessageHandle:
        """Return a handle that acknowledges all its messages later."""
        return MessageHandle(self, self.first, self.last)

    def _passing(self, where: Filter, form: PayloadFormat) -> list[DeliveredBatch]:
        """Return the messages that pass, as batches. The others count as consumed from now on.

        form: the format of the payloads.
        """
        selection = select(where, form, self._piece)
        for each in selection.left_out:
            self._progress.skip(each.first, each.last)
        return [DeliveredBatch(each, self._progress, self._redeliver) for each in selection.kept]

    def _part(self, first: int, last: int) -> DeliveredBatch:
        """Return a batch with only these of its messages."""
        piece = self._piece
        part = BatchPart(first, last, piece.header, piece.frame, piece.retransmitted)
        return DeliveredBatch(part, self._progress, self._redeliver, self.attempt)


class Message:
    """A message."""

    __slots__ = ("batch", "payload", "sequence")

    batch: DeliveredBatch
    """The batch in which the message came."""
    sequence: int
    """The position in its source's stream: 0, 1, 2, …"""
    payload: bytes
    """The content."""

    def __init__(self, batch: DeliveredBatch, sequence: int, payload: bytes) -> None:
        self.batch = batch
        self.sequence = sequence
        self.payload = payload

    @property
    def key(self) -> bytes | None:
        """The key: what the message is about; None: it has no key."""
        return self.batch._key_of(self.sequence)

    @property
    def properties(self) -> Mapping[str, bytes]:
        """The properties, values by name; often none."""
        return self.batch._properties_of(self.sequence)

    @property
    def source(self) -> SourceName:
        """The source that sent it."""
        return self.batch.source

    @property
    def topic(self) -> str:
        """The topic of its source."""
        return self.batch.topic

    @property
    def epoch(self) -> int:
        """The source's epoch under which the message belongs to the stream."""
        return self.batch.epoch

    @property
    def bookmark(self) -> Bookmark:
        """The place of the message, for a subscription or a query that must have it."""
        return Bookmark(self.batch.source, self.batch.epoch, self.sequence)

    @property
    def timestamp_ns(self) -> int:
        """The time at which it was sent, by the source's clock: nanoseconds since 1970 UTC."""
        return self.batch._time_of(self.sequence)

    @property
    def time(self) -> datetime:
        """The time at which it was sent, by the source's clock, in UTC."""
        return moment_of(self.timestamp_ns)

    @property
    def deleted(self) -> bool:
        """Whether it deletes the row of its key in the state of the world."""
        return self.batch.attributes_of(self.sequence).deleted

    @property
    def expires(self) -> datetime | None:
        """The time at which it expires, in UTC; None: never. It is delivered also when that is
        past."""
        return self.batch.attributes_of(self.sequence).expires

    @property
    def retransmitted(self) -> bool:
        """Whether it came from a store or from the source's retention, not from a live stream."""
        return self.batch.retransmitted

    @property
    def source_reg_id(self) -> int:
        """The RegID of the source at its stores; 0: its stores assigned different ones."""
        return self.batch.source_reg_id

    @property
    def replaces_withdrawn(self) -> bool:
        """Whether this receiver delivered another message with this number before, which is void.

        Only delivery="live" delivers a message that may be withdrawn: see `Withdrawn`. The content
        may be the same or not. An earlier receiver with this session ID does not count.
        """
        return self.sequence in self.batch._progress.replaced

    @property
    def attempt(self) -> int:
        """The number of times that this receiver has delivered it: 1, and one more after each
        nack."""
        return self.batch.attempt

    def acknowledge(self, *, all_before: bool = False) -> None:
        """Acknowledge this message; in any order, from any thread.

        all_before: acknowledge every message of its source before it, too.

        With acknowledge="automatic" the receiver does this by itself. It tells the stores within
        options.acknowledge_interval, once the message is stable. It tells them the highest number
        with all messages before it acknowledged. `Receiver.flush` waits for that. A receiver that
        is closed or was fenced tells no more.
        """
        _acknowledge(self.batch._progress, self.sequence, self.sequence, all_before)

    def nack(self, delay: float = 0.0) -> None:
        """Deliver this message again after `delay` seconds; from any thread.

        It is not acknowledged, so the position stays before it. It comes again out of order, to
        this receiver, with a higher `attempt`. A message that was acknowledged or withdrawn
        meanwhile does not come again. Raises InvalidArgument if the delay is not a finite number
        of seconds, or with acknowledge="automatic".
        """
        _nack(self.batch, self.sequence, self.sequence, delay)

    def handle(self) -> MessageHandle:
        """Return a handle that acknowledges the message later. It keeps no payload in memory."""
        return MessageHandle(self.batch, self.sequence, self.sequence)

    def __repr__(self) -> str:
        return f"<Message {self.source} {self.sequence} {len(self.payload)} bytes>"


def _acknowledge(progress: Consumption, first: int, last: int, all_before: bool) -> None:
    if all_before:
        progress.consumed_through(last)
    else:
        for sequence in range(first, last + 1):
            progress.consumed(sequence)


def _nack(batch: DeliveredBatch, first: int, last: int, delay: float) -> None:
    """Deliver these messages again. A copy waits, so that one message keeps no batch in memory."""
    piece, redeliver = batch._piece, batch._redeliver
    header, frame = piece.header, piece.frame
    if (first, last) != (header.first, header.last):
        assert isinstance(frame, bytes)  # a large batch has one message
        frame = cut(frame, header, first, last, header.epoch)
        header = read_header(frame)
    again = BatchPart(first, last, header, frame, piece.retransmitted)
    redeliver(DeliveredBatch(again, batch._progress, redeliver, batch.attempt + 1), delay)
