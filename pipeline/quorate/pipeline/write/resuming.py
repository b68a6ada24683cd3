"""The resumption of a repeated task: its source's marker tells which rows it has already written.

Here are the identity of the source of a task, and the marker committed with each chunk of rows.
From both it is decided which rows of a repeated task are still to be written. Nothing here knows
Spark, I/O or a clock, and nothing changes the order in which Spark hands rows over.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add
from typing import Any

import google_crc32c

from quorate.pipeline.errors import RowsDiffer, WriteNotOurs
from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, encode_attributes
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import BATCH_BYTES_TARGET, BATCH_MESSAGES_MAX

PARTITIONS_MAX = 0xFFFF
WRITE_ID_BYTES_MAX = 256
_PARTITION_BITS = 16
_SUM_LIMIT = 1 << 64
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of one topic."""

    payloads: list[bytes]
    attributes: list[Attributes] = field(default_factory=list)
    """Key and properties of each row; an empty list if no row has any."""

    def __len__(self) -> int:
        return len(self.payloads)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.payloads[part], self.attributes[part])

    def __add__(self, more: Rows) -> Rows:
        attributes = self._filled() + more._filled() if self.attributes or more.attributes else []
        return Rows(self.payloads + more.payloads, attributes)

    def _filled(self) -> list[Attributes]:
        return self.attributes or [NO_ATTRIBUTES] * len(self)

    def sizes(self) -> Iterator[int]:
        """Return the bytes that each row adds to a batch."""
        if not self.attributes:
            return map(len, self.payloads)
        return map(add, map(len, self.payloads), (own.size for own in self.attributes))


NO_ROWS = Rows([])


# -- the identity of a write ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """One batch of a write, to which a task belongs."""

    write_id: str
    """The name of the write over restarts: a query's ID, or the user's choice, or a drawn one."""
    batch: int
    """The number of the batch in its write. A later batch has a higher one."""

    def __post_init__(self) -> None:
        if not 0 < len(self.write_id.encode()) <= WRITE_ID_BYTES_MAX:
            raise InvalidArgument(
                "writeId", f"does not have between 1 and {WRITE_ID_BYTES_MAX} bytes"
            )
        if self.batch < 0:
            raise InvalidArgument("batchId", f"{self.batch} is negative")


def session_id(write_id: str, partition: int) -> int:
    """Return the session ID of the sources of a write's partition, the same in every topic.

    It has 48 bits of a hash of the write ID, and 16 bits of the partition. So the sources of a
    write can be recognized. Markers distinguish two writes with one hash.
    Raises InvalidArgument if there are too many partitions.
    """
    if not 0 <= partition < PARTITIONS_MAX:
        raise InvalidArgument(
            "partitions",
            f"the write has more than {PARTITIONS_MAX:,}, and each is a source; coalesce them",
        )
    return max(1, (_write_hash(write_id) << _PARTITION_BITS) + partition)


def partition_of(write_id: str, session: int) -> int | None:
    """Return the partition of this write with that session ID; None if it is of another write."""
    partition = session & ((1 << _PARTITION_BITS) - 1)
    if partition < PARTITIONS_MAX and session_id(write_id, partition) == session:
        return partition
    return None


def _write_hash(write_id: str) -> int:
    return int.from_bytes(hashlib.sha256(write_id.encode()).digest()[:6], "big")


# -- the marker of a chunk -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteMarker:
    """The application marker that a task commits together with each chunk of rows."""

    write: WriteBatch
    rows: int
    """Number of rows of the batch that the source has, with this chunk."""
    ordered: str
    """A digest of these rows that depends on their order."""
    unordered: str
    """A sum over these rows that does not depend on their order."""

    def encoded(self) -> bytes:
        """Return the bytes to commit. They are JSON, so that people can read them, too."""
        return json.dumps(
            {
                "quorate-write": _FORMAT,
                "write": self.write.write_id,
                "batch": self.write.batch,
                "rows": self.rows,
                "digest": self.ordered,
                "sum": self.unordered,
            },
            separators=(",", ":"),
            ensure_ascii=False,
        ).encode()

    @staticmethod
    def decoded(source: SourceName, text: bytes) -> WriteMarker | None:
        """Return the marker of a source; None if the source never committed one.

        Raises WriteNotOurs if the bytes are not a marker of a write.
        """
        if not text:
            return None
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields["quorate-write"] != _FORMAT:
                raise WriteNotOurs(str(source), f"format {fields['quorate-write']} of its marker")
            return WriteMarker(
                WriteBatch(str(fields["write"]), int(fields["batch"])),
                int(fields["rows"]),
                str(fields["digest"]),
                str(fields["sum"]),
            )
        except (ValueError, TypeError, KeyError):
            raise WriteNotOurs(str(source), "an application's own marker") from None


class RowDigest:
    """A digest over rows. How the rows are split into chunks does not change it."""

    def __init__(self) -> None:
        self.rows = 0
        self._sizes = hashlib.sha256()
        self._payloads = hashlib.sha256()
        self._attributes = hashlib.sha256()
        self._sum = 0

    def add(self, rows: Rows) -> None:
        sizes = array("I", map(len, rows.payloads))
        if sys.byteorder == "big":
            sizes.byteswap()
        self._sizes.update(sizes)
        self._payloads.update(b"".join(rows.payloads))
        checksums = map(google_crc32c.value, rows.payloads)
        if rows.attributes:
            encoded = list(map(encode_attributes, rows.attributes))
            self._add_attributes(encoded)
            checksums = map(google_crc32c.extend, checksums, encoded)
        self._sum = (self._sum + sum(checksums)) % _SUM_LIMIT
        self.rows += len(rows)

    def _add_attributes(self, attributes: list[bytes]) -> None:
        # Rows without attributes add nothing, so an empty column changes no digest.
        for number, encoded in enumerate(attributes, self.rows):
            if encoded:
                length = len(encoded).to_bytes(4, "little")
                self._attributes.update(number.to_bytes(8, "little") + length + encoded)

    @property
    def ordered(self) -> str:
        """A digest that differs if any row or their order differs."""
        parts = (self._sizes, self._payloads, self._attributes)
        return hashlib.sha256(b"".join(part.digest() for part in parts)).hexdigest()[:32]

    @property
    def unordered(self) -> str:
        """A sum that almost always differs if a row differs; the order of rows does not matter."""
        return f"{self._sum:016x}"


