"""The batches of an archive's rows, byte for byte as their source made them.

The checksum of each batch proves that it is the same. How batches become rows is in
quorate.pipeline.archive.rows. Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName

COLUMNS = (
    *("epoch", "timestamp_ns", "batch_first", "batch_checksum"),
    *("payload", "key", "properties", "marker"),
)
"""The columns that make the batches again."""


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
