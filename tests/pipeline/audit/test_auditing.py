"""The audit over real stores, each with what the test gave it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.archive.support import here
from tests.pipeline.audit.support import SECOND, Strangers, frames, strangers
from tests.pipeline.group import Group, numbered
from tests.store.support import running

from quorate.pipeline.archive.tasks import on_spark
from quorate.pipeline.audit.facts import Kind
from quorate.pipeline.audit.verdict import AuditOutcome, AuditReport, SourceVerdict
from quorate.pipeline.jobs.audit import audit
from quorate.pipeline.stores.client import Stores
from quorate.protocol.errors import InvalidArgument, Unreachable
from quorate.protocol.framing import encode_batch, read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.receiver.blocking import Receiver
from quorate.source import Source
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.records import (
    IndexEntry,
    index_key,
    pack_index,
    position_key,
    unpack_index,
)
from quorate.store.storage.rocksdb import RocksStorage

FORGED, ROTTEN, TWICE, NOT_INDEXED = "forged", "rotten", "twice", "not indexed"


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    """Three stores that stay what they are; a test uses a topic of its own."""
    made = strangers(tmp_path_factory.mktemp("apart"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def tampered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    """The same, but of one of them the disk was changed while it did not run."""
    made = strangers(tmp_path_factory.mktemp("tampered"))
    reg_ids = {}
    for topic in (FORGED, ROTTEN, TWICE, NOT_INDEXED):
        source = SourceName(topic, 0x10)
        for number in range(3):
            made.give(number, source, frames(source, 99, 10), 99)
        reg_ids[topic] = Stores(made.addresses[2:]).sources().sources[source].reg_id
    made.kill(2)
    storage = made.storage(2)
    for topic, tamper in (
        (FORGED, forge),
        (ROTTEN, rot),
        (TWICE, name_twice),
        (NOT_INDEXED, take_out_of_index),
    ):
        tamper(storage, reg_ids[topic])
    storage.close()
    made.start(2)
    yield made
    made.stop()


def only(report: AuditReport) -> SourceVerdict:
    (verdict,) = report.sources
    return verdict


def found(verdict: SourceVerdict) -> list[tuple[Kind, tuple[str, ...], int, int]]:
    return [(each.kind, each.stores, each.first, each.last) for each in verdict.findings]


def test_three_stores_that_agree_are_audited_on_spark(spark: SparkSession, group: Group) -> None:
    name = group.publish("audited", numbered(0, 2_999))
    group.publish("audited too", numbered(0, 9))
    report = audit(
        on_spark(spark), group.addresses, selects=lambda topic: topic.startswith("audited")
    )
    assert [each.summary for each in report.sources] == [
        "no loss: 3,000 messages, 3 stores agree",
        "no loss: 10 messages, 3 stores agree",
    ]
    assert report.sources[0].source == name
    assert (report.outcome, report.compared, report.read) == (AuditOutcome.NO_LOSS, 3_010, 0)


def test_every_message_is_read_when_it_is_to_be_thorough(spark: SparkSession, group: Group) -> None:
    group.publish("read all", numbered(0, 999))
    report = audit(
        on_spark(spark),
        group.addresses,
        selects=lambda topic: topic == "read all",
        thorough=True,
    )
    assert only(report).summary == "no loss: 1,000 messages, 3 stores agree"
    assert report.read == 3_000


def test_the_same_messages_in_other_batches_are_no_difference(apart: Strangers) -> None:
    source = SourceName("other batches", 0x10)
    for number, step in enumerate((10, 25, 10)):
        apart.give(number, source, frames(source, 99, step), 99)
    for thorough in (False, True):
        report = apart.audited(source.topic, thorough=thorough)
        assert only(report).summary == "no loss: 100 messages, 3 stores agree"
        assert report.read >= 300, "batches that differ must have been looked into"


def test_a_hole_is_said_where_and_who_has_it(apart: Strangers) -> None:
    source = SourceName("hole", 0x10)
    for number in (0, 1):
        apart.give(number, source, frames(source, 99, 10), 99)
    before, after = frames(source, 39, 10), frames(source, 99, 10, first=60)
    apart.give(2, source, [*before, (40, 59), *after], 99)
    verdict = only(apart.audited(source.topic))
    assert verdict.summary == "difference: s2 lacks [40, 59]"
    assert found(verdict) == [(Kind.HOLE, ("s2",), 40, 59)]
    assert verdict.findings[0].detail == "held by s0, s1"
    assert [(each.first, each.last, len(each.stores)) for each in verdict.coverage] == [
        (0, 39, 3),
        (40, 59, 2),
        (60, 99, 3),
    ]


def test_what_one_store_alone_has_is_not_kept_as_its_policy_asks(apart: Strangers) -> None:
    source = SourceName("one copy", 0x10)
    apart.give(0, source, frames(source, 99, 10), 99)
    for number in (1, 2):
        apart.give(number, source, frames(source, 49, 10), 99)
    verdict = only(apart.audited(source.topic))
    assert verdict.outcome is AuditOutcome.DIFFERENCE
    assert found(verdict) == [
        (Kind.HOLE, ("s1",), 50, 99),
        (Kind.HOLE, ("s2",), 50, 99),
        (Kind.FEW_COPIES, ("s0",), 50, 99),
    ]


def test_what_no_store_has_is_lost(apart: Strangers) -> None:
    source = SourceName("lost", 0x10)
    kept = [*frames(source, 39, 10), (40, 59), *frames(source, 99, 10, first=60)]
    for number in range(3):
        apart.give(number, source, kept, 99)
    verdict = only(apart.audited(source.topic))
    assert verdict.summary == "loss: no store has [40, 59] (20 messages)"
    assert found(verdict) == [(Kind.MISSING, (), 40, 59)]
    assert AuditOutcome.LOSS.exit_code == 1


def test_what_is_above_the_stable_is_told_of_who_holds_it(apart: Strangers) -> None:
    source = SourceName("tail", 0x10)
    apart.give(0, source, frames(source, 119, 10), 99)
    apart.give(1, source, frames(source, 99, 10), 99)
    apart.give(2, source, frames(source, 109, 10), 99)
    verdict = only(apart.audited(source.topic))
    assert verdict.summary == "no loss: 100 messages, 3 stores agree"
    assert found(verdict) == [(Kind.TAIL, ("s0",), 100, 119), (Kind.TAIL, ("s2",), 100, 109)]


def test_stores_with_other_histories_are_told_apart(apart: Strangers) -> None:
    source = SourceName("histories", 0x10)
    apart.give(0, source, frames(source, 69, 10), 69)
    second = [*frames(source, 49, 10), *frames(source, 99, 10, first=50, epoch=2)]
    for number in (1, 2):
        apart.give(number, source, frames(source, 49, 10), 49)
        apart.give(number, source, second[5:], 99, SECOND)
    verdict = only(apart.audited(source.topic))
    assert verdict.outcome is AuditOutcome.DIFFERENCE
    assert (Kind.LINEAGE, ("s0",), 50, 99) in found(verdict)
    assert (Kind.HOLE, ("s0",), 50, 99) in found(verdict)


def test_a_store_that_missed_an_epoch_is_said_to_have(apart: Strangers) -> None:
    source = SourceName("missed epoch", 0x10)
    apart.give(0, source, frames(source, 49, 10), 49)
    for number in (1, 2):
        apart.give(number, source, frames(source, 49, 10), 49)
        apart.give(number, source, frames(source, 99, 10, first=50, epoch=2), 99, SECOND)
    verdict = only(apart.audited(source.topic))
    assert found(verdict) == [
        (Kind.HOLE, ("s0",), 50, 99),
        (Kind.OUTDATED, ("s0",), 50, 99),
    ]


def test_other_content_on_a_disk_is_found_and_who_agrees(tampered: Strangers) -> None:
    for thorough in (False, True):
        verdict = only(tampered.audited(FORGED, thorough=thorough))
        assert verdict.summary == "difference: [33, 34] has different contents: s0, s1 against s2"
        assert found(verdict) == [(Kind.DIVERGENT, ("s0", "s1", "s2"), 33, 34)]


def test_an_unreadable_batch_is_found_by_reading(tampered: Strangers) -> None:
    report = tampered.audited(ROTTEN, thorough=True)
    assert only(report).summary == "difference: s2 cannot read [50, 59]"
    assert found(only(report)) == [(Kind.UNREADABLE, ("s2",), 50, 59)]
    # It is known from now on, also to who does not read.
    assert found(only(tampered.audited(ROTTEN))) == found(only(report))


def test_numbers_that_an_index_names_twice_are_found(tampered: Strangers) -> None:
    verdict = only(tampered.audited(TWICE))
    assert verdict.outcome is AuditOutcome.DIFFERENCE
    assert found(verdict)[0] == (Kind.DUPLICATE, ("s2",), 0, 99)
    assert verdict.findings[0].detail == "its index names 5 of these numbers more than once"


def test_what_a_store_says_that_it_has_and_its_index_has_not_is_found(tampered: Strangers) -> None:
    verdict = only(tampered.audited(NOT_INDEXED))
    assert found(verdict) == [(Kind.UNREADABLE, ("s2",), 20, 29)]


def test_a_store_in_limbo_leaves_open_whether_it_ever_had_what_it_lacks(own_group: Group) -> None:
    own_group.publish("limbo", numbered(0, 99))
    own_group.kill(1, 2)
    own_group.wipe(2)
    # Without store 1 it can not hear from enough of the others to leave limbo.
    own_group.launch(2)
    report = audit(here, own_group.addresses)
    verdict = only(report)
    assert verdict.outcome is AuditOutcome.UNKNOWN
    assert [each.limbo != "" for each in report.stores] == [False, False, True]
    assert [each.silence != "" for each in report.stores] == [False, True, False]
    assert {each.kind for each in verdict.findings} == {Kind.UNSEEN}
    assert any("limbo" in each.detail and "s2" in each.stores for each in verdict.findings)


def test_a_store_that_keeps_state_only_lacks_nothing_and_proves_nothing(own_group: Group) -> None:
    own_group.kill(2)
    own_group.options[2] = ("--durability", "state-only")
    own_group.start(2)
    own_group.publish("keeping", numbered(0, 99))
    verdict = only(audit(here, own_group.addresses))
    assert verdict.summary == "no loss: 100 messages, 2 stores agree"
    assert verdict.findings == ()
    # Of the two that have the messages both have to be seen.
    own_group.kill(1)
    verdict = only(audit(here, own_group.addresses))
    assert verdict.outcome is AuditOutcome.UNKNOWN
    assert {each.stores for each in verdict.findings} == {(own_group.addresses[1],)}


def test_where_receivers_are_is_told(group: Group) -> None:
    group.publish("followed", numbered(0, 99))
    with Receiver.open(
        "followed", stores=group.stores, session_id=0x99, acknowledge="explicit"
    ) as receiver:
        for message in receiver:
            if message.sequence == 59:
                message.acknowledge(all_before=True)
                receiver.flush()
                break
    report = audit(here, group.addresses, selects=lambda topic: topic == "followed")
    (position,) = only(report).positions
    assert (position.session_id, position.upto, position.behind) == (0x99, 59, 40)
    assert set(position.by_store) == {"s0", "s1", "s2"}
    assert position.remarks[0] == "40 behind"


async def test_what_a_store_let_go_on_purpose_is_no_hole(tmp_path: Path) -> None:
    async with running(tmp_path / "s1", retention_messages=100) as node:
        async with await Source.open("let go", session_id=0x10, stores=node.address) as source:
            for first in range(0, 1_000, 50):
                await source.send_many(numbered(first, first + 49))
                await source.flush()
        verdict = only(await asyncio.to_thread(audit, here, [node.address]))
        async with asyncio.timeout(60):
            while not verdict.retained_from:
                await asyncio.sleep(0.05)
                verdict = only(await asyncio.to_thread(audit, here, [node.address], thorough=True))
    left = 1_000 - verdict.retained_from
    assert verdict.summary == (
        f"no loss: {left:,} messages, 1 store has them; "
        f"retention released numbers below {verdict.retained_from:,}"
    )


def test_one_store_under_two_addresses_does_not_agree_with_itself(apart: Strangers) -> None:
    port = apart.addresses[0].rpartition(":")[2]
    with pytest.raises(InvalidArgument, match="are one store"):
        audit(here, [*apart.addresses, f"localhost:{port}"])


def test_stores_that_are_away_leave_the_verdict_open(apart: Strangers) -> None:
    source = SourceName("away", 0x10)
    for number in range(3):
        apart.give(number, source, frames(source, 99, 10), 99)
    apart.kill(1)
    report = apart.audited(source.topic)
    verdict = only(report)
    assert verdict.outcome is AuditOutcome.UNKNOWN
    assert verdict.summary.startswith(
        "not known: 100 messages, of which 2 stores have all; s1 was not seen for [0, 99]: "
    )
    assert (report.outcome, report.outcome.exit_code) == (AuditOutcome.UNKNOWN, 10)
    apart.kill(2)
    verdict = only(apart.audited(source.topic))
    assert verdict.outcome is AuditOutcome.UNKNOWN
    assert any(
        "stable only if stores that were not seen have it" in each.detail
        for each in verdict.findings
    )
    with pytest.raises(Unreachable):
        audit(here, apart.addresses[1:])
    apart.start(1, 2)


# What is done to a disk.


def row_at(storage: RocksStorage, reg_id: int, first: int) -> IndexEntry:
    """The index row that begins at a number."""
    key = index_key(reg_id, first)
    ((key, value),) = storage.scan(Table.INDEX, key, key, 1)
    return unpack_index(key, value)


def frame_of(storage: RocksStorage, entry: IndexEntry) -> bytes:
    (frame,) = storage.get(Table.JOURNAL, [position_key(entry.position)])
    assert frame is not None
    return frame


def forge(storage: RocksStorage, reg_id: int) -> None:
    """Other content under 33 and 34, with a right checksum."""
    entry = row_at(storage, reg_id, 30)
    frame = frame_of(storage, entry)
    header = read_header(frame)
    payloads = read_payloads(frame, header)
    payloads[3:5] = [b"forged", b"forged, too"]
    forged = encode_batch(header.source, header.epoch, 30, payloads, header.timestamp_ns)
    row = pack_index(entry.position, entry.last, entry.epoch, read_header(forged).checksum)
    storage.write(
        [
            Write(Table.JOURNAL, position_key(entry.position), forged),
            Write(Table.INDEX, index_key(reg_id, 30), row),
        ]
    )


def rot(storage: RocksStorage, reg_id: int) -> None:
    entry = row_at(storage, reg_id, 50)
    frame = frame_of(storage, entry)
    rotten = frame[:-1] + bytes([frame[-1] ^ 1])
    storage.write([Write(Table.JOURNAL, position_key(entry.position), rotten)])


def name_twice(storage: RocksStorage, reg_id: int) -> None:
    entry = row_at(storage, reg_id, 20)
    row = pack_index(entry.position, entry.last, entry.epoch, entry.checksum)
    storage.write([Write(Table.INDEX, index_key(reg_id, 25), row)])


def take_out_of_index(storage: RocksStorage, reg_id: int) -> None:
    storage.write([Write(Table.INDEX, index_key(reg_id, 20), None)])
