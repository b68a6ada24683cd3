"""Archivers that are killed at any point, and several at once: all is there once, nothing twice."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.pipeline.archive.dying_archiver import POINTS
from tests.pipeline.archive.support import here
from tests.pipeline.archive.test_archiving import frames, newest, numbers, on_disk, rows
from tests.pipeline.group import PATIENCE_SECONDS, Group, numbered

from quorate.archive.reading import Archive
from quorate.pipeline.archive.archiving import ArchiveReport, archive
from quorate.pipeline.archive.upkeep import vacuum
from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.client import Stores
from quorate.protocol.errors import ArchiveChanged
from quorate.protocol.identity import SourceName

pytestmark = pytest.mark.long

PATTERN = "crashed."
COUNT = 12_000
SOURCES = [SourceName(f"{PATTERN}{name}", 0x10) for name in ("a", "b")]


@pytest.fixture(scope="module")
def stores(group: Group) -> Stores:
    """Two sources, of which each makes several files."""
    for source in SOURCES:
        assert group.publish(source.topic, numbered(0, COUNT - 1)) == source
    return Stores(group.addresses)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.ARCHIVING_PART_MESSAGES_MIN.replace(monkeypatch, 5_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def archived(stores: Stores, path: Path) -> ArchiveReport:
    report = archive(
        here, stores, str(path), selects=lambda topic: topic.startswith(PATTERN), parts=4
    )
    assert report.failures == {}
    return report


def check_whole(stores: Stores, path: Path) -> None:
    """The archive has what the stores have: every batch, and every row, once."""
    catalogue = stores.sources()
    table = newest(path)
    assert set(table.sources) == set(SOURCES)
    assert sum(file.count for file in table.files) == COUNT * len(SOURCES)
    assert rows(path) == sorted(row for source in SOURCES for row in numbers(0, COUNT - 1, source))
    for source in SOURCES:
        kept = stores.fetch(source, catalogue.sources[source].lineage, 0, COUNT - 1)
        assert frames(path, source) == [piece.frame for piece in kept]
        batches = Archive(str(path)).record_batches(source, 0, COUNT - 1, ARROW)
        payloads = [payload for each in batches for payload in each.column("payload").to_pylist()]
        assert payloads == numbered(0, COUNT - 1)


@pytest.mark.processes
@pytest.mark.parametrize("point", POINTS)
def test_an_archiver_that_is_killed_is_made_up_for(
    stores: Stores, path: Path, group: Group, point: str
) -> None:
    program = [sys.executable, "-m", "tests.pipeline.archive.dying_archiver"]
    ended = subprocess.run([*program, group.stores, str(path), PATTERN, point])
    assert ended.returncode == -signal.SIGKILL, "it came to the point"
    there = newest(path).version
    assert there == (
        1 if point in ("the commit is there and nobody knows", "no store is told") else 0
    )
    report = archived(stores, path)
    assert (report.messages, report.version) == (0 if there else 2 * COUNT, 1)
    check_whole(stores, path)
    assert archived(stores, path).messages == 0
    # What the dead one left is removed once it can be of nobody who still runs.
    for each in on_disk(path):
        os.utime(path / each, (0, 0))
    vacuum(str(path))
    assert on_disk(path) == {file.path for file in newest(path).files}
    check_whole(stores, path)


@pytest.mark.processes
@pytest.mark.timeout(400)
def test_a_job_whose_driver_is_killed_while_spark_writes(
    stores: Stores, path: Path, group: Group
) -> None:
    """Whatever goes on without it for a while, Java and its workers, spoils nothing."""
    job = [sys.executable, "-m", "quorate.pipeline", "archive", str(path), "--master", "local[2]"]
    driver = subprocess.Popen(
        [*job, "--stores", group.stores, "--topics-pattern", r"crashed\..*"],
        start_new_session=True,
    )
    try:
        while driver.poll() is None and not on_disk(path):
            time.sleep(0.02)
        assert driver.poll() is None
        driver.kill()
        driver.wait(PATIENCE_SECONDS)
        archived(stores, path)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
    check_whole(stores, path)


def test_of_two_archivers_that_commit_at_once_one_wins_and_the_other_says_so(
    stores: Stores, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    commit = seams.ARCHIVE_TABLE_COMMIT.real()

    def at_once(*arguments: Any) -> None:
        both.wait()
        commit(*arguments)

    seams.ARCHIVE_TABLE_COMMIT.replace(monkeypatch, at_once)
    outcomes: list[int | ArchiveChanged] = []

    def run() -> None:
        try:
            outcomes.append(archived(stores, path).messages)
        except ArchiveChanged as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [won] = [each for each in outcomes if isinstance(each, int)]
    assert won == 2 * COUNT
    assert len(outcomes) == 2
    check_whole(stores, path)
    assert archived(stores, path).messages == 0
