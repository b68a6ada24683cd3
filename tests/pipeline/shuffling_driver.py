"""A driver on a cluster that writes a stream, to be killed in its middle."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from quorate.pipeline import session

SHUFFLED = "shuffled"
"""The topic of rows that come out of a shuffle. Those of another topic do not."""


def main(master: str, stores: str, topic: str, directory: Path) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = session(
        "shuffling",
        conf={
            "spark.master": master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.task.maxFailures": "20",
        },
    )
    rows = (
        spark.readStream.schema("payload string")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(directory / "in"))
    )
    query = (
        (rows.repartition(4) if topic == SHUFFLED else rows)
        .writeStream.format("quorate")
        .options(stores=stores, topic=topic, checkpointLocation=str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
