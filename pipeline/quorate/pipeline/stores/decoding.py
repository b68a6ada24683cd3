"""Turning batches of messages into Arrow's batches of rows.

Every row that Spark reads pays for what is done here. Most streams have messages of one length;
these become rows without a Python object for each. Nothing here fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from quorate.protocol.answers import Piece
from quorate.protocol.attributes import Attributes, decode_attributes
from quorate.protocol.fields import FIRST
from quorate.protocol.framing import (
    has_attributes,
    plain,
    read_header,
    read_messages,
    read_payloads,
)

ROWS_MAX = 16_384
"""Most rows of a batch of rows, unless one batch of messages has more."""
BYTES_MAX = 4 * 1024 * 1024
"""A batch of rows is closed once its messages have more bytes than this."""


Builder = Callable[[list[Piece]], pa.Array]
"""Makes a column of consecutive pieces."""


def record_batches(
    pieces: Iterable[Piece], schema: pa.Schema, more: Mapping[str, Builder] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows with the columns of the schema, in the order of the pieces.

    The pieces may belong to several sources.
    more: builders of the columns that quorate.pipeline.schema does not have.
    Raises CorruptBatch.
    """
    known = {**_BUILDERS, **(more or {})}
    builders = [(field, known[field.name]) for field in schema]
    for group in _grouped(map(plain_piece, pieces)):
        columns = [build(group).cast(field.type) for field, build in builders]
        if columns:
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        else:
            yield _without_columns(sum(map(_count, group)))


def plain_piece(piece: Piece) -> Piece:
    """Return the piece with its batch as it was before it was compressed. Raises CorruptBatch."""
    if not piece.header.is_compressed:
        return piece
    frame = plain(piece.frame, piece.header)
    return Piece(frame, read_header(frame), piece.first, piece.last)


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.nulls(rows, pa.struct([])))


def _grouped(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    rows = size = 0
    for piece in pieces:
        if group and (rows + _count(piece) > ROWS_MAX or size > BYTES_MAX):
            yield group
            group, rows, size = [], 0, 0
        group.append(piece)
        rows += _count(piece)
        size += len(piece.frame)
    if group:
        yield group


def _count(piece: Piece) -> int:
    return piece.last - piece.first + 1


# Columns with one value for all messages of a batch.


def constant(value: Callable[[Piece], object], kind: pa.DataType) -> Builder:
    """Return the builder of a column with one value for all messages of a batch."""

    def build(group: list[Piece]) -> pa.Array:
        runs: list[tuple[object, int]] = []
        for piece in group:
            each, count = value(piece), _count(piece)
            if runs and runs[-1][0] == each:
                runs[-1] = (each, runs[-1][1] + count)
            else:
                runs.append((each, count))
        return _joined([pa.repeat(pa.scalar(each, kind), count) for each, count in runs])

    return build


def _joined(parts: list[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _sequences(group: list[Piece]) -> pa.Array:
    return _joined([pa.arange(piece.first, piece.last + 1) for piece in group])


# Attributes.


def _attributes(value: Callable[[Attributes], object], kind: pa.DataType) -> Builder:
    def build(group: list[Piece]) -> pa.Array:
        if not any(has_attributes(piece.frame, piece.header) for piece in group):
            return pa.nulls(sum(map(_count, group)), kind)
        return _joined([part(piece) for piece in group])

    def part(piece: Piece) -> pa.Array:
        _, attributes = read_messages(piece.frame, piece.header)
        if attributes is None:
            return pa.nulls(_count(piece), kind)
        begin = piece.first - piece.header.first
        wanted = attributes[begin : begin + _count(piece)]
        return pa.array([value(decode_attributes(each)) for each in wanted], kind)

    return build


def _pairs(attributes: Attributes) -> list[tuple[str, bytes]] | None:
    # pyarrow makes a map from pairs, not from a dict. protobuf has no order, so they are sorted.
    return sorted(attributes.properties.items()) or None


# Payloads.


def _payloads(group: list[Piece]) -> pa.Array:
    bodies: list[memoryview] = []
    strides = set()
    for piece in group:
        body = memoryview(piece.frame)[piece.header.body_at :]
        stride = _stride(body, piece.header.last - piece.header.first + 1)
        if stride == 0:
            return _joined([_read_one_by_one(each) for each in group])
        strides.add(stride)
        begin = (piece.first - piece.header.first) * stride
        bodies.append(body[begin : begin + _count(piece) * stride])
    if len(strides) == 1:
        return _cut(b"".join(bodies), strides.pop())
    return _joined(
        [
            _cut(bytes(body), len(body) // _count(piece))
            for body, piece in zip(bodies, group, strict=True)
        ]
    )


def _stride(body: memoryview, count: int) -> int:
    """Return the bytes of each message in a body, if all have one length and only a payload.

    Returns 0 otherwise.
    """
    stride, rest = divmod(len(body), count)
    if rest or stride < 2:
        return 0
    head = _head(stride)
    # Each message begins where the one before it ends. So equal heads at each stride prove it.
    if head and all(bytes(body[at::stride]) == byte * count for at, byte in enumerate(head)):
        return stride
    return 0


@lru_cache(maxsize=256)
def _head(stride: int) -> tuple[bytes, ...]:
    """Return the bytes before the payload, its tag and length, in a message of `stride` bytes."""
    for length_bytes in range(1, 5):
        length = stride - 1 - length_bytes
        if length >= 0 and len(prefix := FIRST.prefix(length)) == 1 + length_bytes:
            return tuple(bytes((each,)) for each in prefix)
    return ()


def _cut(body: bytes, stride: int) -> pa.Array:
    """Return the payloads of a body in which each message takes `stride` bytes."""
    count, skipped = len(body) // stride, len(_head(stride))
    length = stride - skipped
    if length == 0:
        return pa.repeat(pa.scalar(b""), count)
    whole = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(stride), count, [None, pa.py_buffer(body)]
    )
    payloads = pc.binary_slice(whole, skipped)
    offsets = pa.arange(0, (count + 1) * length, length).cast(pa.int32())
    return pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, offsets.buffers()[1], payloads.buffers()[1]]
    )


def _read_one_by_one(piece: Piece) -> pa.Array:
    payloads = read_payloads(piece.frame, piece.header)
    begin = piece.first - piece.header.first
    return pa.array(payloads[begin : begin + _count(piece)], pa.binary())


_BUILDERS: dict[str, Builder] = {
    "topic": constant(lambda piece: piece.header.source.topic, pa.string()),
    "source": constant(lambda piece: f"{piece.header.source.session_id:#x}", pa.string()),
    "sequence": _sequences,
    "epoch": constant(lambda piece: piece.header.epoch, pa.int64()),
    "timestamp": constant(
        lambda piece: piece.header.timestamp_ns // 1000, pa.timestamp("us", tz="UTC")
    ),
    "payload": _payloads,
    "key": _attributes(lambda attributes: attributes.key, pa.binary()),
    "properties": _attributes(_pairs, pa.map_(pa.string(), pa.binary())),
}
