"""The rows of an archive's files, made from batches.

A row has the columns that Spark reads, and more columns to make the source's batches again, byte
for byte, as quorate.archive.batches does. Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from quorate.pipeline import schema as read_schema
from quorate.pipeline.stores.decoding import (
    constant,
    expiries,
    plain_piece,
    record_batches,
    times,
)
from quorate.protocol.answers import Piece
from quorate.protocol.framing import cut, read_header

SCHEMA = pa.schema(
    [
        *(each for each in read_schema.ARROW if each.name != "topic"),
        pa.field("timestamp_ns", pa.int64(), nullable=False),
        pa.field("expires_ns", pa.int64()),
        pa.field("batch_first", pa.int64(), nullable=False),
        pa.field("batch_checksum", pa.int64(), nullable=False),
        pa.field("marker", pa.binary()),
    ]
)
"""The columns of a file: those that Spark reads but the topic, and these:

- timestamp_ns: the time of the message, in ns since 1970.
- expires_ns: the time at which it expires, in ns since 1970.
- batch_first: the number of the first message of the batch.
- batch_checksum: the crc32c of the batch.
- marker: on the last message of a batch, the marker that the application committed with it.
"""

TABLE = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        *SCHEMA,
        pa.field("day", pa.date32(), nullable=False),
    ]
)
"""The columns of the table: those of a file, and the two by which files are apart.

- day: the day of the first message of the batch, in UTC.
"""

REPEATED = ("source", "epoch", "batch_first", "batch_checksum")
"""Columns with one value for all messages of a batch."""

RISING = ("sequence", "timestamp", "timestamp_ns")
"""Columns whose values are a little higher from message to message, or the same."""


def whole(piece: Piece) -> Piece:
    """Return the piece as a whole, plain batch, cutting its batch if it has other messages, too.

    A file compresses rows better than a source does, and a batch is made again from its rows.
    """
    piece = plain_piece(piece)
    header = piece.header
    if (piece.first, piece.last) == (header.first, header.last):
        return piece
    frame = cut(piece.frame, header, piece.first, piece.last, header.epoch)
    return Piece(frame, read_header(frame), piece.first, piece.last)


def rows_of(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of whole batches. Raises CorruptBatch."""
    return record_batches(pieces, SCHEMA, _MORE)


def _markers(group: list[Piece]) -> pa.Array:
    if not any(piece.header.marker for piece in group):
        return pa.nulls(sum(piece.last - piece.first + 1 for piece in group), pa.binary())
    markers: list[bytes | None] = []
    for piece in group:
        markers += [None] * (piece.last - piece.first)
        markers.append(piece.header.marker or None)
    return pa.array(markers, pa.binary())


_MORE = {
    "timestamp_ns": times,
    "expires_ns": expiries,
    "batch_first": constant(lambda piece: piece.header.first, pa.int64()),
    "batch_checksum": constant(lambda piece: piece.header.checksum, pa.int64()),
    "marker": _markers,
}
