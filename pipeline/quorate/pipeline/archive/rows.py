"""The rows of an archive's files: made from batches, and turned back into batches.

A row has the columns that Spark reads, and more columns to make the source's batches again, byte
for byte. The checksum of each batch proves that it is the same. Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from quorate.pipeline import schema as read_schema
from quorate.pipeline.stores.decoding import (
    constant,
    plain_piece,
    record_batches,
)
from quorate.protocol.answers import Piece
from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import cut, encode_batch, read_header
from quorate.protocol.identity import SourceName

SCHEMA = pa.schema(
    [
        *read_schema.ARROW,
        pa.field("timestamp_ns", pa.int64(), nullable=False),
        pa.field("batch_first", pa.int64(), nullable=False),
        pa.field("batch_checksum", pa.int64(), nullable=False),
        pa.field("marker", pa.binary()),
    ]
)
"""The columns that Spark reads, and these:

- timestamp_ns: the time of the batch, in ns since 1970.
- batch_first: the number of the first message of the batch.
- batch_checksum: the crc32c of the batch.
- marker: on the last message of a batch, the marker that the application committed with it.
"""

REPEATED = (
    *("topic", "source", "epoch", "timestamp", "timestamp_ns", "batch_first", "batch_checksum"),
)
"""Columns with one value for all messages of a batch."""


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
    "timestamp_ns": constant(lambda piece: piece.header.timestamp_ns, pa.int64()),
    "batch_first": constant(lambda piece: piece.header.first, pa.int64()),
    "batch_checksum": constant(lambda piece: piece.header.checksum, pa.int64()),
    "marker": _markers,
}


# From rows to batches.


@dataclass(slots=True)
class _Open:
    """A batch whose rows have not all been read yet."""

    first: int
    epoch: int
    timestamp_ns: int
    checksum: int
    payloads: list[bytes] = field(default_factory=list)
    attributes: list[Attributes] = field(default_factory=list)
    marker: bytes = b""


def frames_of(rows: Iterable[pa.RecordBatch], source: SourceName, where: str) -> Iterator[bytes]:
    """Yield the batches from which these rows were made. The rows are of one source and in order.

    where: the place of the rows, for the error.
    Raises CorruptBatch if the checksum of a batch is not that of its source.
    """
    batch: _Open | None = None
    for each in rows:
        for opened, part in _runs(each):
            if batch is None or batch.first != opened.first:
                if batch is not None:
                    yield _frame(batch, source, where)
                batch = opened
            _add(batch, part)
    if batch is not None:
        yield _frame(batch, source, where)


def _runs(rows: pa.RecordBatch) -> Iterator[tuple[_Open, pa.RecordBatch]]:
    """Yield the rows of each batch, with the facts of the batch."""
    begins, at = rows.column("batch_first"), 0
    for end in pc.run_end_encode(begins).run_ends.to_pylist():
        yield (
            _Open(
                begins[at].as_py(),
                rows.column("epoch")[at].as_py(),
                rows.column("timestamp_ns")[at].as_py(),
                rows.column("batch_checksum")[at].as_py(),
            ),
            rows.slice(at, end - at),
        )
        at = end


def _add(batch: _Open, rows: pa.RecordBatch) -> None:
    batch.payloads += rows.column("payload").to_pylist()
    batch.marker = rows.column("marker")[-1].as_py() or b""
    keys, properties = rows.column("key"), rows.column("properties")
    if keys.null_count == len(keys) and properties.null_count == len(properties):
        batch.attributes += [NO_ATTRIBUTES] * len(rows)
        return
    batch.attributes += [
        Attributes(key, dict(named or ()))
        for key, named in zip(keys.to_pylist(), properties.to_pylist(), strict=True)
    ]


def _frame(batch: _Open, source: SourceName, where: str) -> bytes:
    frame = encode_batch(
        source,
        batch.epoch,
        batch.first,
        batch.payloads,
        batch.timestamp_ns,
        batch.marker,
        batch.attributes,
    )
    if (checksum := read_header(frame).checksum) != batch.checksum:
        raise CorruptBatch(
            where,
            f"{source} from {batch.first} has checksum {checksum:#010x} instead of "
            f"{batch.checksum:#010x}",
        )
    return frame
