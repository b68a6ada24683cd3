"""The audit as users run it: as a command, and as `python -m quorate.pipeline`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests import seams
from tests.pipeline.archive.support import here
from tests.pipeline.audit.support import Strangers, frames, strangers

from quorate.pipeline.jobs import command as jobs
from quorate.protocol.identity import SourceName

SOURCE = SourceName("orders", 0x10)


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    """Stores of which one has a hole."""
    made = strangers(tmp_path_factory.mktemp("holed"))
    for number in (0, 1):
        made.give(number, SOURCE, frames(SOURCE, 99, 10), 99)
    whole = frames(SOURCE, 99, 10)
    made.give(2, SOURCE, [*whole[:4], (40, 49), *whole[5:]], 99)
    yield made
    made.stop()


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the tasks here: a Spark of its own would take seconds, and stop that of the tests."""
    two_cores = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    seams.JOBS_COMMAND_SESSION.replace(monkeypatch, lambda *_: contextlib.nullcontext(two_cores))
    seams.ARCHIVE_TASKS_ON_SPARK.replace(monkeypatch, lambda _: here)


@pytest.mark.timeout(500)
@pytest.mark.long
def test_the_command_says_what_is_missing_where(holed: Strangers) -> None:
    command = [sys.executable, "-m", "quorate.console.main", "audit", "--stores", holed.stores]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr
    assert "orders/0x10: difference: s2 lacks [40, 49]." in ended.stderr
    assert "hole" in ended.stdout


@pytest.mark.usefixtures("without_spark")
def test_a_store_that_was_not_named_leaves_the_verdict_open(
    holed: Strangers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jobs.main(["audit", "--stores", ",".join(holed.addresses[:2])]) == 10
    (source,) = json.loads(capsys.readouterr().out)["sources"]
    assert source["outcome"] == "not known"
    assert source["findings"][0]["stores"] == ["s2"]
    assert source["findings"][0]["detail"].endswith("it is not one of the stores that were asked")


@pytest.mark.usefixtures("without_spark")
def test_a_thorough_audit_reads_everything(
    holed: Strangers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jobs.main(["audit", "--thorough", "--stores", holed.stores]) == 1
    assert json.loads(capsys.readouterr().out)["read"] == 290


def test_an_archive_is_audited_beside_the_stores(
    holed: Strangers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "archive")
    assert jobs.main(["audit", "--stores", holed.stores, "--archive", path]) == 1
    assert "no archive is there" in capsys.readouterr().err
    assert jobs.main(["archive", path, "--stores", holed.stores]) == 0
    capsys.readouterr()
    assert jobs.main(["audit", "--stores", holed.stores, "--archive", path]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["archive"], said["archived"]) == (path, 100)
    assert said["sources"][0]["summary"] == ("difference: s2 lacks [40, 49]")


@pytest.mark.parametrize("job", ["audit", "archive"])
def test_a_topic_that_no_store_has_is_refused_before_spark_is_started(
    job: str, holed: Strangers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = [str(tmp_path / "archive")] if job == "archive" else []
    assert jobs.main([job, *path, "--stores", holed.stores, "--topic", "odrers"]) == 1
    said = capsys.readouterr().err
    assert "odrers" in said
    assert "starting Spark" not in said
