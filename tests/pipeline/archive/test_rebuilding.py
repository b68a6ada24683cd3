"""A manifest that is damaged or lost is made again of an older one and of what is in the files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.pipeline.archive.support import (
    DAY_NS,
    NOON_NS,
    ORDERS,
    TRADES,
    FakeStores,
    Stream,
    batch,
    here,
)
from tests.pipeline.archive.test_archiving import frames, newest, on_disk, run
from typer.testing import CliRunner

from quorate.console import main
from quorate.pipeline.archive.archiving import DROPPED_SECONDS
from quorate.pipeline.archive.compacting import compact
from quorate.pipeline.archive.rebuild_plan import rebuilt
from quorate.pipeline.archive.rebuilding import examined, rebuild
from quorate.pipeline.jobs import command
from quorate.protocol.errors import ArchiveInvalid, ArchiveUnusable
from quorate.protocol.lineage import Lineage, Term

LINEAGE = Lineage((Term(1, 0), Term(4, 20)))


@pytest.fixture
def stream() -> Stream:
    return Stream(LINEAGE, promised_epoch=4)


@pytest.fixture
def stores(stream: Stream) -> FakeStores:
    trades = Stream(frames=[batch(0, 4, source=TRADES)], stable_upto=4)
    return FakeStores({ORDERS: stream, TRADES: trades})


@pytest.fixture
def path(tmp_path: Path, stream: Stream, stores: FakeStores) -> Path:
    """An archive with four versions, each with a file of ten messages more, and one of trades."""
    for first in range(0, 40, 10):
        epoch, time_ns = LINEAGE.epoch_at(first), NOON_NS + (DAY_NS if first == 30 else 0)
        stream.frames.append(
            batch(
                first,
                first + 9,
                epoch,
                time_ns=time_ns,
                marker=b"m",
                attributes=first == 10,
                passing_ns=7,
            )
        )
        stream.stable_upto = first + 9
        run(stores, tmp_path / "archive")
    return tmp_path / "archive"


def manifests(path: Path) -> list[Path]:
    return sorted((path / "manifest").glob("*.json"))


def data(path: Path, first: int) -> Path:
    (found,) = path.glob(f"data/topic=orders/*/0x10-{first:020d}-*.parquet")
    return found


def flip(path: Path, at: int = -40) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x01
    path.write_bytes(content)


def sources(path: Path) -> list[tuple[str, int, int]]:
    return [(each.name.topic, each.first, each.last) for each in newest(path).sources.values()]


def test_nothing_is_done_while_the_newest_is_whole(path: Path) -> None:
    before = manifests(path)
    report = rebuild(str(path))
    assert (report.version, report.since, report.sources, report.damaged) == (4, 4, [], [])
    assert manifests(path) == before


@pytest.mark.parametrize("damage", ["flipped", "cut off", "empty", "no text"])
def test_what_only_the_damaged_one_named_is_taken_from_the_files(
    path: Path, stream: Stream, stores: FakeStores, damage: str
) -> None:
    last = manifests(path)[-1]
    match damage:
        case "flipped":
            flip(last)
        case "cut off":
            last.write_bytes(last.read_bytes()[:500])
        case "empty":
            last.write_bytes(b"")
        case _:
            last.write_bytes(b"\xff" * 700)
    before = last.read_bytes()
    with pytest.raises(ArchiveInvalid, match="--rebuild"):
        newest(path)
    report = rebuild(str(path))
    assert (report.since, report.version, report.whole) == (3, 5, True)
    assert sources(path) == [("orders", 0, 39), ("trades", 0, 4)]
    assert frames(path) == stream.frames
    assert newest(path).sources[ORDERS].lineage == LINEAGE
    assert [note for note in report.notes if "[30, 39] is taken from the files alone" in note]
    assert last.read_bytes() == before, "it is kept for inspection"
    # The archive goes on, and nothing is archived twice.
    stream.frames.append(batch(40, 49, 4))
    stream.stable_upto = 49
    after = run(stores, path)
    assert (after.messages, after.failures) == (10, {})
    assert frames(path) == stream.frames


def test_several_damaged_ones_are_passed_over(path: Path, stream: Stream) -> None:
    for each in manifests(path)[1:]:
        flip(each)
    report = rebuild(str(path))
    assert (report.since, len(report.damaged)) == (1, 3)
    assert frames(path) == stream.frames
    assert newest(path).sources[ORDERS].lineage == LINEAGE


@pytest.mark.parametrize("gone", [True, False])
def test_without_any_manifest_the_files_tell_what_they_can(
    path: Path, stream: Stream, gone: bool
) -> None:
    for each in manifests(path):
        each.unlink() if gone else flip(each)
    report = rebuild(str(path))
    assert (report.since, report.version) == (0, 1 if gone else 5)
    assert sources(path) == [("orders", 0, 39), ("trades", 0, 4)]
    assert frames(path) == stream.frames
    assert len([note for note in report.notes if "its RegID" in note]) == 2
    assert newest(path).sources[ORDERS].promised_epoch == 4


def test_a_hole_ends_what_is_vouched_for(path: Path, stream: Stream, stores: FakeStores) -> None:
    for each in manifests(path)[1:]:
        flip(each)
    data(path, 10).unlink()
    report = rebuild(str(path))
    assert sources(path) == [("orders", 0, 9), ("trades", 0, 4)]
    assert report.whole, "the manifest that was whole had no more"
    assert [note for note in report.notes if "2 files have messages from 20 on" in note]
    run(stores, path)
    assert frames(path) == stream.frames


def test_what_was_archived_and_is_gone_is_said(path: Path) -> None:
    flip(manifests(path)[-1])
    data(path, 10).unlink()
    report = rebuild(str(path))
    assert not report.whole
    assert sources(path) == [("orders", 0, 9), ("trades", 0, 4)]
    assert [note for note in report.notes if "[10, 29] was archived, and no whole file" in note]


@pytest.mark.parametrize("at", [8, 400, -40])
def test_a_file_that_is_damaged_too_is_not_taken(path: Path, at: int) -> None:
    flip(manifests(path)[-1])
    flip(data(path, 30), at)
    report = rebuild(str(path))
    assert sources(path)[0] == ("orders", 0, 29)
    assert [note for note in report.notes if note.startswith("not taken: ")]


def test_a_file_under_another_name_is_not_taken(path: Path) -> None:
    flip(manifests(path)[-1])
    right = data(path, 30)
    right.rename(right.with_name(right.name.replace("00030-", "00031-")))
    rebuild(str(path))
    assert sources(path)[0] == ("orders", 0, 29)


def test_after_a_compaction_either_files_serve(
    path: Path, stream: Stream, stores: FakeStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact(here, str(path))
    flip(manifests(path)[-1])
    rebuild(str(path))
    assert frames(path) == stream.frames
    # The old ones are removed an hour after the compaction; say that they are.
    for first in (0, 10, 20):
        for each in path.glob(f"data/*/*/0x10-{first:020d}-{first + 9:020d}-*.parquet"):
            each.unlink()
    flip(manifests(path)[-1])
    report = rebuild(str(path))
    assert report.whole
    assert frames(path) == stream.frames
    monkeypatch.setattr("time.time", lambda: DROPPED_SECONDS + 10**10)
    run(stores, path)
    assert frames(path) == stream.frames
    assert on_disk(path)


def test_epochs_do_not_go_back(path: Path) -> None:
    """A file of a stream that was begun anew, under the numbers that come next."""
    whole = [examined(path, str(data(path, first).relative_to(path))) for first in (0, 20)]
    known = newest(path).sources[ORDERS]
    later, earlier = whole[1], whole[0]
    made = rebuilt(ORDERS, None, [later])
    assert made is not None
    assert (made.source.first, made.source.lineage) == (20, Lineage((Term(4, 20),)))
    odd = replace(earlier, first=40, last=49, lineage=Lineage((Term(3, 40),)))
    files = [*newest(path).files_of(ORDERS), odd]
    made = rebuilt(ORDERS, known, files)
    assert made is not None
    assert made.source.last == 39
    assert any("do not follow on 39" in note for note in made.notes)


def test_a_path_without_anything_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnusable, match="no archive is there"):
        rebuild(str(tmp_path))


# As users run it.


def test_the_command_rebuilds_without_stores_and_says_what_it_can_not_vouch_for(
    path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starts(*_: object) -> None:
        raise AssertionError("Spark was started")

    seams.JOBS_COMMAND_SESSION.replace(monkeypatch, starts)
    flip(manifests(path)[-1])
    result = CliRunner().invoke(main.app, ["archive", str(path), "--rebuild", "-o", "json"])
    assert result.exit_code == 0, result.output
    said: dict[str, Any] = json.loads(result.stdout)
    assert (said["version"], said["since_version"], said["whole"]) == (5, 3, True)
    assert "note: orders/0x10: [30, 39] is taken from the files alone" in result.stderr
    assert frames(path) == stream.frames
    flip(manifests(path)[-1])
    data(path, 0).unlink()
    result = CliRunner().invoke(main.app, ["archive", str(path), "--rebuild"])
    assert result.exit_code == 1, result.output
    assert "[0, 29] was archived" in result.stderr or "no whole file of it" in result.stderr
    result = CliRunner().invoke(main.app, ["archive", str(path), "--rebuild", "--topic", "orders"])
    assert result.exit_code == 2
    assert "--rebuild: " in result.stderr


def test_the_program_rebuilds_too(
    path: Path, capsys: pytest.CaptureFixture[str], stream: Stream
) -> None:
    flip(manifests(path)[-1])
    assert command.main(["rebuild", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 5
    assert frames(path) == stream.frames
