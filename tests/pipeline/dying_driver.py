"""A driver that writes a micro-batch and hangs when it is to commit it, to be killed then."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from tests.pipeline.write.test_stream_writer import (
    STREAM_TOPIC,
    run,
    stream,
)

from quorate.pipeline import session
from quorate.pipeline.spark.data_source import QuorateDataSource
from quorate.pipeline.write.options import (
    WriteOptions,
    write_options,
)
from quorate.pipeline.write.stream_writer import StreamWriter


class Hanging(StreamWriter):
    """Says that it is asked to commit, and does nothing more."""

    def __init__(self, options: WriteOptions, said: Path) -> None:
        super().__init__(options)
        self._said = said

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],  # noqa: ARG002
        batchId: int,  # noqa: ARG002
    ) -> None:
        self._said.touch()
        time.sleep(600)


class HangingDataSource(QuorateDataSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        said = Path(self.options["checkpointLocation"]).parent / "committing"
        return Hanging(write_options(self.options, streaming=True), said)


def main(stores: str, directory: Path) -> None:
    from tests.pipeline.group import Group

    spark = session("dying", cores=2)
    spark.dataSource.register(HangingDataSource)
    group = Group.__new__(Group)
    group.addresses = stores.split(",")
    run(stream(spark, directory / "in"), group, STREAM_TOPIC, directory / "checkpoint")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
