"""The rows of an archive's files, and the batches that they come from and become again.

A row has the columns that Spark reads, and besides what it takes to make the source's batches again
as they were, byte for byte; each batch's own checksum proves that they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.pipeline import schema as read_schema
from quorate.pipeline.stores.decoding import (
    constant,
    record_batches,
)
from quorate.protocol.answers import Piece
from quorate.protocol.attributes import encode_attributes
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
"""timestamp_ns: the time in full. batch_first: the number of the first message of the batch that a
message came in. batch_checksum: crc32c of that batch. marker: on the last message of a batch, what
the application committed with it."""

REPEATED = (
    *("topic", "source", "epoch", "timestamp", "timestamp_ns", "batch_first", "batch_checksum"),
)
"""Columns that are the same over whole batches."""


def whole(piece: Piece) -> Piece:
    """The piece as a batch of its own, if only a part of its batch belongs to it."""
    header = piece.header
    if (piece.first, piece.last) == (header.first, header.last):
        return piece
    frame = cut(piece.frame, header, piece.first, piece.last, header.epoch)
    return Piece(frame, read_header(frame), piece.first, piece.last)


def rows_of(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """The rows of whole batches; raises CorruptBatch."""
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


# And back.


@dataclass(slots=True)
class _Open:
    """A batch of which not all rows have come yet."""

    first: int
    epoch: int
    timestamp_ns: int
    checksum: int
    payloads: list[bytes] = field(default_factory=list)
    attributes: list[bytes] = field(default_factory=list)
    marker: bytes = b""


def frames_of(rows: Iterable[pa.RecordBatch], source: SourceName, where: str) -> Iterator[bytes]:
    """The batches that these rows, which are of one source and in order, were made of.

    Raises CorruptBatch if one is not what its source made; where: for people.
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
    """The parts of some rows that are each of one batch."""
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
        batch.attributes += [b""] * len(rows)
        return
    batch.attributes += [
        encode_attributes(key, _as_mapping(named))
        for key, named in zip(keys.to_pylist(), properties.to_pylist(), strict=True)
    ]


def _as_mapping(named: Any) -> dict[str, bytes] | None:
    return dict(named) if named else None


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
            f"{source} from {batch.first} has checksum {checksum:#010x}, and should have "
            f"{batch.checksum:#010x}",
        )
    return frame
