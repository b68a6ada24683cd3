"""Batches on the wire and on the disk: a header with a checksum, topic, marker, the messages.

The source makes a batch once. Stores and live streams pass its bytes on as they are; only a
receiver takes the messages out. The body has the messages in columns: quorate.protocol.columns.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import google_crc32c

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.columns import Body, pack
from quorate.protocol.compression import compress, decompress
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import BATCH_MESSAGES_MAX, WHOLE_BATCH_BYTES_MAX
from quorate.protocol.times import times_of

# The fields in their order:
# - magic, crc32c of everything after these two;
# - session ID, epoch, first sequence number, number of messages;
# - the least time of its messages, in ns since 1970;
# - bytes of the topic, of the marker, of the body. The highest bit of the last one says that the
#   body is compressed. It then begins with the bytes of the plain body.
_HEADER = struct.Struct("<4sIQQQIqHHI")
CHECKED_FROM = 8
"""The offset from which on a batch counts towards its checksum."""
_MAGIC = b"QRB2"
HEADER_BYTES = _HEADER.size
_U32 = struct.Struct("<I")
_EPOCH = struct.Struct("<Q")
_EPOCH_AT = 16
_BODY_BYTES_AT = HEADER_BYTES - _U32.size
_COMPRESSED = 1 << 31


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of a batch, as values."""

    source: SourceName
    epoch: int
    first: int
    """Sequence number of its first message."""
    last: int
    """Sequence number of its last message."""
    timestamp_ns: int
    """The least time of its messages, by the source's clock, ns since 1970 UTC."""
    checksum: int
    body_at: int
    """The offset of the body in the frame, in bytes."""
    marker: bytes = b""
    """The application marker, committed together with the last message (protocol.md 18)."""
    plain_bytes: int = 0
    """The bytes of the body, decompressed."""
    is_compressed: bool = False
    """Whether the body is compressed."""


def encode_batch(
    source: SourceName,
    epoch: int,
    first: int,
    payloads: Sequence[bytes],
    timestamp_ns: int,
    marker: bytes = b"",
    attributes: Sequence[Attributes] = (),
    later: Sequence[int] = (),
) -> bytes:
    """Return the frame of consecutive messages of a source in one epoch, at least one.

    - timestamp_ns, later: `Times` of the messages.
    - marker: the application marker of the last message, or empty.
    - attributes: those of each message; empty if no message has any.
    """
    assert len(attributes) in (0, len(payloads)), (len(attributes), len(payloads))
    assert len(later) in (0, len(payloads)), (len(later), len(payloads))
    body = pack(payloads, attributes, later)
    return framed(source, epoch, first, len(payloads), timestamp_ns, body, marker)


def framed(
    source: SourceName,
    epoch: int,
    first: int,
    count: int,
    timestamp_ns: int,
    body: bytes,
    marker: bytes = b"",
) -> bytes:
    """Return the frame of a body that is packed already. count: the number of its messages."""
    head = unchecked_head(source, epoch, first, count, timestamp_ns, marker, len(body))
    return checked_head(head, (body,)) + body


def head_bytes(source: SourceName) -> int:
    """Return the bytes of the head of a batch of this source without a marker."""
    return HEADER_BYTES + len(source.topic.encode())


def unchecked_head(
    source: SourceName,
    epoch: int,
    first: int,
    count: int,
    timestamp_ns: int,
    marker: bytes,
    body_bytes: int,
) -> bytes:
    """Return what a batch has between its checksum and its body."""
    topic = source.topic.encode()
    head = _HEADER.pack(
        _MAGIC,
        0,
        source.session_id,
        epoch,
        first,
        count,
        timestamp_ns,
        len(topic),
        len(marker),
        body_bytes,
    )
    return head[CHECKED_FROM:] + topic + marker


def checked_head(head: bytes, body: Iterable[bytes]) -> bytes:
    """Return the whole head of a batch: what `unchecked_head` made, behind magic and checksum.

    body: the parts of the body.
    """
    checksum = google_crc32c.value(head)
    for part in body:
        checksum = google_crc32c.extend(checksum, part)
    return b"".join((_MAGIC, checksum.to_bytes(4, "little"), head))


def read_header(frame: bytes, where: str = "on the wire", size: int | None = None) -> BatchHeader:
    """Return the header of a framed batch, without checking the checksum. Raises CorruptBatch.

    size: the bytes of the batch if `frame` is only its beginning, with the whole head.
    """
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
    is_compressed = body_bytes >= _COMPRESSED
    plain_bytes = body_bytes = body_bytes & ~_COMPRESSED
    if size is None:
        size = len(frame)
    if size != body_at + body_bytes:
        raise CorruptBatch(where, f"{size} bytes instead of {body_at + body_bytes}")
    if body_at > len(frame):
        raise CorruptBatch(where, f"its first fragment ends before byte {body_at}, in its head")
    if count == 0:
        raise CorruptBatch(where, "it has no messages")
    if is_compressed:
        plain_bytes = _plain_bytes(frame, body_at, body_bytes, where)
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
        plain_bytes,
        is_compressed,
    )


def first_of(frame: bytes) -> int:
    """Return the number of the first message of a checked batch."""
    first: int = _HEADER.unpack_from(frame)[4]
    return first


def _plain_bytes(frame: bytes, body_at: int, body_bytes: int, where: str) -> int:
    """Return the size of a compressed body, decompressed. Raises CorruptBatch if none may be so."""
    if body_bytes < _U32.size or len(frame) < body_at + _U32.size:
        raise CorruptBatch(where, "its compressed body does not name its size")
    plain_bytes: int = _U32.unpack_from(frame, body_at)[0]
    if not body_bytes < plain_bytes <= WHOLE_BATCH_BYTES_MAX - body_at:
        detail = f"its body of {body_bytes} bytes is said to be {plain_bytes:,} bytes, decompressed"
        raise CorruptBatch(where, detail)
    return plain_bytes


