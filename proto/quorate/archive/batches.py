"""The batches of an archive's rows, byte for byte as their source made them.

The checksum of each batch proves that it is the same. How batches become rows is in
quorate.pipeline.archive.rows. Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from quorate.archive.rules.parts import Picked
from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.times import times_of

COLUMNS = (
    *("epoch", "timestamp_ns", "batch_first", "batch_checksum"),
    *("payload", "key", "properties", "deleted", "expires_ns", "marker"),
)
"""The columns that make the batches again."""
MARKED_COLUMNS = ("epoch", "batch_first", "batch_checksum")
"""The columns that identify a batch."""
PICKED_COLUMNS = (*COLUMNS, "sequence")
"""The columns that make batches of some of the messages."""


@dataclass(slots=True)
class _Open:
    """A batch whose rows have not all been read yet."""

    first: int
    epoch: int
    checksum: int
    times: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The numbers of its messages, if they were read."""
    payloads: list[bytes] = field(default_factory=list)
    attributes: list[Attributes] = field(default_factory=list)
    marker: bytes = b""


@dataclass(frozen=True, slots=True)
class MarkedBatch:
    """A batch, or the part [first, last] of one, by the facts that identify it at a store."""

    first: int
    last: int
    epoch: int
    checksum: int
    """The crc32c of the whole batch without compression."""


def marked_of(rows: Iterable[pa.RecordBatch], first: int) -> Iterator[MarkedBatch]:
    """Yield the batches from which these rows were made, from the columns that identify them.

    first: the number of the first row. The rows are of one source, and their numbers follow on
    each other.
    """
    begun: MarkedBatch | None = None
    batch_first = -1
    for each in rows:
        begins, at = each.column("batch_first"), 0
        for end in pc.run_end_encode(begins).run_ends.to_pylist():
            last = first + end - at - 1
            if begun is not None and batch_first == begins[at].as_py():
                begun = replace(begun, last=last)
            else:
                if begun is not None:
                    yield begun
                batch_first = begins[at].as_py()
                epoch, checksum = each.column("epoch")[at], each.column("batch_checksum")[at]
                begun = MarkedBatch(first, last, epoch.as_py(), checksum.as_py())
            first, at = last + 1, end
    if begun is not None:
        yield begun


def frames_of(rows: Iterable[pa.RecordBatch], source: SourceName, where: str) -> Iterator[bytes]:
    """Yield the batches from which these rows were made. The rows are of one source and in order.

    where: the place of the rows, for the error.
    Raises CorruptBatch if the checksum of a batch is not that of its source.
    """
    for batch in _batches(rows):
        yield _frame(batch, source, where)


def picked_of(rows: Iterable[pa.RecordBatch], source: SourceName) -> Iterator[Picked]:
    """Yield what some rows of each batch make. The rows are of one source and in order.

    A batch that lacks messages has no checksum of its source. The file's own checksum was compared.
    """
    for batch in _batches(rows):
        frame = _encoded(batch, source, batch.numbers[0])
        yield Picked(frame, read_header(frame), batch.numbers)


def _batches(rows: Iterable[pa.RecordBatch]) -> Iterator[_Open]:
    batch: _Open | None = None
    for each in rows:
        for opened, part in _runs(each):
            if batch is None or batch.first != opened.first:
                if batch is not None:
                    yield batch
                batch = opened
            _add(batch, part)
    if batch is not None:
        yield batch


def _runs(rows: pa.RecordBatch) -> Iterator[tuple[_Open, pa.RecordBatch]]:
    """Yield the rows of each batch, with the facts of the batch."""
    begins, at = rows.column("batch_first"), 0
    for end in pc.run_end_encode(begins).run_ends.to_pylist():
        yield (
            _Open(
                begins[at].as_py(),
                rows.column("epoch")[at].as_py(),
                rows.column("batch_checksum")[at].as_py(),
            ),
            rows.slice(at, end - at),
        )
        at = end


def _add(batch: _Open, rows: pa.RecordBatch) -> None:
    batch.payloads += rows.column("payload").to_pylist()
    if "sequence" in rows.schema.names:
        batch.numbers += rows.column("sequence").to_pylist()
    batch.marker = rows.column("marker")[-1].as_py() or b""
    batch.times += rows.column("timestamp_ns").to_pylist()
    columns = [rows.column(name) for name in ("key", "properties", "deleted", "expires_ns")]
    keys, properties, deletions, expiries = columns
    given = (keys, properties, expiries)
    if all(each.null_count == len(rows) for each in given) and not pc.any(deletions).as_py():
        batch.attributes += [NO_ATTRIBUTES] * len(rows)
        return
    batch.attributes += [
        Attributes(key, dict(named or ()), bool(deleted), expires_ns)
        for key, named, deleted, expires_ns in zip(
            *(each.to_pylist() for each in columns), strict=True
        )
    ]


def _encoded(batch: _Open, source: SourceName, first: int, marker: bytes = b"") -> bytes:
    timestamp_ns, later = times_of(batch.times)
    return encode_batch(
        source, batch.epoch, first, batch.payloads, timestamp_ns, marker, batch.attributes, later
    )


def _frame(batch: _Open, source: SourceName, where: str) -> bytes:
    frame = _encoded(batch, source, batch.first, batch.marker)
    if (checksum := read_header(frame).checksum) != batch.checksum:
        raise CorruptBatch(
            where,
            f"{source} from {batch.first} has checksum {checksum:#010x} instead of "
            f"{batch.checksum:#010x}",
        )
    return frame
