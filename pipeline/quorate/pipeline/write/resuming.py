"""What a task of a write has done already, as its source's marker tells, and what follows from it.

Pure: no Spark, no I/O, no clock. Here are the identity of the source that a task writes through,
the marker that is committed with each chunk, and the decision which of a repeated task's rows are
there. Rows are taken in the order in which Spark hands them over; nothing here reorders them.
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
from quorate.protocol.attributes import NO_ATTRIBUTES
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
    attributes: list[bytes] = field(default_factory=list)
    """Key and properties of each, encoded; nothing at all if no row has any."""

    def __len__(self) -> int:
        return len(self.payloads)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.payloads[part], self.attributes[part])

    def __add__(self, more: Rows) -> Rows:
        attributes = self._filled() + more._filled() if self.attributes or more.attributes else []
        return Rows(self.payloads + more.payloads, attributes)

    def _filled(self) -> list[bytes]:
        return self.attributes or [NO_ATTRIBUTES] * len(self)

    def sizes(self) -> Iterator[int]:
        """How many bytes each row brings into a batch."""
        if not self.attributes:
            return map(len, self.payloads)
        return map(add, map(len, self.payloads), map(len, self.attributes))


NO_ROWS = Rows([])


# -- who writes -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """One batch of a write: what a task belongs to."""

    write_id: str
    """Names the write over restarts: a streaming query's ID, or what the user chose, or drawn."""
    batch: int
    """Which of the write's batches; they only grow."""

    def __post_init__(self) -> None:
        if not 0 < len(self.write_id.encode()) <= WRITE_ID_BYTES_MAX:
            raise InvalidArgument("writeId", f"has not between 1 and {WRITE_ID_BYTES_MAX} bytes")
        if self.batch < 0:
            raise InvalidArgument("batchId", f"{self.batch} is negative")


def session_id(write_id: str, partition: int) -> int:
    """The session of the source that a write's partition has, in every topic: always the same.

    48 bits of a hash of the write and 16 of the partition, so that a write's sources can be told
    among all others. Two writes with one hash are told apart by what their markers say.
    """
    if not 0 <= partition < PARTITIONS_MAX:
        raise InvalidArgument(
            "partitions",
            f"the write has more than {PARTITIONS_MAX:,}, each of them a source; coalesce them",
        )
    return max(1, (_write_hash(write_id) << _PARTITION_BITS) + partition)


def partition_of(write_id: str, session: int) -> int | None:
    """The partition of this write whose source has that session ID; None: of another write."""
    partition = session & ((1 << _PARTITION_BITS) - 1)
    if partition < PARTITIONS_MAX and session_id(write_id, partition) == session:
        return partition
    return None


def _write_hash(write_id: str) -> int:
    return int.from_bytes(hashlib.sha256(write_id.encode()).digest()[:6], "big")


# -- what was written -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """What is committed together with each chunk of rows."""

    write: Write
    rows: int
    """How many rows of the batch the source has, this chunk included."""
    ordered: str
    """A digest of these rows in their order."""
    unordered: str
    """A sum over these rows, whatever their order."""

    def encoded(self) -> bytes:
        """As it is committed: for people, too."""
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
    def decoded(source: SourceName, text: bytes) -> Marker | None:
        """None if nothing was ever committed; raises WriteNotOurs if something else was."""
        if not text:
            return None
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields["quorate-write"] != _FORMAT:
                raise WriteNotOurs(str(source), f"format {fields['quorate-write']} of its marker")
            return Marker(
                Write(str(fields["write"]), int(fields["batch"])),
                int(fields["rows"]),
                str(fields["digest"]),
                str(fields["sum"]),
            )
        except (ValueError, TypeError, KeyError):
            raise WriteNotOurs(str(source), "an application's own marker") from None


class RowDigest:
    """Runs over rows; how they come in chunks makes no difference."""

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
            self._add_attributes(rows.attributes)
            checksums = map(google_crc32c.extend, checksums, rows.attributes)
        self._sum = (self._sum + sum(checksums)) % _SUM_LIMIT
        self.rows += len(rows)

    def _add_attributes(self, attributes: list[bytes]) -> None:
        # Rows without any leave no trace: whether there is a column for them makes no difference.
        for number, encoded in enumerate(attributes, self.rows):
            if encoded:
                length = len(encoded).to_bytes(4, "little")
                self._attributes.update(number.to_bytes(8, "little") + length + encoded)

    @property
    def ordered(self) -> str:
        """Differs if any row or their order does."""
        parts = (self._sizes, self._payloads, self._attributes)
        return hashlib.sha256(b"".join(part.digest() for part in parts)).hexdigest()[:32]

    @property
    def unordered(self) -> str:
        """Differs if any row does."""
        return f"{self._sum:016x}"


