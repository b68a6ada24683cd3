"""All that a message of the simulated world is, as one value: its payload and its attributes.

What stores hold, sources send and receivers are handed is compared by this.
"""

from __future__ import annotations

from quorate.protocol.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    checked_attributes,
    encode_attributes,
)
from quorate.protocol.framing import BatchHeader, read_messages
from quorate.receiver.message import DeliveredBatch


def content(payload: bytes, attributes: Attributes) -> bytes:
    encoded = encode_attributes(attributes)
    return payload + b" with " + encoded if encoded else payload


def contents_of(frame: bytes, header: BatchHeader) -> list[bytes]:
    """Those of a checked batch, in order."""
    payloads, attributes = read_messages(frame, header)
    if attributes is None:
        return payloads
    return [content(*each) for each in zip(payloads, attributes, strict=True)]


def handed(batch: DeliveredBatch) -> list[bytes]:
    """The same of what an application was handed, as it reads it."""
    numbers = range(batch.first, batch.last + 1)
    return [
        content(payload, batch.attributes_of(sequence))
        for sequence, payload in zip(numbers, batch.payloads, strict=True)
    ]


def attributes_for(number: int) -> Attributes:
    """What a source that sends attributes gives its message of that number: of every three one has
    none, and one a key alone."""
    match number % 3:
        case 0:
            return NO_ATTRIBUTES
        case 1:
            return checked_attributes(f"key {number % 5}".encode())
        case _:
            return checked_attributes(b"", {"name": b"\0value", "number": str(number).encode()})
