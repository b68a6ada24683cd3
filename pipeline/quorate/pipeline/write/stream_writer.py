"""The writer of `writeStream.format("quorate")`, which Spark calls in the driver and in the tasks.

Here are the calls that Spark makes, and no rule of writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from quorate.pipeline.rules.resuming import WriteBatch
from quorate.pipeline.write.batch_writer import (
    checked_options,
    write_task,
)
from quorate.pipeline.write.committing import (
    TaskMessage,
    abort_batch,
    commit_batch,
)
from quorate.pipeline.write.options import WriteOptions
from quorate.protocol.errors import InvalidArgument

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class StreamWriter(DataSourceStreamArrowWriter):
    """A micro-batch of a query. Spark makes one object to write it, and another to commit it."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(iterator, self._options, _micro_batch())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002 - the tasks were told
        if write := _write_of(messages):
            commit_batch(self._options, write, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002 - the tasks were told
        if write := _write_of(messages):
            abort_batch(write, messages)


def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer.

    Raises InvalidArgument for invalid options or columns, and to overwrite.
    """
    return StreamWriter(checked_options(given, schema, overwrite, streaming=True))


def _micro_batch() -> WriteBatch:
    """Return the micro-batch to which this task belongs.

    Spark tells it to tasks, not to writers.
    """
    context = TaskContext.get()
    assert context is not None
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if query is None or batch is None:
        raise InvalidArgument(
            "writeStream",
            f"Spark does not tell which micro-batch this is ({_QUERY_ID}: {query}, {_BATCH_ID}: "
            f"{batch}), so a repeated one would be written twice; use Spark from 4.2 on",
        )
    return WriteBatch(query, int(batch))


def _write_of(messages: Sequence[WriterCommitMessage | None]) -> WriteBatch | None:
    """Return the micro-batch that its tasks name; None if it had no task."""
    return next((each.write for each in messages if isinstance(each, TaskMessage)), None)
