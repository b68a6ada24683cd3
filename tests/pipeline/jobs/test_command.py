"""The jobs as `python -m quorate.pipeline` runs them; what is wrong is said before Spark starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.pipeline.archive.support import ORDERS, FakeStores, Stream, batch
from tests.pipeline.archive.test_archiving import run
from tests.pipeline.group import Group

from quorate.pipeline.archive.upkeep import CompactReport
from quorate.pipeline.errors import NotArchived
from quorate.pipeline.jobs import command as jobs
from quorate.pipeline.jobs.backtest import BacktestReport
from quorate.pipeline.jobs.command import (
    main,
    selection,
)
from quorate.pipeline.jobs.replay import ReplayProgress
from quorate.pipeline.jobs.stats import StatsReport
from quorate.protocol.errors import ArchiveUnusable, InvalidArgument, Unreachable
from quorate.protocol.layout import Layout


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def starts(*_: object) -> None:
        raise AssertionError("Spark was started")

    seams.JOBS_COMMAND_SESSION.replace(monkeypatch, starts)


@pytest.fixture
def path(tmp_path: Path) -> str:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 9)], stable_upto=9)})
    run(stores, tmp_path / "archive")
    return str(tmp_path / "archive")


def test_topics_are_chosen_by_name_or_by_pattern() -> None:
    topics = ("orders", "orders.eu", "trades")
    assert [each for each in topics if selection((), None)(each)] == list(topics)
    assert [each for each in topics if selection(("trades",), None)(each)] == ["trades"]
    assert [each for each in topics if selection((), "orders.*")(each)] == ["orders", "orders.eu"]
    assert [each for each in topics if selection((), "order")(each)] == []
    for wrong in ((("a",), "b"), ((), "("), (("",), None)):
        with pytest.raises(InvalidArgument):
            selection(*wrong)


def test_stores_that_are_away_are_found_out_first(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        jobs.run_archive(["127.0.0.1:9"], str(tmp_path), told=print)


def test_a_path_that_is_no_archive_is_found_out_first(tmp_path: Path) -> None:
    layout = Layout.plain("127.0.0.1:9")
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ArchiveUnusable, match="no archive is there"):
            jobs.run_restore(layout, str(path), told=print)
    with pytest.raises(
        InvalidArgument, match="neither a directory nor the address of an object store"
    ):
        jobs.run_restore(layout, "ftp://bucket/archive", told=print)


@pytest.mark.parametrize("name", ["a-file", "a-file/archive", "closed"])
def test_an_archive_that_can_not_be_written_is_found_out_first(
    group: Group, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a-file").touch()
    (tmp_path / "closed").mkdir()
    # Also for root, who may write where nobody may.
    (tmp_path / "closed" / "_sources").touch()
    with pytest.raises(ArchiveUnusable, match=rf"{tmp_path / name}.*(Not a directory|File exists)"):
        jobs.run_archive(group.addresses, str(tmp_path / name), told=print)


def test_a_log_that_is_damaged_is_found_out_first(path: str) -> None:
    for each in Path(path).glob("_delta_log/*"):
        each.write_text("?")
    with pytest.raises(ArchiveUnusable):
        jobs.run_compact(path, told=print)


def test_a_topic_that_the_archive_lacks_is_found_out_first(path: str) -> None:
    layout = Layout.plain("127.0.0.1:9")
    for wanted in ({"topics": ["orders", "order"]}, {"topics_pattern": "order"}):
        with pytest.raises(NotArchived, match=r"topic 'order'\. Archived topics: orders"):
            jobs.run_restore(layout, path, told=print, **wanted)


def test_a_report_is_printed_and_the_exit_code_follows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def done(path: str, **_: Any) -> CompactReport:
        return CompactReport(path, 4, 7, 2, 1.0)

    seams.JOBS_COMMAND_RUN_COMPACT.replace(monkeypatch, done)
    assert main(["compact", "/archive"]) == 0
    assert json.loads(capsys.readouterr().out)["files_after"] == 2


def test_a_replay_and_statistics_that_came_to_their_end_are_a_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seams.JOBS_COMMAND_RUN_STATS.replace(
        monkeypatch, lambda *_, **__: StatsReport([], [], [], 1.0, [], [])
    )
    assert main(["stats", "--stores", "127.0.0.1:9"]) == 0
    for interrupted in (False, True):
        report = BacktestReport(ReplayProgress(), interrupted)
        seams.JOBS_COMMAND_RUN_BACKTEST.replace(monkeypatch, lambda *_, report=report, **__: report)
        code = main(["backtest", "--stores", "127.0.0.1:9", "--to", "again"])
        assert code == (130 if interrupted else 0)
    assert '"interrupted": true' in capsys.readouterr().out


def test_errors_are_told_and_the_exit_code_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["archive", str(tmp_path), "--stores", "127.0.0.1:9"]) == 69
    assert "cannot be reached" in capsys.readouterr().err
    assert main(["restore", str(tmp_path)]) == 2
    assert "--stores: give either this or --group" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["archive"])


def test_grpc_does_nothing_in_the_fork_that_starts_java() -> None:
    """Else about one start of Java in ten was aborted, after stores had been asked something."""
    environment = {k: v for k, v in os.environ.items() if k != "GRPC_ENABLE_FORK_SUPPORT"}
    shown = "import os, quorate.pipeline; print(os.environ['GRPC_ENABLE_FORK_SUPPORT'])"
    command = [sys.executable, "-c", shown]
    assert subprocess.check_output(command, env=environment, text=True).strip() == "0"
