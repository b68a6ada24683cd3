"""The commit of a batch by the driver, once all its tasks have written: it accounts for every row.

A task's message lists the rows that it has, all of them stable. The commit adds these up, and then
looks for rows of the batch that an earlier attempt wrote and no task of this attempt has. Nothing
here writes a row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from quorate.pipeline.errors import RowsDiffer, RowsRefused, RowsUnaccounted
from quorate.pipeline.rules.resuming import (
    WriteBatch,
    partition_of,
    strays,
)
from quorate.pipeline.write.leftovers import newest_markers
from quorate.pipeline.write.options import WriteOptions
from quorate.pipeline.write.writing import Written
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName

_log = logging.getLogger("quorate.pipeline")


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """The message of a task to the driver."""

    write: WriteBatch
    partition: int
    written: tuple[Written, ...]
    refused: QuorateError | None = None
    """The reason for which the task failed, and would fail however often Spark repeats it."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a batch; every row of it is stable."""

    rows: int
    already: int
    """Number of rows that were written before the attempts that succeeded."""
    last: dict[SourceName, int]
    """By source, the sequence number of the last row."""
    stores: tuple[str, ...]
    """Names of the stores that had the last row of some source when it was found stable."""

    def __str__(self) -> str:
        topics = len({source.topic for source in self.last})
        before = f", {self.already:,} of them from earlier attempts" if self.already else ""
        return (
            f"{self.rows:,} rows{before}, in {len(self.last)} sources of {topics} topics; "
            f"all stable; stores: {', '.join(self.stores) or 'none'}"
        )


def roll_up(messages: Iterable[TaskMessage]) -> Committed:
    """Return what these tasks have written together."""
    written = [each for message in messages for each in message.written]
    return Committed(
        sum(each.rows for each in written),
        sum(each.already for each in written),
        {each.source: each.last for each in sorted(written, key=lambda each: each.source)},
        tuple(sorted({store for each in written for store in each.stores})),
    )


def commit_batch(
    options: WriteOptions, write: WriteBatch, messages: Sequence[WriterCommitMessage | None]
) -> Committed:
    """Account for all rows of the batch.

    Raises RowsDiffer, RowsRefused, RowsUnaccounted, NoQuorum.
    """
    _check_none_refused(write, _ours(messages))
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
        rows = sum(each.rows for each in left)
        unaccounted = RowsUnaccounted(write.write_id, write.batch, rows, shown)
        if options.fail_on_rows_differ:
            raise unaccounted
        _log.warning("committed all the same, as the option failOnRowsDiffer says: %s", unaccounted)
    _log.info("batch %d of write %s: %s", write.batch, write.write_id, committed)
    return committed


def _check_none_refused(write: WriteBatch, messages: Iterable[TaskMessage]) -> None:
    refused = [(each.partition, each.refused) for each in messages if each.refused is not None]
    for partition, error in refused:
        if isinstance(error, RowsDiffer):
            raise error
        raise RowsRefused(write.write_id, write.batch, partition, str(error), len(refused))


def abort_batch(write: WriteBatch, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Log what stays of a failed batch, because written messages cannot be taken back."""
    _log.warning(
        "batch %d of write %s failed. The rows that its tasks wrote stay in the topic, and are not "
        "written again when the same batch is repeated: %s",
        write.batch,
        write.write_id,
        roll_up(_ours(messages)),
    )


def _ours(messages: Iterable[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [message for message in messages if isinstance(message, TaskMessage)]
