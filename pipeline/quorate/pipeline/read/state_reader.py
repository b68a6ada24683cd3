"""Reading the state of the world as a table: the last stable message of each key of a topic.

A topic is a partition, because its rows hold at one position of one store. Spark may call read()
again for a partition. Then the rows are those of that moment, unless `asOf` names a time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from quorate.pipeline.options import StateOptions
from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.decoding import ROWS_MAX
from quorate.protocol.delays import RECONNECT
from quorate.protocol.identity import parse_stores
from quorate.protocol.times import moment_of
from quorate.protocol.tls import tls_of_environment
from quorate.subscriber.items import ReplayedMessage
from quorate.subscriber.protocol.chooser import in_order
from quorate.subscriber.state import State
from quorate.subscriber.subscriber import Subscriber
from quorate.transport.connections import Connections

_TIMEOUT_SECONDS = 60.0
"""Seconds within which a store must begin to answer."""


@dataclass
class TopicPartition(InputPartition):
    """The rows of a topic."""

    topic: str

    def __init__(self, topic: str) -> None:
        super().__init__(None)
        self.topic = topic


class StateReader(DataSourceReader):
    """Reads the rows of topics with keys."""

    def __init__(self, options: StateOptions, columns: pa.Schema) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[TopicPartition]:
        """Return the topics. Raises what quorate.subscriber.State.batches raises at once.

        The driver asks for the first rows, because Spark repeats a task whose filter is wrong, or
        whose topic has no keys.
        """
        for topic in self._options.topics:
            with closing(self._read(topic)) as parts:
                next(parts, None)
        return [TopicPartition(topic) for topic in self._options.topics]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Raises what quorate.subscriber.State.batches raises."""
        assert isinstance(partition, TopicPartition), partition
        for part in self._read(partition.topic):
            yield record_batch(part, self._columns)

    def _read(self, topic: str) -> Generator[Sequence[ReplayedMessage], None, None]:
        with asyncio.Runner() as runner:
            parts = _parts(self._options, topic)
            try:
                while (part := runner.run(anext(parts, None))) is not None:
                    yield part
            finally:
                runner.run(parts.aclose())


async def _parts(
    options: StateOptions, topic: str
) -> AsyncGenerator[Sequence[ReplayedMessage], None]:
    connections = Connections(tls=tls_of_environment(os.environ))
    state = State(
        topic,
        parse_stores(",".join(options.stores)),
        connections,
        _TIMEOUT_SECONDS,
        RECONNECT,
        lambda: None,
        _never,
        in_order,
    )
    try:
        as_of = None if options.as_of_ns is None else moment_of(options.as_of_ns)
        rows = state.batches(options.where or None, as_of=as_of, batch=ROWS_MAX)
        assert isinstance(rows, AsyncGenerator)
        async with aclosing(rows):
            async for part in rows:
                yield part
    finally:
        await connections.close()


async def _never(*_: object) -> Subscriber:
    raise AssertionError("a table is not followed")


def record_batch(rows: Sequence[ReplayedMessage], columns: pa.Schema) -> pa.RecordBatch:
    """Return these columns of rows."""
    arrays = [
        pa.array(map(_VALUES[field.name], rows), ARROW.field(field.name).type) for field in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


_VALUES: dict[str, Callable[[ReplayedMessage], Any]] = {
    "topic": lambda row: row.topic,
    "source": lambda row: f"{row.source.session_id:#x}",
    "sequence": lambda row: row.sequence,
    "epoch": lambda row: row.epoch,
    "timestamp": lambda row: row.time,
    "payload": lambda row: row.payload,
    "key": lambda row: row.key,
    "properties": lambda row: list(row.properties.items()) or None,
    "deleted": lambda row: row.deleted,
    "expires": lambda row: row.expires,
}
"""The value of each column."""
