"""A message as a stopped store has it, for the commands that read a data directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quorate.console.commands.receive import content, origin
from quorate.protocol.identity import SourceName

if TYPE_CHECKING:
    from quorate.protocol.attributes import Attributes
    from quorate.store.storage.reader import StoredBatch


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a batch."""

    source: SourceName
    sequence: int
    epoch: int
    """The epoch in which the message was sent."""
    timestamp_ns: int
    payload: bytes
    attributes: Attributes

    def as_object(self) -> dict[str, Any]:
        """Return all fields, for programs."""
        row = origin(self.source, self.sequence, self.epoch, self.timestamp_ns)
        return row | content(self.attributes, self.payload)


def messages_of(source: SourceName, batch: StoredBatch) -> list[StoredMessage]:
    """Return the messages of a batch that can be read."""
    from quorate.protocol.framing import body_of, read_contents, read_header

    part, frame = batch.part, batch.frame
    header = read_header(frame)
    contents = read_contents(frame, header, part.first, part.last)
    times = body_of(frame, header).read_times(header.timestamp_ns)[part.first - header.first :]
    return [
        StoredMessage(source, sequence, header.epoch, time_ns, payload, attributes)
        for sequence, (time_ns, (payload, attributes)) in enumerate(
            zip(times, contents, strict=False), part.first
        )
    ]
