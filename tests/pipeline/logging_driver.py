"""A driver that logs all it does: it writes a table, reads it, and shows the plans."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from quorate.pipeline import session

TOPIC = "logged"
ROWS = 1000


def main(stores: str, directory: Path) -> None:
    (directory / "events").mkdir()
    spark = session(
        "logging",
        cores=2,
        conf={
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(directory / "events"),
            "spark.sql.pyspark.worker.logging.enabled": "true",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        },
    )
    spark.sparkContext.setLogLevel("INFO")
    rows = spark.range(ROWS).selectExpr("cast(id as string) as payload")
    rows.write.format("quorate").options(stores=stores, topic=TOPIC).mode("append").save()
    table = spark.read.format("quorate").options(stores=stores, topics=TOPIC).load()
    table.explain("extended")
    print("rows:", table.count())
    stream = spark.readStream.format("quorate").options(stores=stores, topics=TOPIC).load()

    def explained(batch: DataFrame, number: int) -> None:
        batch.explain("extended")
        print("batch:", number, batch.count())

    query = (
        stream.writeStream.foreachBatch(explained)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(query.lastProgress)
    spark.tvf.python_worker_logs().show(1000, truncate=False)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