# -- what follows for a task -------------------------------------------------------------------


class Chunks:
    """Cuts a topic's rows into chunks that fit one batch."""

    def __init__(self) -> None:
        self._pending = NO_ROWS

    @property
    def bytes(self) -> int:
        """How many wait for a chunk to become whole."""
        return sum(self._pending.sizes())

    def add(self, rows: Rows) -> Iterator[Rows]:
        """Whole chunks."""
        pending = self._pending + rows if len(self._pending) else rows
        at = 0
        while (size := _fitting(pending, at)) < len(pending) - at:
            yield pending[at : at + size]
            at += size
        self._pending = pending[at:] if at else pending

    def rest(self) -> Rows:
        """What waits, as a chunk; nothing waits any more."""
        rest, self._pending = self._pending, NO_ROWS
        return rest


def _fitting(rows: Rows, at: int) -> int:
    """How many rows from `at` on fit one batch; at least one, if there is one."""
    ends = list(accumulate(rows[at : at + BATCH_MESSAGES_MAX].sizes()))
    return max(bisect_right(ends, BATCH_BYTES_TARGET), 1)


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows to be written, as one batch with this marker."""

    rows: Rows
    marker: Marker


class Progress:
    """How far one batch is with one source: which rows are there, which are to be written.

    The end of the rows says nothing: Spark ends them early, without a word, when what computes them
    has failed. So no batch is ever taken for complete here.
    """

    def __init__(self, write: Write, source: SourceName, partition: int, found: bytes) -> None:
        """found: the source's marker when it was opened; raises WriteNotOurs."""
        self._write = write
        self._source = source
        self._partition = partition
        self._digest = RowDigest()
        marker = Marker.decoded(source, found)
        if marker is not None and marker.write.write_id != write.write_id:
            raise WriteNotOurs(str(source), f"write {marker.write.write_id}")
        self._past = marker is not None and marker.write.batch > write.batch
        self._there = marker if marker is not None and marker.write == write else None
        self._reordered = False

    @property
    def whole(self) -> bool:
        """A later batch was written: this one is all there, whatever its rows are."""
        return self._past

    @property
    def rows(self) -> int:
        """How many rows have been seen."""
        return self._digest.rows

    @property
    def found(self) -> int:
        """How many rows of this batch were there at the start."""
        return self._there.rows if self._there is not None else 0

    def next(self, rows: Rows) -> Commit | None:
        """What of the next rows is to be written now; None: they are there. Raises RowsDiffer."""
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
            raise self._differ(there, "they come in another order, and there are more")
        self._digest.add(rows)
        digest = self._digest
        return Commit(rows, Marker(self._write, digest.rows, digest.ordered, digest.unordered))

    def finish(self) -> None:
        """No more rows come; raises RowsDiffer."""
        there = self._there
        if there is not None and self._digest.rows < there.rows:
            raise self._differ(there, f"now there are only {self._digest.rows:,}")

    def _compare(self, there: Marker) -> None:
        """All that is there has come again."""
        if self._digest.unordered != there.unordered:
            raise self._differ(there, "their content differs")
        # A shuffle brings rows in another order. If these are all, then all are there; if not,
        # nobody knows which of the others are.
        self._reordered = self._digest.ordered != there.ordered

    def _differ(self, there: Marker, detail: str) -> RowsDiffer:
        write = self._write
        return RowsDiffer(
            str(self._source), write.write_id, write.batch, self._partition, there.rows, detail
        )


# -- what a whole batch must come to -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stray:
    """Rows of a batch in a source of which no task of the batch knows."""

    source: SourceName
    rows: int


def strays(
    write: Write, found: Mapping[SourceName, Iterable[bytes]], reported: Iterable[SourceName]
) -> list[Stray]:
    """Which sources have rows of this batch, by their markers, though no task reported them.

    found: the newest marker of each of the write's sources, as each store has it. What comes out
    was left behind when the batch was tried before, with other partitions or other rows. What only
    one store has counts, too: it may yet become stable.
    """
    known = set(reported)
    made = []
    for source, texts in sorted(found.items()):
        if source not in known:
            markers = (_marker_of_a_write(source, text) for text in texts)
            rows = [each.rows for each in markers if each is not None and each.write == write]
            made += [Stray(source, max(rows))] if rows else []
    return made


def _marker_of_a_write(source: SourceName, text: bytes) -> Marker | None:
    try:
        return Marker.decoded(source, text)
    except WriteNotOurs:
        return None
