"""What the driver does when all tasks of a batch have written: account for every row, and say so.

A task's message says what it has, all of it stable. Here it is added up, and nothing of the batch
may be left over: rows that an earlier attempt wrote and no task of this one has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from quorate.pipeline.errors import RowsUnaccounted
from quorate.pipeline.write.leftovers import newest_markers
from quorate.pipeline.write.options import WriteOptions
from quorate.pipeline.write.resuming import (
    Write,
    partition_of,
    strays,
)
from quorate.pipeline.write.writing import Written
from quorate.protocol.identity import SourceName

_log = logging.getLogger("quorate.pipeline")


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    write: Write
    partition: int
    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch came to; every row of it is stable."""

    rows: int
    already: int
    """How many of the rows were there before the attempts that succeeded."""
    last: dict[SourceName, int]
    """By source, the sequence number of the last row."""
    stores: tuple[str, ...]
    """Those that had the last row of some source when it was found stable."""

    def __str__(self) -> str:
        topics = len({source.topic for source in self.last})
        before = f", {self.already:,} of them from earlier attempts" if self.already else ""
        return (
            f"{self.rows:,} rows{before}, in {len(self.last)} sources of {topics} topics; "
            f"all stable; stores: {', '.join(self.stores) or 'none'}"
        )


def roll_up(messages: Iterable[TaskMessage]) -> Committed:
    """What these tasks have written, together."""
    written = [each for message in messages for each in message.written]
    return Committed(
        sum(each.rows for each in written),
        sum(each.already for each in written),
        {each.source: each.last for each in sorted(written, key=lambda each: each.source)},
        tuple(sorted({store for each in written for store in each.stores})),
    )


def commit_batch(
    options: WriteOptions, write: Write, messages: Sequence[WriterCommitMessage | None]
) -> Committed:
    """Account for all rows of the batch; raises RowsUnaccounted, NoQuorum."""
    committed = roll_up(_ours(messages))
    found = newest_markers(
        options.layout,
        lambda source: (
            source not in committed.last
            and partition_of(write.write_id, source.session_id) is not None
        ),
        options.timeout,
    )
    if left := strays(write, found, committed.last):
        shown = ", ".join(f"{each.source} ({each.rows:,} rows)" for each in left)
        raise RowsUnaccounted(write.write_id, write.batch, sum(each.rows for each in left), shown)
    _log.info("batch %d of write %s: %s", write.batch, write.write_id, committed)
    return committed


def abort_batch(write: Write, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Say what stays of a batch that failed: what was written can not be taken back."""
    _log.warning(
        "batch %d of write %s failed; what its tasks wrote stays in the topic, and is not written "
        "again when the same batch is repeated: %s",
        write.batch,
        write.write_id,
        roll_up(_ours(messages)),
    )


def _ours(messages: Iterable[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [message for message in messages if isinstance(message, TaskMessage)]
