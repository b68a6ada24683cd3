"""The data source `format("quorate")`, as Spark finds it. Readers and writers do the work.

Spark pickles objects of this class to its workers, and makes new ones for each step of planning.
"""

from __future__ import annotations

import time

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from quorate.pipeline import schema as rows
from quorate.pipeline.options import read_options, state_options, wants_state


class QuorateDataSource(DataSource):
    """The data source. Reading gives the stable messages of the stores; writing sends messages."""

    @classmethod
    def name(cls) -> str:
        return "quorate"

    def schema(self) -> str:
        return rows.DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        if wants_state(self.options):
            from quorate.pipeline.read.state_reader import StateReader

            return StateReader(state_options(self.options, time.time_ns()), columns(schema))
        from quorate.pipeline.read.batch_reader import BatchReader

        return BatchReader(read_options(self.options), columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from quorate.pipeline.read.stream_reader import StreamReader

        return StreamReader(read_options(self.options), columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from quorate.pipeline.write.batch_writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from quorate.pipeline.write.stream_writer import stream_writer

        return stream_writer(self.options, schema, overwrite)


def columns(schema: StructType) -> pa.Schema:
    """Return the columns that Spark wants. Raises InvalidArgument for an unknown column."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return rows.projection(to_arrow_schema(schema, timezone="UTC"))
