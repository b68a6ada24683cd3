"""Batches on the wire and on the disk: a header with a checksum, topic, marker, the messages.

Made once by the source; stores and live streams pass the bytes on as they are; only a receiver
takes the messages out. The body is the protobuf message quorate.v1.Messages. It is written here by
hand, because building it through protobuf costs five times as much a message, and read through
protobuf, which is faster than anything that Python could do. What keys and properties are is not
known here: a message's attributes are bytes like its payload.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import google_crc32c
from google.protobuf.message import DecodeError

from quorate.protocol.attributes import NO_ATTRIBUTES
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.fields import FIRST, SECOND
from quorate.protocol.identity import SourceName
from quorate.v1.messages_pb2 import Messages

# magic, crc32c of everything after it, session ID, epoch, first sequence number, number of
# messages, time in ns since 1970, length of the topic, of the marker, of the body
_HEADER = struct.Struct("<4sIQQQIqHHI")
_CHECKED_FROM = 8
_MAGIC = b"QRB1"
HEADER_BYTES = _HEADER.size

_PAYLOAD = FIRST
_ATTRIBUTES = SECOND
_ATTRIBUTES_TAG = SECOND.tag[0]


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """What a batch says of itself."""

    source: SourceName
    epoch: int
    first: int
    """Sequence number of its first message."""
    last: int
    """Sequence number of its last message."""
    timestamp_ns: int
    """When the source packed it, by the source's clock, ns since 1970 UTC."""
    checksum: int
    body_at: int
    """Where the body begins in the frame."""
    marker: bytes = b""
    """What the application committed together with the last message (DESIGN 4.5)."""


def encode_batch(
    source: SourceName,
    epoch: int,
    first: int,
    payloads: Sequence[bytes],
    timestamp_ns: int,
    marker: bytes = b"",
    attributes: Sequence[bytes] = (),
) -> bytes:
    """Frame consecutive messages of a source in one epoch; there must be at least one.

    marker: goes with the last of them; empty: none. attributes: of each message, encoded; or
    nothing if no message has any.
    """
    body = _PAYLOAD.repeated(payloads)
    if attributes:
        assert len(attributes) == len(payloads), (len(attributes), len(payloads))
        # The same messages are the same bytes, however they came to be a batch.
        if any(attributes):
            body = _ATTRIBUTES.repeated(attributes) + body
    topic = source.topic.encode()
    head = _HEADER.pack(
        _MAGIC,
        0,
        source.session_id,
        epoch,
        first,
        len(payloads),
        timestamp_ns,
        len(topic),
        len(marker),
        len(body),
    )
    head = head[_CHECKED_FROM:] + topic + marker
    checksum = google_crc32c.extend(google_crc32c.value(head), body)
    return b"".join((_MAGIC, checksum.to_bytes(4, "little"), head, body))


def read_header(frame: bytes, where: str = "on the wire") -> BatchHeader:
    """The header of a framed batch; raises CorruptBatch if it can not be one. Checks no content."""
    if len(frame) < HEADER_BYTES:
        raise CorruptBatch(where, f"{len(frame)} bytes are too few for a header")
    (
        magic,
        checksum,
        session_id,
        epoch,
        first,
        count,
        timestamp_ns,
        topic_bytes,
        marker_bytes,
        body_bytes,
    ) = _HEADER.unpack_from(frame)
    if magic != _MAGIC:
        raise CorruptBatch(where, "it does not begin like a batch")
    topic_ends = HEADER_BYTES + topic_bytes
    body_at = topic_ends + marker_bytes
    if len(frame) != body_at + body_bytes:
        raise CorruptBatch(where, f"{len(frame)} bytes instead of {body_at + body_bytes}")
    if count == 0:
        raise CorruptBatch(where, "it has no messages")
    try:
        topic = frame[HEADER_BYTES:topic_ends].decode()
    except UnicodeDecodeError:
        raise CorruptBatch(where, "its topic is not text") from None
    return BatchHeader(
        SourceName(topic, session_id),
        epoch,
        first,
        first + count - 1,
        timestamp_ns,
        checksum,
        body_at,
        frame[topic_ends:body_at],
    )


def check_batch(frame: bytes, where: str = "on the wire") -> BatchHeader:
    """The header of a framed batch whose checksum is right; raises CorruptBatch otherwise."""
    header = read_header(frame, where)
    actual = google_crc32c.value(frame[_CHECKED_FROM:])
    if actual != header.checksum:
        raise CorruptBatch(where, f"its checksum is {actual:#010x}, not {header.checksum:#010x}")
    return header


def has_attributes(frame: bytes, header: BatchHeader) -> bool:
    """Whether a message of the batch has a key or properties; looks at one byte."""
    return len(frame) > header.body_at and frame[header.body_at] == _ATTRIBUTES_TAG


def read_payloads(frame: bytes, header: BatchHeader) -> list[bytes]:
    """The payloads of a checked batch, in order."""
    return _read_body(frame, header).payload[:]


def read_messages(frame: bytes, header: BatchHeader) -> tuple[list[bytes], list[bytes] | None]:
    """The payloads of a checked batch, and the attributes of each message as their bytes.

    The second is None if no message has any. See quorate.protocol.attributes.
    """
    body = _read_body(frame, header)
    return body.payload[:], body.attributes[:] or None


def read_contents(
    frame: bytes, header: BatchHeader, first: int, last: int
) -> list[tuple[bytes, bytes]]:
    """All that the messages [first, last] of a checked batch are: payloads and attributes."""
    payloads, attributes = read_messages(frame, header)
    part = slice(first - header.first, last - header.first + 1)
    if attributes is None:
        return [(payload, NO_ATTRIBUTES) for payload in payloads[part]]
    return list(zip(payloads[part], attributes[part], strict=True))


def _read_body(frame: bytes, header: BatchHeader) -> Messages:
    try:
        body = Messages.FromString(frame[header.body_at :])
    except DecodeError:
        raise CorruptBatch("in memory", "its body is not a list of messages") from None
    count = header.last - header.first + 1
    if len(body.payload) != count:
        raise CorruptBatch(
            "in memory", f"it has {len(body.payload)} messages, not as many as it says"
        )
    if len(body.attributes) != (count if has_attributes(frame, header) else 0):
        raise CorruptBatch("in memory", "its attributes are not one for each message")
    return body


def cut(frame: bytes, header: BatchHeader, first: int, last: int, epoch: int) -> bytes:
    """The messages [first, last] of a checked batch as a batch of this epoch, else unchanged.

    The marker goes with the last message of its batch.
    """
    payloads, attributes = read_messages(frame, header)
    part = slice(first - header.first, last - header.first + 1)
    return encode_batch(
        header.source,
        epoch,
        first,
        payloads[part],
        header.timestamp_ns,
        header.marker if last == header.last else b"",
        attributes[part] if attributes else (),
    )


def same_content(frame: bytes, other: bytes) -> bool:
    """Whether two checked batches agree wherever their numbers overlap, whatever their epochs."""
    if frame == other:
        return True
    one, two = read_header(frame), read_header(other)
    first, last = max(one.first, two.first), min(one.last, two.last)
    if first > last:
        return True
    return read_contents(frame, one, first, last) == read_contents(other, two, first, last)
