"""The writer of `df.write.format("quorate")`, which Spark calls in the driver and in the tasks.

Here are the calls that Spark makes, and no rule of writing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from quorate.pipeline.errors import RowsDiffer
from quorate.pipeline.rules.resuming import WriteBatch
from quorate.pipeline.write.committing import (
    TaskMessage,
    abort_batch,
    commit_batch,
)
from quorate.pipeline.write.options import (
    WriteOptions,
    write_options,
)
from quorate.pipeline.write.rows import (
    check_columns,
    rows_by_topic,
)
from quorate.pipeline.write.writing import (
    Attempt,
    write_partition,
)
from quorate.protocol.errors import InvalidArgument, MessageTooLarge


class BatchWriter(DataSourceArrowWriter):
    """One batch write. Spark pickles it to the tasks."""

    def __init__(self, options: WriteOptions, write: WriteBatch) -> None:
        self._options = options
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(iterator, self._options, self._write)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_batch(self._options, self._write, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_batch(self._write, messages)


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the writer.

    Raises InvalidArgument for invalid options or columns, and to overwrite.
    """
    options = checked_options(given, schema, overwrite, streaming=False)
    return BatchWriter(options, WriteBatch(options.write_id or str(uuid.uuid4()), options.batch))


def checked_options(
    given: Mapping[str, str], schema: StructType, overwrite: bool, *, streaming: bool
) -> WriteOptions:
    """Return the options, if rows of the schema can be written under them.

    Raises InvalidArgument.
    """
    if overwrite:
        raise InvalidArgument(
            "outputMode" if streaming else "mode",
            "only append is possible: messages that were sent cannot be taken back",
        )
    options = write_options(given, streaming=streaming)
    named = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    check_columns(named, options.topic)
    return options


def write_task(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, write: WriteBatch
) -> TaskMessage:
    """Write the rows of one task of a batch write or of a stream, and return its message.

    Rows that cannot be written, or differ from those there, do not fail the task, because Spark
    would repeat it in vain. The message has the error instead, and the commit fails.
    """
    context = TaskContext.get()
    assert context is not None
    attempt = Attempt(write, context.partitionId(), context.attemptNumber())
    rows = (rows_by_topic(batch, options.topic) for batch in batches)
    try:
        written = write_partition(rows, attempt, options)
    except (InvalidArgument, MessageTooLarge, RowsDiffer) as error:
        return TaskMessage(write, attempt.partition, (), error)
    return TaskMessage(write, attempt.partition, tuple(written))
