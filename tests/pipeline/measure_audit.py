"""Measures the audit: `python -m tests.pipeline.measure_audit [MESSAGES]`.

Three stores as processes on loopback have the messages, 100 bytes each. Prints how long it takes to
read all of them once, into an aggregation; how long the audit of all three stores takes, over
digests and thoroughly; and how these compare. Each is done three times, and the fastest counts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from tests.pipeline.group import Group

from quorate.pipeline import session
from quorate.pipeline.archive.tasks import on_spark
from quorate.pipeline.audit.verdict import Outcome
from quorate.pipeline.auditing import audit

_SIZE = 100
_AT_ONCE = 100_000
_TIMES = 3


def _fill(group: Group, count: int) -> None:
    with group.open("measured") as source:
        for first in range(0, count, _AT_ONCE):
            source.send_many(os.urandom(_SIZE) for _ in range(first, min(first + _AT_ONCE, count)))
        source.flush()
        name = source.name
    group.until_stable(name, count - 1)


def _fastest(what: Callable[[], None]) -> float:
    seconds = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        what()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def _measure(spark: SparkSession, group: Group, count: int) -> None:
    run = on_spark(spark)

    def read() -> None:
        rows = spark.read.format("quorate").option("stores", group.stores).load()
        total = rows.selectExpr("count(*) as n", "sum(length(payload)) as bytes").collect()[0]
        assert (total.n, total.bytes) == (count, count * _SIZE)

    def check(thorough: bool) -> None:
        report = audit(run, group.addresses, thorough=thorough)
        assert report.outcome is Outcome.NO_LOSS, report.summary
        assert report.read == (3 * count if thorough else 0)

    reading = _fastest(read)
    digests = _fastest(lambda: check(False))
    everything = _fastest(lambda: check(True))
    print(f"{count:,} messages of {_SIZE} bytes on 3 stores, {os.cpu_count()} cores")
    print(f"reading one copy:     {reading:6.2f} s, {count / reading:,.0f} messages/s")
    print(f"audit of 3 stores:    {digests:6.2f} s, {reading / digests:.1f} times as fast")
    print(
        f"thorough, of 3 stores: {everything:5.2f} s, "
        f"{3 * count / everything:,.0f} messages/s read and checked"
    )


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as root:
        group = Group(Path(root))
        group.start()
        try:
            _fill(group, count)
            spark = session("measure audit")
            _measure(spark, group, count)
            spark.stop()
        finally:
            group.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
