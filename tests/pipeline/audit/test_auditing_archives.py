"""The audit of an archive beside real stores."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pipeline.archive.support import FakeStores, Stream, here
from tests.pipeline.archive.test_letting_go import PAYLOADS, SETTINGS, retained_from
from tests.pipeline.audit.support import Item, Strangers, frames, strangers
from tests.pipeline.audit.test_auditing import found, only
from tests.store.support import batch, running

from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.audit.facts import ARCHIVE, Kind
from quorate.pipeline.audit.verdict import AuditOutcome, AuditReport
from quorate.pipeline.jobs.audit import audit
from quorate.pipeline.stores.client import Stores
from quorate.protocol.compression import Compression
from quorate.protocol.errors import ArchiveUnusable
from quorate.protocol.identity import SourceName
from quorate.source import Source, SourceOptions


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    """Three stores that stay what they are; a test uses a topic of its own."""
    made = strangers(tmp_path_factory.mktemp("apart"))
    yield made
    made.stop()


def given(apart: Strangers, topic: str, last: int = 99) -> SourceName:
    """Give every store the same messages of one source."""
    source = SourceName(topic, 0x10)
    for number in range(3):
        apart.give(number, source, frames(source, last, 10), last)
    return source


def forge(path: Path, source: SourceName, items: list[Item], stable_upto: int) -> None:
    """Make an archive from other stores, with these batches."""
    batches = [each for each in items if isinstance(each, bytes)]
    archive(here, FakeStores({source: Stream(frames=batches, stable_upto=stable_upto)}), str(path))


def audited(apart: Strangers, topic: str, path: Path, *, thorough: bool = False) -> AuditReport:
    return audit(
        here,
        apart.addresses,
        selects=lambda each: each == topic,
        thorough=thorough,
        archive=str(path),
    )


def test_an_archive_that_agrees_is_compared_without_reading_a_message(
    apart: Strangers, tmp_path: Path
) -> None:
    source = given(apart, "agree")
    archive(here, Stores(apart.addresses), str(tmp_path), selects=lambda each: each == "agree")
    report = audited(apart, source.topic, tmp_path)
    assert only(report).summary == (
        "no loss: 100 messages, 3 stores agree; the archive has 100 messages of [0, 99]"
    )
    assert (report.compared, report.archived, report.read) == (100, 100, 0)
    assert report.as_object()["sources"][0]["archived"] == {"first": 0, "last": 99, "messages": 100}
    thorough = audited(apart, source.topic, tmp_path, thorough=True)
    assert (thorough.outcome, thorough.read) == (AuditOutcome.NO_LOSS, 400)


def test_the_same_messages_in_other_batches_are_no_difference(
    apart: Strangers, tmp_path: Path
) -> None:
    source = given(apart, "other batches")
    forge(tmp_path, source, frames(source, 99, 25), 99)
    report = audited(apart, source.topic, tmp_path)
    assert (report.outcome, only(report).findings) == (AuditOutcome.NO_LOSS, ())
    assert report.read > 0


def test_other_content_in_the_archive_is_found(apart: Strangers, tmp_path: Path) -> None:
    source = given(apart, "forged")
    items = frames(source, 99, 10)
    items[3] = batch(30, 39, source=source, salt="forged ")
    forge(tmp_path, source, items, 99)
    verdict = only(audited(apart, source.topic, tmp_path))
    assert found(verdict) == [(Kind.DIVERGENT, ("s0", ARCHIVE), 30, 39)]
    assert verdict.outcome is AuditOutcome.DIFFERENCE
    assert verdict.findings[0].detail == "s0 against the archive"


def test_what_the_archive_has_above_the_stable_is_found(apart: Strangers, tmp_path: Path) -> None:
    source = given(apart, "beyond")
    forge(tmp_path, source, frames(source, 119, 10), 119)
    verdict = only(audited(apart, source.topic, tmp_path))
    assert found(verdict) == [(Kind.BEYOND, (ARCHIVE,), 100, 119)]


def test_a_source_that_only_the_archive_knows_is_found(apart: Strangers, tmp_path: Path) -> None:
    source = SourceName("forgotten", 0x10)
    forge(tmp_path, source, frames(source, 99, 10), 99)
    report = audited(apart, source.topic, tmp_path, thorough=True)
    assert found(only(report)) == [(Kind.FORGOTTEN, (ARCHIVE,), 0, 99)]
    assert (report.outcome.exit_code, report.archived, report.read) == (10, 100, 100)


def test_a_path_without_an_archive_is_an_error(apart: Strangers, tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnusable, match="no archive is there"):
        audited(apart, "none", tmp_path / "none")


def test_a_damaged_file_is_found_where_stores_have_the_messages(
    apart: Strangers, tmp_path: Path
) -> None:
    source = given(apart, "damaged")
    forge(tmp_path, source, frames(source, 99, 10), 99)
    remove_files(tmp_path)
    verdict = only(audited(apart, source.topic, tmp_path))
    assert found(verdict) == [
        (Kind.HOLE, (ARCHIVE,), 0, 99),
        (Kind.UNREADABLE, (ARCHIVE,), 0, 99),
    ]
    assert verdict.outcome is AuditOutcome.DIFFERENCE


def remove_files(path: Path) -> None:
    for each in path.rglob("*.parquet"):
        if "_sources" not in each.parts:
            each.unlink()


async def test_what_retention_let_go_of_must_be_in_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    async with contextlib.AsyncExitStack() as stack:
        node = await stack.enter_async_context(running(tmp_path / "s1", **SETTINGS))
        options = SourceOptions(compression=Compression.ZSTD)
        source = await stack.enter_async_context(
            await Source.open("orders", session_id=0x10, stores=node.address, options=options)
        )
        for first in range(0, 2000, 50):
            await source.send_many(PAYLOADS[first : first + 50])
            await source.flush()
        stores = Stores([node.address])
        archived = await asyncio.to_thread(archive, here, stores, str(path))
        left = await retained_from(stores, 0)
        report = await asyncio.to_thread(audit, here, [node.address], archive=str(path))
        assert report.outcome is AuditOutcome.NO_LOSS, report.summary
        assert report.archived == archived.messages
        assert only(report).retained_from >= left
        remove_files(path)
        report = await asyncio.to_thread(audit, here, [node.address], archive=str(path))
        assert report.outcome is AuditOutcome.LOSS
        kind, _, first, _ = found(only(report))[0]
        assert (kind, first) == (Kind.NOT_ARCHIVED, 0)
