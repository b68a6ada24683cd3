"""The resumption of a repeated task: its source's marker tells how many rows it already has.

Here are the identity of the source of a task, and the marker committed with each chunk of rows.
From both it is decided which rows of a repeated task are still to be written. Nothing here knows
Spark, I/O or a clock, and nothing changes the order in which Spark hands rows over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quorate.pipeline.errors import RowsDiffer, WriteNotOurs
from quorate.pipeline.rules.chunks import NO_ROWS, Rows
from quorate.pipeline.rules.rows_there import ReadBack, RowsThere, RowSum
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName

PARTITIONS_MAX = 0xFFFF
WRITE_ID_BYTES_MAX = 256
HELD_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of rows that a task holds while rows that are there have not come back."""
_PARTITION_BITS = 16
_FORMAT = 1


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
    sum: str
    """The sum over these rows, as RowSum has it."""

    def encoded(self) -> bytes:
        """Return the bytes to commit. They are JSON, so that people can read them, too."""
        return json.dumps(
            {
                "quorate-write": _FORMAT,
                "write": self.write.write_id,
                "batch": self.write.batch,
                "rows": self.rows,
                "sum": self.sum,
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
                f"{int(str(fields['sum']), 16):016x}",
            )
        except (ValueError, TypeError, KeyError):
            raise WriteNotOurs(str(source), "an application's own marker") from None


# -- the rows that a task has to write --------------------------------------------------------


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

    Rows that come before all that are there have come back are held. If some of those never come,
    the query has computed other rows, and none of the held ones may be written.
    """

    def __init__(self, write: WriteBatch, source: SourceName, partition: int, found: bytes) -> None:
        """found: the marker of the source when it was opened. Raises WriteNotOurs."""
        self._write = write
        self._source = source
        self._partition = partition
        marker = WriteMarker.decoded(source, found)
        if marker is not None and marker.write.write_id != write.write_id:
            raise WriteNotOurs(str(source), f"write {marker.write.write_id}")
        self._past = marker is not None and marker.write.batch > write.batch
        self.written = RowSum()
        """The rows of this batch that the source has."""
        if marker is not None and marker.write == write:
            self.written = RowSum(marker.rows, marker.sum)
        self.found = self.written.rows
        """Number of rows of this batch that were written before this attempt."""
        self.rows = 0
        """Number of rows that the task has handed over; 0 if a later batch was written."""
        self._there: RowsThere = ReadBack(())
        self._held = NO_ROWS
        self._held_bytes = 0

    def knows(self, there: RowsThere) -> None:
        """Compare the rows that come with those that are there. Without it there are none."""
        self._there = there

    def new(self, rows: Rows) -> Rows:
        """Return which rows to write now, of those that come next. Raises RowsDiffer."""
        if self._past:
            return NO_ROWS
        self.rows += len(rows)
        rows = self._there.take(rows)
        if not self._there.left:
            return self._released() + rows if len(self._held) else rows
        self._held += rows
        self._held_bytes += sum(rows.sizes())
        if self._held_bytes > HELD_BYTES_MAX:
            raise self._differ(f"more than {HELD_BYTES_MAX:,} bytes of other rows came before them")
        return NO_ROWS

    def commit(self, rows: Rows) -> Commit:
        """Return the commit of a chunk of the rows to write."""
        self.written.add(rows)
        written = self.written
        return Commit(rows, WriteMarker(self._write, written.rows, written.text))

    def finish(self) -> None:
        """End the rows of the task. Raises RowsDiffer if others were written before."""
        if not self._past and (detail := self._there.differ()):
            raise self._differ(detail)

    def keep_those_there(self) -> Rows:
        """Let the rows that are there stay besides those that came; return those to write now."""
        self._there = ReadBack(())
        return self._released()

    def _released(self) -> Rows:
        held, self._held, self._held_bytes = self._held, NO_ROWS, 0
        return held

    def _differ(self, detail: str) -> RowsDiffer:
        write = self._write
        return RowsDiffer(
            str(self._source), write.write_id, write.batch, self._partition, self.found, detail
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
