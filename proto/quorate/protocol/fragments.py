"""Large batches: cut into fragments, checked fragment by fragment, and put together again.

A large batch has one message. It travels, and stores keep it, in fragments, so that no step takes
long and other streams go on between two of them. Nothing here knows who sends or keeps a fragment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

import google_crc32c

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.columns import Body, before_payloads
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import (
    CHECKED_FROM,
    BatchHeader,
    checked_head,
    read_header,
    same_content,
    unchecked_head,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import BATCH_BYTES_MAX, FRAGMENT_BYTES, WHOLE_BATCH_BYTES_MAX


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """A large batch in the memory of one who sends it, or who received all of it.

    Its parts are never joined on an event loop: that would hold the loop up for too long.
    """

    header: BatchHeader
    parts: tuple[bytes, ...]
    """Its bytes: first the head as a whole, then the body in any number of parts."""
    size: int
    """The bytes of all parts."""

    def __len__(self) -> int:
        return self.size

    def fragment(self, at: int) -> bytes:
        """Return the fragment at this offset."""
        return self._cut(at, min(at + FRAGMENT_BYTES, self.size))

    def joined(self) -> bytes:
        """Return all of it as one value. The call takes long; it is not for event loops."""
        return self._cut(0, self.size)

    def in_epoch(self, epoch: int) -> LargeBatch:
        """Return the batch as one of another epoch. The body is not copied."""
        header = self.header
        head, *body = self.parts
        unchecked = unchecked_head(
            header.source, epoch, header.first, 1, header.timestamp_ns, header.marker,
            self.size - len(head),
        )  # fmt: skip
        return _of_parts(checked_head(unchecked, body), *body)

    def message(self) -> tuple[bytes, Attributes]:
        """Return payload and attributes. The call takes long; it is not for event loops.

        Raises CorruptBatch.
        """
        body = self.columns()
        own = body.read_attributes()
        begin = body.payloads.at
        last = self.parts[-1]
        payload = last if len(last) == self.size - begin else self._cut(begin, self.size)
        return payload, own[0] if own else NO_ATTRIBUTES

    def columns(self) -> Body:
        """Return the columns before the payload; the payload may be missing in their data.

        Raises CorruptBatch.
        """
        payload = self.parts[-1] if len(self.parts) > 2 else b""
        return Body(self._cut(0, self.size - len(payload)), self.header.body_at, 1, self.size)

    def _cut(self, begin: int, end: int) -> bytes:
        # BytesIO grows without a copy, and a step of it copies no more than a fragment.
        joined = BytesIO()
        at = 0
        for part in self.parts:
            whole = memoryview(part)[max(begin - at, 0) : max(end - at, 0)]
            for step in range(0, len(whole), FRAGMENT_BYTES):
                joined.write(whole[step : step + FRAGMENT_BYTES])
            at += len(part)
        return joined.getvalue()


def fragment_count(size: int) -> int:
    """Return the number of fragments that so many bytes of a large batch have."""
    return -(-size // FRAGMENT_BYTES)


Batch = bytes | LargeBatch
"""A batch that is sent or that was received: framed as a whole, or a large one."""


def header_of(batch: Batch) -> BatchHeader:
    """Return the header of a batch, without checking the checksum. Raises CorruptBatch."""
    return batch.header if isinstance(batch, LargeBatch) else read_header(batch)


def same_messages(batch: Batch, other: Batch) -> bool:
    """Return whether two checked batches agree on every number that both have, in any epochs."""
    if isinstance(batch, LargeBatch) and isinstance(other, LargeBatch):
        return batch.header.first != other.header.first or _same_body(batch, other)
    if isinstance(batch, bytes) and isinstance(other, bytes):
        return same_content(batch, other)
    one, two = header_of(batch), header_of(other)
    return one.last < two.first or two.last < one.first


def _same_body(one: LargeBatch, two: LargeBatch) -> bool:
    body, *more = one.parts[1:]
    if more:
        # Both were made from a payload, or the other is one body.
        two, one = one, two
        body, *more = one.parts[1:]
    if more:
        return one.parts[1:] == two.parts[1:]
    at = 0
    for part in two.parts[1:]:
        if not body.startswith(part, at):  # compares without a copy
            return False
        at += len(part)
    return at == len(body)


def encode_large(
    source: SourceName,
    epoch: int,
    first: int,
    payload: bytes,
    timestamp_ns: int,
    attributes: Attributes = NO_ATTRIBUTES,
) -> LargeBatch:
    """Return the batch of one message that is too large for a frame. The payload is not copied."""
    before = b"".join(before_payloads([len(payload)], [attributes]))
    body_bytes = len(before) + len(payload)
    head = unchecked_head(source, epoch, first, 1, timestamp_ns, b"", body_bytes)
    return _of_parts(checked_head(head, (before, payload)), before, payload)


def encode_alone(
    source: SourceName,
    epoch: int,
    first: int,
    payload: bytes,
    timestamp_ns: int,
    attributes: Attributes = NO_ATTRIBUTES,
) -> Batch:
    """Return the batch of one message above the usual size: large, if it is too large for a
    frame."""
    batch = encode_large(source, epoch, first, payload, timestamp_ns, attributes)
    return batch if batch.size > WHOLE_BATCH_BYTES_MAX else batch.joined()


def _of_parts(head: bytes, *body: bytes) -> LargeBatch:
    size = len(head) + sum(map(len, body))
    return LargeBatch(read_header(head, size=size), (head, *body), size)


def split(frame: bytes) -> LargeBatch:
    """Return a framed batch above the size of whole batches as a large batch.

    The call takes long; it is not for event loops. Raises CorruptBatch.
    """
    assembly = Assembly("in memory")
    for at in range(0, len(frame), FRAGMENT_BYTES):
        assembly.take(at, len(frame), frame[at : at + FRAGMENT_BYTES])
    return assembly.batch()


class FragmentReading:
    """Check the fragments of one large batch, as they come, and keep none of them."""

    __slots__ = ("_checksum", "_header", "_where", "at", "size")

    def __init__(self, where: str) -> None:
        """where: the place that the fragments come from, for errors."""
        self._where = where
        self._header: BatchHeader | None = None
        self._checksum = 0
        self.at = 0
        """The offset of the next fragment: so many bytes have come."""
        self.size = 0
        """The bytes of the batch; 0: no fragment has come."""

    @property
    def header(self) -> BatchHeader:
        """The header of the batch. Its checksum is proven once the batch is whole."""
        assert self._header is not None, "no fragment has come"
        return self._header

    @property
    def is_whole(self) -> bool:
        """Whether all fragments have come, so that the checksum is proven."""
        return 0 < self.size == self.at

    def take(self, at: int, size: int, data: bytes) -> None:
        """Check the next fragment. at: its offset; size: the bytes of the batch.

        Raises CorruptBatch. The reading is then of no further use.
        """
        if at != self.at or (at and size != self.size):
            raise CorruptBatch(
                self._where,
                f"the fragment at {at:,} of {size:,} comes where the one at {self.at:,} of "
                f"{self.size:,} is due",
            )
        if not at:
            self._begin(size, data)
        if len(data) != min(FRAGMENT_BYTES, size - at):
            raise CorruptBatch(self._where, f"the fragment at {at:,} has {len(data):,} bytes")
        checked = data if at else data[CHECKED_FROM:]
        self._checksum = google_crc32c.extend(self._checksum, checked)
        self.at = at + len(data)
        if self.at == size and self._checksum != self.header.checksum:
            raise CorruptBatch(
                self._where,
                f"its checksum is {self._checksum:#010x}, not {self.header.checksum:#010x}",
            )

    def _begin(self, size: int, data: bytes) -> None:
        if not WHOLE_BATCH_BYTES_MAX < size <= BATCH_BYTES_MAX:
            raise CorruptBatch(self._where, f"a batch of {size:,} bytes has no fragments")
        header = read_header(data, self._where, size)
        if header.first != header.last or header.is_compressed:
            raise CorruptBatch(self._where, "a large batch has one message, not compressed")
        self._header, self.size = header, size


class Assembly(FragmentReading):
    """Put the fragments of one large batch together in memory.

    Memory grows with what came, not with what was announced. The payload is a part of its own, so
    that it is not copied again, unless the attributes fill the first fragment.
    """

    __slots__ = ("_before", "_body", "_head")

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._head = self._before = b""
        self._body = BytesIO()

    def take(self, at: int, size: int, data: bytes) -> None:
        super().take(at, size, data)
        if not at:
            body_at = self.header.body_at
            payload_at = _payload_at(data, body_at, size)
            self._head, self._before = data[:body_at], data[body_at:payload_at]
            data = data[payload_at:]
        self._body.write(data)

    def batch(self) -> LargeBatch:
        """Return the batch, which must be whole."""
        assert self.is_whole, (self.at, self.size)
        before = (self._before,) if self._before else ()
        return LargeBatch(self.header, (self._head, *before, self._body.getvalue()), self.size)


def _payload_at(fragment: bytes, body_at: int, size: int) -> int:
    """Return where the payload begins; body_at: not in this fragment, which is the first."""
    try:
        return Body(fragment, body_at, 1, size).payloads.at
    except CorruptBatch:
        return body_at  # the reader of the message says so


def fragments_of(batch: LargeBatch) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each fragment, in order."""
    for at in range(0, batch.size, FRAGMENT_BYTES):
        yield at, batch.fragment(at)