def compressed(frame: bytes) -> bytes:
    """Return a plain batch with its body compressed, or as it is if it would not become smaller."""
    header = read_header(frame)
    plain = frame[header.body_at :]
    body = _U32.pack(len(plain)) + compress(plain)
    if header.is_compressed or len(body) >= len(plain):
        return frame
    return _with_body(frame, header, body, len(body) | _COMPRESSED)


def plain(frame: bytes, header: BatchHeader) -> bytes:
    """Return a checked batch as it was before it was compressed. Raises CorruptBatch."""
    if not header.is_compressed:
        return frame
    body = _plain_body(frame, header)
    return _with_body(frame, header, body, len(body))


def _plain_body(frame: bytes, header: BatchHeader) -> bytes:
    if not header.is_compressed:
        return frame[header.body_at :]
    return decompress(frame[header.body_at + _U32.size :], header.plain_bytes)


def _with_body(frame: bytes, header: BatchHeader, body: bytes, body_bytes: int) -> bytes:
    head = b"".join(
        (
            frame[CHECKED_FROM:_BODY_BYTES_AT],
            _U32.pack(body_bytes),
            frame[HEADER_BYTES : header.body_at],
        )
    )
    return checked_head(head, (body,)) + body


def in_epoch(frame: bytes, epoch: int) -> bytes:
    """Return a checked batch as one of another epoch. The body stays as it is."""
    head = frame[CHECKED_FROM:_EPOCH_AT] + _EPOCH.pack(epoch)
    rest = frame[_EPOCH_AT + _EPOCH.size :]
    return checked_head(head, (rest,)) + rest


def check_batch(frame: bytes, where: str = "on the wire") -> BatchHeader:
    """Return the header of a framed batch after checking the checksum. Raises CorruptBatch."""
    header = read_header(frame, where)
    actual = google_crc32c.value(frame[CHECKED_FROM:])
    if actual != header.checksum:
        raise CorruptBatch(where, f"its checksum is {actual:#010x}, not {header.checksum:#010x}")
    return header


def body_of(frame: bytes, header: BatchHeader) -> Body:
    """Return the columns of a checked batch. Raises CorruptBatch."""
    count = header.last - header.first + 1
    if count > BATCH_MESSAGES_MAX:  # empty messages take no bytes that would bound them
        raise CorruptBatch("in memory", f"it has {count:,} messages, more than a batch may have")
    if not header.is_compressed:
        return Body(frame, header.body_at, count)
    return Body(_plain_body(frame, header), 0, count)


def greatest_time(frame: bytes, header: BatchHeader) -> int:
    """Return the greatest time of the messages of a checked batch, in ns since 1970.

    Raises CorruptBatch.
    """
    return max(body_of(frame, header).read_times(header.timestamp_ns))


def read_payloads(frame: bytes, header: BatchHeader) -> list[bytes]:
    """Return the payloads of a checked batch, in order. Raises CorruptBatch."""
    return body_of(frame, header).read_payloads()


def read_messages(frame: bytes, header: BatchHeader) -> tuple[list[bytes], list[Attributes] | None]:
    """Return payload and attributes of each message of a checked batch. Raises CorruptBatch.

    The attributes are None if no message has any.
    """
    body = body_of(frame, header)
    return body.read_payloads(), body.read_attributes()


def read_contents(
    frame: bytes, header: BatchHeader, first: int, last: int
) -> list[tuple[bytes, Attributes]]:
    """Return payload and attributes of the messages [first, last] of a checked batch."""
    payloads, attributes = read_messages(frame, header)
    part = slice(first - header.first, last - header.first + 1)
    if attributes is None:
        return [(payload, NO_ATTRIBUTES) for payload in payloads[part]]
    return list(zip(payloads[part], attributes[part], strict=True))


def cut(frame: bytes, header: BatchHeader, first: int, last: int, epoch: int) -> bytes:
    """Return the messages [first, last] of a checked batch as a batch of this epoch.

    The marker stays if the batch's last message does. A part of a compressed batch is plain. All
    else is unchanged.
    """
    if (first, last) == (header.first, header.last):
        return in_epoch(frame, epoch)
    body = body_of(frame, header)
    rows = range(first - header.first, last - header.first + 1)
    marker = header.marker if last == header.last else b""
    return rows_of(replace(header, epoch=epoch), body, rows, body.read_payloads_of(rows), marker)


def rows_of(
    header: BatchHeader,
    body: Body,
    rows: Sequence[int],
    payloads: Sequence[bytes],
    marker: bytes = b"",
) -> bytes:
    """Return messages of a batch as a batch of their own. Raises CorruptBatch.

    - rows: their places in the batch, rising. They get consecutive numbers.
    - payloads: those of these messages, or what stands for them.
    """
    times = body.read_times(header.timestamp_ns)
    timestamp_ns, later = times_of([times[row] for row in rows])
    return encode_batch(
        header.source,
        header.epoch,
        header.first + rows[0],
        payloads,
        timestamp_ns,
        marker,
        body.read_attributes_of(rows) or (),
        later,
    )


def same_content(frame: bytes, other: bytes) -> bool:
    """Return whether two checked batches agree on every number that both have, in any epochs."""
    if frame == other:
        return True
    one, two = read_header(frame), read_header(other)
    first, last = max(one.first, two.first), min(one.last, two.last)
    if first > last:
        return True
    return read_contents(frame, one, first, last) == read_contents(other, two, first, last)
