"""The values that an application receives: messages, their batches, their acknowledgements.

No I/O. The hot path makes one object for each message; the batch keeps what its messages share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import NamedTuple

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, decode_attributes
from quorate.protocol.framing import read_messages
from quorate.protocol.identity import SourceName
from quorate.receiver.protocol.consumed import Consumption
from quorate.receiver.protocol.stream import BatchPart


class Acknowledgement(NamedTuple):
    """A handle that acknowledges a message. It keeps no payload in memory."""

    source: SourceName
    epoch: int
    sequence: int
    progress: Consumption


class DeliveredBatch:
    """Consecutive messages of one source in one epoch."""

    __slots__ = ("_attributes", "_payloads", "_piece", "first", "last", "progress", "size", "taken")

    first: int
    """The sequence number of its first message."""
    last: int
    """The sequence number of its last message."""
    size: int
    """The size in bytes, framing included."""
    taken: int
    """The sequence number of the last message that the application took; first - 1: none yet."""
    progress: Consumption
    """The count of what was consumed of this batch's source."""

    def __init__(self, piece: BatchPart, progress: Consumption) -> None:
        self.first = piece.first
        self.last = piece.last
        self.size = piece.size
        self.taken = piece.first - 1
        self.progress = progress
        self._piece = piece
        self._payloads: list[bytes] | None = None
        self._attributes: list[bytes] | None = None

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
        """The time at which the source packed it, by the source's clock: nanoseconds since 1970
        UTC."""
        return self._piece.header.timestamp_ns

    @property
    def retransmitted(self) -> bool:
        """Whether it came from a store or from the source's retention, not from a live stream."""
        return self._piece.retransmitted

    @property
    def source_reg_id(self) -> int:
        """The RegID of the source at its stores; 0: its stores assigned different ones."""
        return self.progress.source_reg_id

    @property
    def payloads(self) -> list[bytes]:
        """The contents of its messages, in order."""
        payloads = self._payloads
        return self._read()[0] if payloads is None else payloads

    def _read(self) -> tuple[list[bytes], list[bytes] | None]:
        header = self._piece.header
        payloads, attributes = read_messages(self._piece.frame, header)
        if self.first > header.first or self.last < header.last:
            part = slice(self.first - header.first, self.last - header.first + 1)
            payloads = payloads[part]
            attributes = attributes and attributes[part]
        # The order of these two matters: another thread may read as soon as the payloads are set.
        self._attributes = attributes
        self._payloads = payloads
        return payloads, attributes

    def attributes_of(self, sequence: int) -> Attributes:
        """Return key and properties of one of its messages. Each call decodes them."""
        attributes = self._attributes if self._payloads is not None else self._read()[1]
        return decode_attributes(attributes[sequence - self.first] if attributes else NO_ATTRIBUTES)

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"<DeliveredBatch {self.source} [{self.first}, {self.last}] epoch {self.epoch}>"

    def messages(self) -> Iterator[Message]:
        """Yield its messages in order. Each message is made when it is taken."""
        return map(Message, repeat(self), range(self.first, self.last + 1), self.payloads)

    def consumed(self) -> None:
        """Mark all its messages as consumed; from any thread, in any order of the batches."""
        for sequence in range(self.first, self.last + 1):
            self.progress.consumed(sequence)

    def acknowledgement(self) -> Acknowledgement:
        """Return a handle that acknowledges its last message and every message before."""
        return Acknowledgement(self.source, self.epoch, self.last, self.progress)

    def part(self, first: int, last: int) -> DeliveredBatch:
        """Return a batch with only these of its messages."""
        piece = self._piece
        return DeliveredBatch(
            BatchPart(first, last, piece.header, piece.frame, piece.retransmitted), self.progress
        )


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
        """The key: what the message is about; None: it has no key. Each access decodes it."""
        return self.batch.attributes_of(self.sequence).key

    @property
    def properties(self) -> Mapping[str, bytes]:
        """The properties, values by name; often none. Each access decodes them."""
        return self.batch.attributes_of(self.sequence).properties

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
    def timestamp_ns(self) -> int:
        """The time at which the source packed it, by the source's clock: nanoseconds since 1970
        UTC."""
        return self.batch.timestamp_ns

    @property
    def retransmitted(self) -> bool:
        """Whether it came from a store or from the source's retention, not from a live stream."""
        return self.batch.retransmitted

    @property
    def source_reg_id(self) -> int:
        """The RegID of the source at its stores; 0: its stores assigned different ones."""
        return self.batch.source_reg_id

    def consumed(self) -> None:
        """Mark this message as consumed, in mode "batched"; in any order, from any thread.

        The receiver acknowledges up to the highest number with all messages before it consumed.
        """
        self.batch.progress.consumed(self.sequence)

    def acknowledgement(self) -> Acknowledgement:
        """Return a handle for Receiver.acknowledge. It keeps no payload in memory."""
        return Acknowledgement(self.source, self.epoch, self.sequence, self.batch.progress)

    def __repr__(self) -> str:
        return f"<Message {self.source} {self.sequence} {len(self.payload)} bytes>"
