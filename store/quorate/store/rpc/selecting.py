"""The filter of a subscription, applied to parts of batches. It runs away from the event loop."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import passing
from quorate.protocol.framing import BatchHeader, body_of, encode_batch
from quorate.protocol.ranges import Range


@dataclass(frozen=True, slots=True)
class Chosen:
    """The messages of a batch that pass, as a batch without the others."""

    batch: bytes
    offsets: list[int]
    """The number of each, less that of the first."""


def choose(where: Filter, header: BatchHeader, frame: bytes, part: Range) -> Chosen | None:
    """Return the messages of a part of a batch that pass; None: no message does.

    Raises CorruptBatch.
    """
    body = body_of(frame, header)
    payloads = body.read_payloads()
    rows = passing(where, header, payloads, body, part.first, part.last)
    if not rows:
        return None
    attributes = body.read_attributes()
    batch = encode_batch(
        header.source,
        header.epoch,
        header.first + rows[0],
        [payloads[row] for row in rows],
        header.timestamp_ns,
        b"",
        [attributes[row] for row in rows] if attributes else (),
    )
    return Chosen(batch, [row - rows[0] for row in rows])
