"""A stream behind a shuffle, on a standalone cluster whose executors and drivers are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.cluster import Cluster
from tests.pipeline.contents import payloads
from tests.pipeline.group import PATIENCE_SECONDS, Group, until

from quorate.pipeline.stores.client import Stores

pytestmark = [pytest.mark.big, pytest.mark.processes, pytest.mark.timeout(600)]

TOPIC = "shuffled"
ROWS = 400_000
START_SECONDS = 200.0
"""For a driver, its executors and their workers, on a machine that is busy with other tests."""


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> Path:
    frame = spark.range(0, ROWS, 1, 8).selectExpr("lpad(cast(id as string), 100, '0') as payload")
    frame.write.parquet(str(tmp_path / "in"))
    return tmp_path


@contextlib.contextmanager
def driver(cluster: Cluster, group: Group, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver that runs until the end of the `with` block at most."""
    program = (sys.executable, "-m", "tests.pipeline.shuffling_driver")
    arguments = (cluster.master, group.stores, TOPIC, str(directory))
    with (directory / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            [*program, *arguments], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        # Its Java is in the same session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)


def there(group: Group) -> int:
    """Number of rows that are stable."""
    sources = Stores(group.addresses).sources().sources
    return sum(each.until for name, each in sources.items() if name.topic == TOPIC)


def test_executors_and_a_driver_that_are_killed_leave_each_row_once(
    own_group: Group, rows: Path
) -> None:
    with Cluster(rows) as cluster:
        with driver(cluster, own_group, rows):
            for killed_at in (1, ROWS // 4):
                until("rows come", lambda least=killed_at: there(own_group) >= least, START_SECONDS)  # type: ignore[misc]
                cluster.kill_executor()
            until("rows come", lambda: there(own_group) >= ROWS // 2, START_SECONDS)
        assert not list((rows / "checkpoint" / "commits").glob("0")), "killed before its end"
        with driver(cluster, own_group, rows) as last:
            assert last.wait(300) == 0, (rows / "driver.log").read_text()[-4000:]
    assert payloads(own_group, TOPIC) == [b"%0100d" % number for number in range(ROWS)]
