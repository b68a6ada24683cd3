"""Streams on a standalone cluster whose executors and drivers are killed, twenty times each."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.pipeline.cluster import Cluster
from tests.pipeline.contents import payloads
from tests.pipeline.group import PATIENCE_SECONDS, Group, until
from tests.pipeline.shuffling_driver import SHUFFLED

from quorate.pipeline.stores.client import Stores

pytestmark = [pytest.mark.big, pytest.mark.processes, pytest.mark.timeout(2400)]

MICRO_BATCHES = 10
ROWS = 1_000_000
KILLS = 20
DRIVER_EACH = 5
"""Each so many kills, the driver is killed instead of an executor."""
START_SECONDS = 200.0
"""For a driver, its executors and their workers, on a machine that is busy with other tests."""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    each = ROWS // MICRO_BATCHES
    for batch in range(MICRO_BATCHES):
        texts = [f"{number:0100}" for number in range(batch * each, (batch + 1) * each)]
        parquet.write_table(pa.table({"payload": texts}), tmp_path / "in" / f"{batch}.parquet")
    return tmp_path


@contextlib.contextmanager
def driver(
    cluster: Cluster, group: Group, topic: str, directory: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A driver that runs until the end of the `with` block at most."""
    program = (sys.executable, "-m", "tests.pipeline.shuffling_driver")
    arguments = (cluster.master, group.stores, topic, str(directory))
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


def there(group: Group, topic: str) -> int:
    """Number of rows that are stable."""
    sources = Stores(group.addresses).sources().sources
    return sum(each.until for name, each in sources.items() if name.topic == topic)


@pytest.mark.parametrize("topic", [SHUFFLED, "plain"])
def test_executors_and_drivers_that_are_killed_leave_each_row_once(
    own_group: Group, rows: Path, topic: str
) -> None:
    def more_come(than: int) -> None:
        until("rows come", lambda: there(own_group, topic) > than, START_SECONDS)

    # Each kill comes when so many more rows are there, so it is in the middle of a micro-batch.
    moments = iter([ROWS * number // (KILLS + 1) for number in range(KILLS)])
    with Cluster(rows) as cluster:
        for _ in range(KILLS // DRIVER_EACH):
            with driver(cluster, own_group, topic, rows):
                for _ in range(DRIVER_EACH - 1):
                    more_come(next(moments))
                    cluster.kill_executor()
                more_come(next(moments))
        assert not list((rows / "checkpoint" / "commits").glob(f"{MICRO_BATCHES - 1}"))
        with driver(cluster, own_group, topic, rows) as last:
            assert last.wait(600) == 0, (rows / "driver.log").read_text()[-4000:]
    assert payloads(own_group, topic) == [b"%0100d" % number for number in range(ROWS)]
