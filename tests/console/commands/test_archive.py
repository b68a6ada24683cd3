"""`quorate archive` and `quorate restore`: what they hand over, show, and end with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests import seams
from typer.testing import CliRunner

pytest.importorskip("pyarrow", reason="the extra archive is not installed")

from quorate.console import main
from quorate.pipeline.archive.archiving import ArchiveReport, SourceArchived
from quorate.pipeline.archive.upkeep import CompactReport, VacuumReport
from quorate.pipeline.jobs.restore import (
    RestoreReport,
    StoreRestored,
)
from quorate.protocol.errors import ArchiveChanged, ArchiveDiffers, ContentConflict
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.protocol.ranges import HeldRange

ORDERS = SourceName("orders", 0x10)
STORES = "a=h:1,b=h:2,c=h:3"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the jobs were called with, and, under their names, what they report."""
    archived = ArchiveReport("/archive", 3, [SourceArchived(ORDERS, 10, 99, 90, 4096)])
    store = StoreRestored("a", 90, lacked_last=True, vouches=True)
    restored = RestoreReport("/archive", 3, {ORDERS: {"a": store}})
    restored.lasts[ORDERS] = 99
    calls: dict[str, Any] = {
        "archive": archived,
        "compact": CompactReport("/archive", 4, 7, 2, 1.0, ("long",)),
        "vacuum": VacuumReport("/archive", ("old.parquet",), 1.0),
        "restore": restored,
    }

    def job(name: str) -> Any:
        def run(*arguments: Any, **fields: Any) -> Any:
            calls["arguments"], calls["fields"] = arguments, fields
            calls.setdefault("ran", []).append(name)
            if isinstance(calls[name], Exception):
                raise calls[name]
            return calls[name]

        return run

    seams.JOBS_COMMAND_RUN_ARCHIVE.replace(monkeypatch, job("archive"))
    seams.JOBS_COMMAND_RUN_COMPACT.replace(monkeypatch, job("compact"))
    seams.JOBS_COMMAND_RUN_VACUUM.replace(monkeypatch, job("vacuum"))
    seams.JOBS_COMMAND_RUN_RESTORE.replace(monkeypatch, job("restore"))
    return calls


def quorate(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, [*arguments])


def test_archive_shows_what_is_new(called: dict[str, Any]) -> None:
    result = quorate("archive", "/archive", "--stores", STORES, "--topic", "orders")
    assert result.exit_code == 0
    assert called["arguments"] == (["h:1", "h:2", "h:3"], "/archive")
    assert called["fields"]["topics"] == ["orders"]
    assert called["ran"] == ["archive"]
    assert "0x10" in result.stdout
    assert "version 3" in result.stderr


def test_archive_tells_programs_the_same(called: dict[str, Any]) -> None:
    result = quorate("archive", "/archive", "--stores", STORES, "--compact", "-o", "json")
    assert called["ran"] == ["archive", "compact"]
    said = json.loads(result.stdout)
    assert said["sources"][0]["last"] == 99
    assert "7 files" in result.stderr
    assert "long: its name is too long" in result.stderr


def test_archive_removes_old_files_if_asked(called: dict[str, Any]) -> None:
    given = ["archive", "/archive", "--stores", STORES]
    result = quorate(*given, "--compact", "--vacuum", "--keep", "2d")
    assert called["ran"] == ["archive", "compact", "vacuum"]
    assert called["fields"]["keep"] == "2d"
    assert "1 files were removed" in result.stderr
    refused = quorate(*given, "--keep", "2d")
    assert refused.exit_code == 2
    assert "give both" in refused.stderr


def test_archive_fails_if_a_source_could_not_be_archived(called: dict[str, Any]) -> None:
    called["archive"].failures[ORDERS] = ArchiveDiffers("orders/0x10", 5, "/archive", "other")
    result = quorate("archive", "/archive", "--stores", STORES)
    assert result.exit_code == 1
    assert "different histories of orders/0x10" in result.stderr


def test_an_archiver_that_lost_says_so(called: dict[str, Any]) -> None:
    called["archive"] = ArchiveChanged("/archive", 4)
    result = quorate("archive", "/archive", "--stores", STORES)
    assert result.exit_code == 1
    assert "Run it again" in result.stderr


def test_restore_says_loudly_which_numbers_are_given_again(called: dict[str, Any]) -> None:
    result = quorate("restore", "/archive", "--stores", STORES)
    assert result.exit_code == 0
    assert called["arguments"] == (Layout.plain(STORES), "/archive")
    assert "orders/0x10" in result.stdout
    assert "orders/0x10 goes on at 100" in result.stderr
    said = json.loads(quorate("restore", "/archive", "--stores", STORES, "-o", "json").stdout)
    assert said["done"] is True
    assert "goes on at 100" in said["warnings"][0]


def test_restore_that_only_mended_gives_no_number_again(called: dict[str, Any]) -> None:
    called["restore"].sources[ORDERS]["a"] = StoreRestored("a", 3, 87, vouches=True)
    result = quorate("restore", "/archive", "--stores", STORES)
    assert result.exit_code == 0
    assert "goes on at" not in result.stderr


def test_restore_takes_groups(called: dict[str, Any]) -> None:
    quorate("restore", "/archive", "--group", "one/all=a=h:1,b=h:2", "--group", "two=c=h:3")
    layout = called["arguments"][0]
    assert [group.name for group in layout.policy.groups] == ["one", "two"]


@pytest.mark.parametrize(
    "store",
    [
        StoreRestored("b", failure=ContentConflict("orders/0x10", 1, 2, "b"), vouches=True),
        StoreRestored("b", lacking=(HeldRange(1, 2, 1),), vouches=True),
        StoreRestored("b", written=5),
    ],
    ids=["failed", "lacks", "in limbo"],
)
def test_restore_fails_unless_every_store_has_everything(
    called: dict[str, Any], store: StoreRestored
) -> None:
    called["restore"].sources[ORDERS]["b"] = store
    result = quorate("restore", "/archive", "--stores", STORES)
    assert result.exit_code == 1
    assert ("other content" in result.stderr) == (store.failure is not None)