# -- the rows that a task has to write --------------------------------------------------------


class Chunks:
    """Cuts a topic's rows into chunks that fit one batch."""

    def __init__(self) -> None:
        self._pending = NO_ROWS

    @property
    def bytes(self) -> int:
        """Bytes of the rows that wait until a chunk is full."""
        return sum(self._pending.sizes())

    def add(self, rows: Rows) -> Iterator[Rows]:
        """Add rows; yield each chunk that is full."""
        pending = self._pending + rows if len(self._pending) else rows
        at = 0
        while (size := _fitting(pending, at)) < len(pending) - at:
            yield pending[at : at + size]
            at += size
        self._pending = pending[at:] if at else pending

    def rest(self) -> Rows:
        """Return the waiting rows as a last chunk, and keep none."""
        rest, self._pending = self._pending, NO_ROWS
        return rest


def _fitting(rows: Rows, at: int) -> int:
    """Return how many rows from `at` on fit one batch, one at least."""
    ends = list(accumulate(rows[at : at + BATCH_MESSAGES_MAX].sizes()))
    return max(bisect_right(ends, BATCH_BYTES_TARGET), 1)


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows to write as one batch, with this marker."""

    rows: Rows
    marker: WriteMarker


class WriteProgress:
    """The progress of one batch at one source: which rows are written, and which are to be.

    If a later batch was written, all rows of this batch are written, and they are not compared.
    Spark ends the rows of a task early, without an error, when the query that computes them fails.
    So the end of the rows never proves that a batch is complete.
    """

    def __init__(self, write: WriteBatch, source: SourceName, partition: int, found: bytes) -> None:
        """found: the marker of the source when it was opened. Raises WriteNotOurs."""
        self._write = write
        self._source = source
        self._partition = partition
        self._digest = RowDigest()
        marker = WriteMarker.decoded(source, found)
        if marker is not None and marker.write.write_id != write.write_id:
            raise WriteNotOurs(str(source), f"write {marker.write.write_id}")
        self._past = marker is not None and marker.write.batch > write.batch
        self._there = marker if marker is not None and marker.write == write else None
        self._reordered = False

    @property
    def rows(self) -> int:
        """Number of rows that the task has handed over; 0 if a later batch was written."""
        return self._digest.rows

    @property
    def found(self) -> int:
        """Number of rows of this batch that were written before this attempt."""
        return self._there.rows if self._there is not None else 0

    def next(self, rows: Rows) -> Commit | None:
        """Return which of the next rows to write now; None if all are written.

        Raises RowsDiffer.
        """
        if self._past:
            return None
        there = self._there
        if there is not None and self._digest.rows < there.rows:
            split = there.rows - self._digest.rows
            known, rows = rows[:split], rows[split:]
            self._digest.add(known)
            if self._digest.rows == there.rows:
                self._compare(there)
        if not rows:
            return None
        if there is not None and self._reordered:
            raise self._differ(there, "they come in another order, with more rows behind them")
        self._digest.add(rows)
        digest = self._digest
        return Commit(rows, WriteMarker(self._write, digest.rows, digest.ordered, digest.unordered))

    def finish(self) -> None:
        """End the rows of the task. Raises RowsDiffer if there are fewer than before."""
        there = self._there
        if there is not None and self._digest.rows < there.rows:
            raise self._differ(there, f"now there are only {self._digest.rows:,}")

    def _compare(self, there: WriteMarker) -> None:
        """Compare all rows that were written before with those that came now. Raises RowsDiffer."""
        if self._digest.unordered != there.unordered:
            raise self._differ(there, "their content differs")
        # A shuffle brings rows in another order. If no further row comes, all rows are written. If
        # one comes, nothing tells whether it is one of those that were written.
        self._reordered = self._digest.ordered != there.ordered

    def _differ(self, there: WriteMarker, detail: str) -> RowsDiffer:
        write = self._write
        return RowsDiffer(
            str(self._source), write.write_id, write.batch, self._partition, there.rows, detail
        )


# -- rows that no task has -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stray:
    """Rows of a batch in a source that no task of the batch reported."""

    source: SourceName
    rows: int


def strays(
    write: WriteBatch, found: Mapping[SourceName, Iterable[bytes]], reported: Iterable[SourceName]
) -> list[Stray]:
    """Return the sources whose markers are of this batch, and that no task reported.

    found: by source of the write, the newest marker at each store.
    An earlier attempt with other partitions or other rows left these rows. A marker counts even if
    only one store has it, because its rows may yet become stable.
    """
    known = set(reported)
    made = []
    for source, texts in sorted(found.items()):
        if source not in known:
            markers = (_marker_of_a_write(source, text) for text in texts)
            rows = [each.rows for each in markers if each is not None and each.write == write]
            made += [Stray(source, max(rows))] if rows else []
    return made


def _marker_of_a_write(source: SourceName, text: bytes) -> WriteMarker | None:
    try:
        return WriteMarker.decoded(source, text)
    except WriteNotOurs:
        return None
