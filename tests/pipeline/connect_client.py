"""A program that uses Spark Connect: writes rows, reads them as a table and as a stream.

Run by test_connect.py in a process of its own: a process can have a classic session or a remote
one, not both.
"""

from __future__ import annotations

import json
import sys
import tempfile

from quorate.pipeline import session


def main(stores: str) -> None:
    spark = session("connect", remote="local[2]")
    rows = spark.range(1000).selectExpr("'remote' AS topic", "CAST(id AS STRING) AS text")
    rows = rows.selectExpr("topic", "CAST(text AS BINARY) AS payload")
    rows.write.format("quorate").option("stores", stores).mode("append").save()
    read = {"stores": stores, "topics": "remote"}
    table = spark.read.format("quorate").options(**read).load()
    numbers = table.selectExpr("CAST(CAST(payload AS STRING) AS INT) AS number")
    total = numbers.agg({"number": "sum"}).collect()[0][0]
    with tempfile.TemporaryDirectory() as checkpoint:
        stream = (
            spark.readStream.format("quorate")
            .options(**read, startingOffsets="earliest")
            .load()
            .writeStream.format("memory")
            .queryName("remote")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        stream.awaitTermination()
        streamed = spark.sql("SELECT count(*) FROM remote").collect()[0][0]
    print(json.dumps({"rows": table.count(), "sum": total, "streamed": streamed}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
