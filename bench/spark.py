"""`make bench-spark`: reading, auditing, archiving and writing with Spark.

Messages are read as a table, next to Parquet in the same run, and as a stream. Some are large, and
some have keys and properties. It starts three stores that sync to the disk, and a local Spark with
two cores. The figures are medians of several runs. Quote them only with what else the machine did.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.report import say
from quorate.client import Outgoing
from quorate.pipeline import session
from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.archive.tasks import on_spark
from quorate.pipeline.audit.verdict import AuditOutcome
from quorate.pipeline.jobs.audit import audit
from quorate.pipeline.stores.client import Stores
from quorate.protocol.identity import SourceName, parse_addresses
from quorate.source.blocking import Source

PAYLOAD_BYTES = 100
CHUNK = 20_000


@contextmanager
def stores(directory: Path) -> Iterator[str]:
    """Start three stores, and yield their addresses."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "quorate.console.main", "dev"),
            *("--base-port", "0", "--data-directory", str(directory)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip().partition("=")[2]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()


@dataclass(frozen=True)
class Kind:
    """The size of the messages of a topic, and their attributes."""

    topic: str
    payload_bytes: int
    keyed: bool
    """Each message has one of 1,000 keys, and a property of one of 10 values."""

    def __str__(self) -> str:
        return f"{self.payload_bytes:,} bytes{', key and property' if self.keyed else ''}"

    def chunk(self) -> list[Any]:
        payloads = [os.urandom(self.payload_bytes) for _ in range(CHUNK)]
        if not self.keyed:
            return payloads
        return [
            Outgoing(payload, key=b"key-%04d" % (at % 1000), properties={"n": b"%d" % (at % 10)})
            for at, payload in enumerate(payloads)
        ]


PLAIN = Kind("bench", PAYLOAD_BYTES, False)
OTHERS = (Kind("keyed", 100, True), Kind("large", 1_000, False), Kind("large-keyed", 1_000, True))


def publish(addresses: str, kind: Kind, messages: int) -> float:
    """Send messages until all are stable; return the seconds that it took."""
    topic, payloads = kind.topic, kind.chunk()
    with Source.open(topic, stores=addresses, session_id=1) as source:
        begun = time.perf_counter()
        for _ in range(messages // CHUNK):
            source.send_many(payloads)
        source.flush()
        seconds = time.perf_counter() - begun
    until_stable(addresses, SourceName(topic, 1), messages)
    return seconds


def until_stable(addresses: str, source: SourceName, messages: int) -> None:
    known = Stores(parse_addresses(addresses))
    while known.sources().sources[source].until < messages:
        time.sleep(0.1)


# As a table.


def aggregated(rows: DataFrame, kind: Kind, messages: int) -> None:
    """Aggregate over every column that has a value in every row."""
    more = [f.max("key"), f.max(f.col("properties")["n"])] if kind.keyed else []
    [row] = rows.agg(
        f.count("*").alias("count"),
        f.sum(f.length("payload")).alias("bytes"),
        f.sum("sequence").alias("sequences"),
        f.max("epoch"),
        f.max("timestamp"),
        f.max("topic"),
        f.max("source"),
        *more,
    ).collect()
    assert row["count"] == messages, row
    assert row["bytes"] == messages * kind.payload_bytes, row
    assert row["sequences"] == messages * (messages - 1) // 2, row


def timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def table(
    spark: SparkSession, addresses: str, directory: Path, kind: Kind, messages: int, runs: int
) -> float:
    """Measure reading the stores and Parquet in turns; return the seconds of the stores."""
    path = str(directory / "rows" / kind.topic)

    def from_stores() -> DataFrame:
        reader = spark.read.format("quorate").options(stores=addresses, topics=kind.topic)
        return reader.load()

    def from_files() -> DataFrame:
        return spark.read.parquet(path)

    from_stores().write.parquet(path)
    ours, theirs = [], []
    for _ in range(runs + 1):
        ours.append(timed(lambda: aggregated(from_stores(), kind, messages)))
        theirs.append(timed(lambda: aggregated(from_files(), kind, messages)))
    # The first run of each warms up.
    mine, other = (messages / statistics.median(each[1:]) for each in (ours, theirs))
    say(f"table, {kind}: rows/s from the stores", f"{mine:,.0f}", spread(messages, ours[1:]))
    say(f"table, {kind}: rows/s from Parquet", f"{other:,.0f}", spread(messages, theirs[1:]))
    say(f"table, {kind}: stores / Parquet", f"{mine / other:.2f}", "")
    return statistics.median(ours[1:])


def tables(spark: SparkSession, addresses: str, directory: Path, messages: int, runs: int) -> None:
    """Measure reading messages of each kind, and an audit of the first kind."""
    reading = table(spark, addresses, directory, PLAIN, messages, runs)
    audits(spark, addresses, messages, runs, reading)
    for kind in OTHERS:
        # As many bytes of payload as of the first kind.
        some = messages * PAYLOAD_BYTES // kind.payload_bytes // CHUNK * CHUNK or CHUNK
        publish(addresses, kind, some)
        table(spark, addresses, directory, kind, some, runs)


def audits(spark: SparkSession, addresses: str, messages: int, runs: int, reading: float) -> None:
    """Measure an audit of all stores, next to `reading`: seconds to read the messages of one."""

    def audited(thorough: bool) -> None:
        report = audit(on_spark(spark), parse_addresses(addresses), parts=2, thorough=thorough)
        assert report.outcome is AuditOutcome.NO_LOSS, report.summary
        assert report.compared == messages, report.summary
        assert report.read == (3 * messages if thorough else 0), report.read

    over_digests = [timed(lambda: audited(False)) for _ in range(runs + 1)][1:]
    seconds = statistics.median(over_digests)
    low, high = min(over_digests), max(over_digests)
    more = f"{low:.2f} to {high:.2f} in {len(over_digests)} runs"
    say("audit: seconds for three stores", f"{seconds:.2f}", more)
    say("audit: reading one store / audit", f"{reading / seconds:.1f}", "")
    everything = 3 * messages / timed(lambda: audited(True))
    say("audit: messages/s read and checked, thorough", f"{everything:,.0f}", "1 run")


def archives(
    spark: SparkSession, addresses: str, directory: Path, messages: int, runs: int
) -> None:
    """Measure archiving the messages, each time to an empty archive."""
    seconds = []
    for _ in range(runs + 1):
        path = directory / "archive"

        def archived(path: str = str(path)) -> None:
            stores = Stores(parse_addresses(addresses))
            report = archive(on_spark(spark), stores, path, selects="bench".__eq__, parts=2)
            assert (report.messages, report.failures) == (messages, {}), report.as_object()

        seconds.append(timed(archived))
        shutil.rmtree(path)
    # The first run warms up.
    rate = messages / statistics.median(seconds[1:])
    say("archive: rows/s to Parquet", f"{rate:,.0f}", spread(messages, seconds[1:]))


def writes(spark: SparkSession, addresses: str, directory: Path, messages: int, runs: int) -> None:
    """Measure writing rows of Parquet, each time to a new topic, until all are stable."""
    rows = (
        spark.read.parquet(str(directory / "rows" / PLAIN.topic)).select("payload").limit(messages)
    )
    rows.repartition(2).write.parquet(str(directory / "to-write"))
    rows = spark.read.parquet(str(directory / "to-write"))
    seconds = []
    for number in range(runs + 1):
        topic = f"written-{number}"
        settings = {"stores": addresses, "topic": topic}
        writing = rows.write.format("quorate").mode("append").options(**settings)
        seconds.append(timed(writing.save))
        known = Stores(parse_addresses(addresses)).sources().sources
        stable = sum(each.until for name, each in known.items() if name.topic == topic)
        assert stable == messages, stable
    rate = messages / statistics.median(seconds[1:])
    say("write: rows/s until stable", f"{rate:,.0f}", spread(messages, seconds[1:]))


def spread(messages: int, seconds: list[float]) -> str:
    low, high = messages / max(seconds), messages / min(seconds)
    return f"{low:,.0f} to {high:,.0f} in {len(seconds)} runs"


# As a stream.


def backlog(spark: SparkSession, addresses: str, directory: Path, messages: int) -> None:
    """Measure reading a backlog in micro-batches. The first few warm up."""
    query = started(
        spark,
        directory / "backlog",
        stores=addresses,
        topics="bench",
        maxMessagesPerTrigger=str(max(1, messages // 20)),
    )
    try:
        while not query.recentProgress or query.recentProgress[-1]["numInputRows"]:
            time.sleep(0.1)
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
        batches = [each for each in query.recentProgress if each["numInputRows"]][5:]
    finally:
        query.stop()
    rows = sum(each["numInputRows"] for each in batches)
    seconds = sum(each["durationMs"]["triggerExecution"] for each in batches) / 1000
    say("stream: rows/s of a backlog", f"{rows / seconds:,.0f}", f"{len(batches)} batches")


@dataclass
class Paced:
    """A source that sends at a rate, and notes when messages became stable."""

    source: Source
    rate: int
    seconds: float
    first: int
    """The number of its first message."""
    stable: list[tuple[int, float]] = field(default_factory=list)
    """Each highest stable number with the time at which it was reached."""

    @property
    def total(self) -> int:
        """Number of messages that the source sends."""
        return int(self.rate * self.seconds)

    def run(self) -> None:
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        payload, begun, sent = os.urandom(PAYLOAD_BYTES), time.time(), 0
        while sent < self.total:
            due = min(self.total, int((time.time() - begun) * self.rate))
            if due > sent:
                self.source.send_many([payload] * (due - sent))
                sent = due
            time.sleep(0.002)
        self.source.flush()
        watcher.join()

    def _watch(self) -> None:
        upto, last = -1, self.first + self.total - 1
        while upto < last:
            now = self.source.stable_upto
            if now > upto:
                upto = now
                self.stable.append((upto, time.time()))
            time.sleep(0.001)

    def stable_at(self, sequence: int) -> float:
        return self.stable[bisect.bisect_left(self.stable, (sequence, 0.0))][1]


def live(spark: SparkSession, addresses: str, directory: Path, rate: int, seconds: float) -> None:
    """Measure the time from stable to processed of every message, while a source sends."""
    topic = f"live-{rate}"
    with Source.open(topic, stores=addresses, session_id=1) as source:
        query = started(spark, directory / topic, stores=addresses, topics=topic)
        try:
            # The measurement begins after everything has run for the first time.
            source.send_many([b"warm up"] * 1000)
            source.flush()
            while processed(query, topic) < 1000:
                time.sleep(0.1)
            paced = Paced(source, rate, seconds, source.next_sequence)
            paced.run()
            while processed(query, topic) < paced.first + paced.total:
                time.sleep(0.1)
        finally:
            query.stop()
    waits = sorted(waits_of(query.recentProgress, paced, topic))
    say(
        f"stream: ms from stable to processed at {rate:,}/s, median",
        f"{1000 * waits[len(waits) // 2]:.0f}",
        f"p99 {1000 * waits[len(waits) * 99 // 100]:.0f}, most {1000 * waits[-1]:.0f}",
    )
    say_breakdown(query.recentProgress, paced, topic)
    took = paced.stable[-1][1] - paced.stable[0][1]
    say(f"stream: rows/s kept up with at {rate:,}/s", f"{paced.total / took:,.0f}", "")


def waits_of(progress: list[Any], paced: Paced, topic: str) -> Iterator[float]:
    """Yield the seconds from stable to processed of each message that was sent at the rate."""
    for batch in progress:
        if not batch["numInputRows"]:
            continue
        begun = time_of(batch["timestamp"])
        done = begun + batch["durationMs"]["triggerExecution"] / 1000
        ends = batch["sources"][0]
        for sequence in range(at(ends["startOffset"], topic), at(ends["endOffset"], topic)):
            if sequence >= paced.first:
                yield done - paced.stable_at(sequence)


def say_breakdown(progress: list[Any], paced: Paced, topic: str) -> None:
    """Print the parts of a micro-batch's time, as Spark reports them."""
    batches = [
        batch["durationMs"]
        for batch in progress
        if batch["numInputRows"] and at(batch["sources"][0]["startOffset"], topic) >= paced.first
    ]
    medians = {
        name: statistics.median(batch.get(name, 0) for batch in batches) for name in batches[0]
    }
    whole = medians.pop("triggerExecution")
    parts = sorted(medians.items(), key=lambda each: -each[1])
    say(
        f"stream: ms of a micro-batch at {paced.rate:,}/s, median",
        f"{whole:.0f}",
        ", ".join(f"{name} {each:.0f}" for name, each in parts) + f"; {len(batches)} batches",
    )


def time_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def at(offset: Any, topic: str) -> int:
    entries = (json.loads(offset) if isinstance(offset, str) else offset) or {}
    return int(entries.get(f"{topic}/0x1", 0))


def processed(query: Any, topic: str) -> int:
    progress = query.lastProgress
    return at(progress["sources"][0]["endOffset"], topic) if progress else 0


def started(spark: SparkSession, checkpoint: Path, **options: str) -> Any:
    rows = spark.readStream.format("quorate").options(**options).load()
    return rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each live stream")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quorate-bench-spark-") as name:
        directory = Path(name)
        with stores(directory / "stores") as addresses:
            seconds = publish(addresses, PLAIN, arguments.messages)
            say("source: messages/s until stable", f"{arguments.messages / seconds:,.0f}", "")
            spark = session(
                "bench",
                cores=2,
                conf={"spark.sql.streaming.numRecentProgressUpdates": "100000"},
            )
            spark.sparkContext.setLogLevel("ERROR")
            try:
                tables(spark, addresses, directory, arguments.messages, arguments.runs)
                archives(spark, addresses, directory, arguments.messages, arguments.runs)
                backlog(spark, addresses, directory, arguments.messages)
                live(spark, addresses, directory, 5_000, arguments.seconds)
                live(spark, addresses, directory, 300_000, arguments.seconds)
                writes(spark, addresses, directory, arguments.messages // 5, arguments.runs)
            finally:
                spark.stop()


if __name__ == "__main__":
    main()
