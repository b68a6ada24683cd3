"""What an application is handed: messages, the batches they come in, and their acknowledgements.

No I/O. One object a message is all that the hot path pays: everything that the messages of a batch
have in common is looked up in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import NamedTuple

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, decode_attributes
from quorate.protocol.framing import read_messages
from quorate.protocol.identity import SourceName
from quorate.receiver.protocol.consumed import Progress
from quorate.receiver.protocol.stream import Piece


class Acknowledgement(NamedTuple):
    """Stands for a message when it is acknowledged; keeps no payload alive."""

    source: SourceName
    epoch: int
    sequence: int
    progress: Progress


class DeliveredBatch:
    """Consecutive messages of one source in one epoch."""

    __slots__ = ("_attributes", "_payloads", "_piece", "first", "last", "progress", "size", "taken")

    first: int
    """Sequence number of its first message."""
    last: int
    """Sequence number of its last message."""
    size: int
    """Bytes, framing included."""
    taken: int
    """The last of its messages that the application took; first - 1 before any."""
    progress: Progress
    """Where the consumption of its messages is counted."""

    def __init__(self, piece: Piece, progress: Progress) -> None:
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
        return self._piece.header.source

    @property
    def topic(self) -> str:
        return self._piece.header.source.topic

    @property
    def epoch(self) -> int:
        return self._piece.header.epoch

    @property
    def timestamp_ns(self) -> int:
        """When the source packed it, by the source's clock, ns since 1970 UTC."""
        return self._piece.header.timestamp_ns

    @property
    def retransmitted(self) -> bool:
        """It was recovered from a store or from the source's retention; not from a live stream."""
        return self._piece.retransmitted

    @property
    def source_reg_id(self) -> int:
        """The RegID that the source has at its stores; 0 if they assigned different ones."""
        return self.progress.source_reg_id

    @property
    def payloads(self) -> list[bytes]:
        """The messages' contents, in order."""
        payloads = self._payloads
        return self._read()[0] if payloads is None else payloads

    def _read(self) -> tuple[list[bytes], list[bytes] | None]:
        header = self._piece.header
        payloads, attributes = read_messages(self._piece.frame, header)
        if self.first > header.first or self.last < header.last:
            part = slice(self.first - header.first, self.last - header.first + 1)
            payloads = payloads[part]
            attributes = attributes and attributes[part]
        # In this order: another thread takes them for read once the payloads are there.
        self._attributes = attributes
        self._payloads = payloads
        return payloads, attributes

    def attributes_of(self, sequence: int) -> Attributes:
        """Key and properties of one of its messages, decoded at each call."""
        attributes = self._attributes if self._payloads is not None else self._read()[1]
        return decode_attributes(attributes[sequence - self.first] if attributes else NO_ATTRIBUTES)

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"<DeliveredBatch {self.source} [{self.first}, {self.last}] epoch {self.epoch}>"

    def messages(self) -> Iterator[Message]:
        """Its messages, in order, each made when it is taken."""
        return map(Message, repeat(self), range(self.first, self.last + 1), self.payloads)

    def consumed(self) -> None:
        """All its messages are done with; from any thread, in any order among batches."""
        for sequence in range(self.first, self.last + 1):
            self.progress.consumed(sequence)

    def acknowledgement(self) -> Acknowledgement:
        """What acknowledges its last message and everything before."""
        return Acknowledgement(self.source, self.epoch, self.last, self.progress)

    def part(self, first: int, last: int) -> DeliveredBatch:
        """The same with only these of its messages."""
        piece = self._piece
        return DeliveredBatch(
            Piece(first, last, piece.header, piece.frame, piece.retransmitted), self.progress
        )


class Message:
    """One message."""

    __slots__ = ("batch", "payload", "sequence")

    batch: DeliveredBatch
    """The batch it came in."""
    sequence: int
    """Its position in its source's stream: 0, 1, 2, …"""
    payload: bytes
    """Its content."""

    def __init__(self, batch: DeliveredBatch, sequence: int, payload: bytes) -> None:
        self.batch = batch
        self.sequence = sequence
        self.payload = payload

    @property
    def key(self) -> bytes | None:
        """What it is about; None if it was sent without. Decoded at each access."""
        return self.batch.attributes_of(self.sequence).key

    @property
    def properties(self) -> Mapping[str, bytes]:
        """What it was sent with besides, by name; often nothing. Decoded at each access."""
        return self.batch.attributes_of(self.sequence).properties

    @property
    def source(self) -> SourceName:
        """Who sent it."""
        return self.batch.source

    @property
    def topic(self) -> str:
        return self.batch.topic

    @property
    def epoch(self) -> int:
        """The source's registration generation in which it was first sent."""
        return self.batch.epoch

    @property
    def timestamp_ns(self) -> int:
        """When the source packed it, by the source's clock, ns since 1970 UTC."""
        return self.batch.timestamp_ns

    @property
    def retransmitted(self) -> bool:
        """It was recovered from a store or from the source's retention; not from a live stream."""
        return self.batch.retransmitted

    @property
    def source_reg_id(self) -> int:
        """The RegID that the source has at its stores; 0 if they assigned different ones."""
        return self.batch.source_reg_id

    def consumed(self) -> None:
        """Mode "batched": this message is done with; in any order, from any thread.

        Only the highest number with all before it consumed is acknowledged.
        """
        self.batch.progress.consumed(self.sequence)

    def acknowledgement(self) -> Acknowledgement:
        """A handle for Receiver.acknowledge that may be kept when the message is not."""
        return Acknowledgement(self.source, self.epoch, self.sequence, self.batch.progress)

    def __repr__(self) -> str:
        return f"<Message {self.source} {self.sequence} {len(self.payload)} bytes>"
