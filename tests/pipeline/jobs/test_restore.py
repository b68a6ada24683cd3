"""From the archive back to stores, real ones: the same bytes, and everybody goes on."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests import seams
from tests.pipeline.archive.support import here
from tests.pipeline.group import SESSION, Group, numbered, until

from quorate.archive.reading import Archive
from quorate.archive.rules.source import ArchivedSource
from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.archive.tasks import Entry, Run, on_spark
from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.jobs.refill import Answered
from quorate.pipeline.jobs.restore import (
    RestoreReport,
    StoreRestored,
    note,
    opening,
    restore,
)
from quorate.pipeline.stores.client import (
    Stores,
    stub_of,
)
from quorate.protocol.errors import (
    ArchiveInvalid,
    ContentConflict,
    CorruptBatch,
    MissingMessages,
    OtherHistory,
    QuorateError,
    RestoreRefused,
    Unreachable,
)
from quorate.protocol.framing import plain, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout, StoreGroup
from quorate.protocol.limits import (
    MESSAGE_BYTES_MAX,
    PROTOCOL_VERSION,
    WHOLE_BATCH_BYTES_MAX,
)
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.wire import held_from_wire, membership_from_wire, policy_to_wire
from quorate.receiver import Receiver, Withdrawn
from quorate.source import SourceOptions
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

ORDERS = SourceName("orders", SESSION)


def layout(group: Group) -> Layout:
    return Layout.plain(group.stores)


def restored(group: Group, path: Path, run: Run = here, **fields: float) -> RestoreReport:
    return restore(run, str(path), layout(group), **fields)  # type: ignore[arg-type]


def archived(group: Group, path: Path, run: Run = here) -> None:
    report = archive(run, Stores(group.addresses), str(path))
    assert report.failures == {}


def frames(address: str, source: SourceName = ORDERS, last: int | None = None) -> list[bytes]:
    """What one store has of a source, as it is stable there."""
    stores = Stores([address])
    known = stores.sources().sources[source]
    upto = known.stable_upto if last is None else last
    return [piece.frame for piece in stores.fetch(source, known.lineage, 0, upto)]


def lineage(address: str, source: SourceName = ORDERS) -> Lineage:
    return Stores([address]).sources().sources[source].lineage


def publish_in_three_epochs(group: Group, topic: str = "orders") -> None:
    for first in (0, 3000, 6000):
        group.publish(topic, numbered(first, first + 2999))


def lose_everything(group: Group) -> None:
    """All stores lose their disks, and are started as a new group."""
    numbers = range(len(group.addresses))
    group.kill(*numbers)
    for number in numbers:
        group.wipe(number)
    group.start()


def test_a_group_that_lost_everything_gets_back_every_byte(
    spark: SparkSession, own_group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.ARCHIVING_FILE_BYTES_MAX.replace(monkeypatch, 50_000)
    seams.RESTORE_JOB_PART_MESSAGES.replace(monkeypatch, 3_000)
    group, path = own_group, tmp_path / "archive"
    publish_in_three_epochs(group)
    group.publish("trades", numbered(0, 99))
    before = frames(group.addresses[0])
    terms = lineage(group.addresses[0])
    assert len(terms.terms) == 3
    archived(group, path, on_spark(spark))
    lose_everything(group)
    assert not Stores(group.addresses).sources().sources

    report = restored(group, path, on_spark(spark))
    assert report.done, report.as_object()
    for address in group.addresses:
        assert frames(address) == before
        assert lineage(address) == terms
        known = Stores([address]).sources().sources[ORDERS]
        assert (known.stable_upto, known.held.low, known.held.high) == (8999, 0, 8999)
    assert "goes on at 9000" in report.warnings[0]
    said = json.loads(json.dumps(report.as_object()))
    assert {each["store"] for each in said["sources"][0]["stores"]} == set(group.addresses)

    # Again: nothing is written, everything is compared.
    again = restored(group, path)
    assert again.done
    stores = again.sources[ORDERS].values()
    assert [(each.written, each.held_already) for each in stores] == [(0, 9000)] * 3
    assert again.warnings == []

    # The source goes on, with a higher epoch, and a receiver gets all of it.
    with group.open("orders") as source:
        assert source.next_sequence == 9000
        assert source.epoch > terms.epoch
        source.send_many(numbered(9000, 9099))
        source.flush()
    assert asyncio.run(received(group, 9100)) == numbered(0, 9099)


async def received(group: Group, count: int) -> list[bytes]:
    payloads: list[bytes] = []
    async with asyncio.timeout(60):
        async with await Receiver.open("orders", session_id=0x20, stores=group.stores) as receiver:
            async for message in receiver:
                assert message.sequence == len(payloads)
                payloads.append(message.payload)
                if len(payloads) == count:
                    return payloads
    return payloads


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Group]:
    """A group of one store: enough where it does not matter what others do."""
    (tmp_path / "one").mkdir()
    group = Group(tmp_path / "one", 1)
    group.start()
    yield group
    group.stop()


def test_large_messages_are_archived_and_come_back(one: Group, tmp_path: Path) -> None:
    large = [random.Random(seed).randbytes(5 * 2**20 + seed) for seed in range(3)]
    options = SourceOptions(registration_interval=0.3, message_bytes_max=MESSAGE_BYTES_MAX)
    with one.open("orders", options=options) as source:
        source.send_many([b"first", large[0], b"between", large[1]])
        source.send(large[2], key=b"key", properties={"name": b"value"})
        source.flush()
    one.until_stable(ORDERS, 4)
    before = frames(one.addresses[0])
    assert [len(frame) > WHOLE_BATCH_BYTES_MAX for frame in before].count(True) == 3
    archived(one, tmp_path / "archive")
    lose_everything(one)
    report = restored(one, tmp_path / "archive")
    assert report.done, report.as_object()
    assert frames(one.addresses[0]) == before
    with one.open("orders") as source:
        assert source.next_sequence == 5
        assert asyncio.run(received(one, 5)) == [b"first", large[0], b"between", *large[1:]]


def test_compressed_batches_are_archived_and_come_back_as_they_were_before(
    one: Group, tmp_path: Path
) -> None:
    rows = [b'{"year": 2013, "carrier": "UA", "flight": %d}' % number for number in range(3000)]
    options = SourceOptions(registration_interval=0.3, compression="zstd")
    with one.open("orders", options=options) as source:
        source.send_many(rows)
        source.commit(rows[:100], b"mark")
        source.flush()
    one.until_stable(ORDERS, 3099)
    before = frames(one.addresses[0])
    assert all(read_header(frame).is_compressed for frame in before[1:])
    archived(one, tmp_path / "archive")
    archived(one, tmp_path / "archive")
    lose_everything(one)
    assert restored(one, tmp_path / "archive").done
    after = frames(one.addresses[0])
    assert after == [plain(frame, read_header(frame)) for frame in before]
    assert asyncio.run(received(one, 3100)) == [*rows, *rows[:100]]


@pytest.mark.expects_log("is being restored from an archive")
def test_a_job_that_died_goes_on_where_it_was(
    one: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.ARCHIVING_FILE_BYTES_MAX.replace(monkeypatch, 10_000)
    seams.RESTORE_JOB_PART_MESSAGES.replace(monkeypatch, 3_000)
    path, address = tmp_path / "archive", one.addresses[0]
    publish_in_three_epochs(one)
    before = frames(address)
    archived(one, path)
    lose_everything(one)

    def dies(parts: Sequence[Any], task: Callable[[Any], Iterator[Entry]]) -> list[Entry]:
        assert len(parts) > 2
        here(parts[1:2], task)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restored(one, path, dies)
    # Meanwhile nobody takes the stream for one that ends, or begins, in the middle.
    with pytest.raises(QuorateError):
        one.open("orders", timeout=2.0).close()
    one.kill(0)
    one.start()
    report = restored(one, path)
    (store,) = report.sources[ORDERS].values()
    assert report.done
    assert 0 < store.held_already < 9000
    assert store.written + store.held_already == 9000
    assert frames(address) == before


def test_other_content_under_the_same_numbers_is_reported_and_kept(
    one: Group, tmp_path: Path
) -> None:
    one.publish("orders", numbered(0, 99))
    archived(one, tmp_path / "archive")
    lose_everything(one)
    one.publish("orders", numbered(100, 299))  # the same epochs and numbers
    before = frames(one.addresses[0])
    report = restored(one, tmp_path / "archive")
    (store,) = report.sources[ORDERS].values()
    assert isinstance(store.failure, ContentConflict)
    assert not report.done
    assert frames(one.addresses[0]) == before


def test_a_stream_that_went_on_otherwise_is_refused(one: Group, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    publish_in_three_epochs(one)
    archived(one, path)
    lose_everything(one)
    one.publish("orders", numbered(0, 99))
    one.publish("orders", numbered(0, 99))
    before = frames(one.addresses[0])
    report = restored(one, path)
    (store,) = report.sources[ORDERS].values()
    assert isinstance(store.failure, OtherHistory)
    assert store.failure.first == 100
    assert frames(one.addresses[0]) == before


def test_a_store_that_is_away_keeps_no_other_from_it(own_group: Group, tmp_path: Path) -> None:
    group, path = own_group, tmp_path / "archive"
    publish_in_three_epochs(group)
    before = frames(group.addresses[0])
    archived(group, path)
    lose_everything(group)
    group.kill(2)
    report = restored(group, path, patience=0.0)
    stores = report.sources[ORDERS]
    away = stores[group.addresses[2]]
    assert isinstance(away.failure, Unreachable)
    assert [stores[each].done for each in group.addresses] == [True, True, False]
    assert not report.done
    # Wiped once more, it is in limbo, and then filled by its peers; the job waits for that.
    group.wipe(2)
    group.start(2)
    assert restored(group, path).done
    assert frames(group.addresses[2]) == before


@pytest.mark.expects_log("cannot be reached")
def test_what_is_left_after_too_many_losses_is_made_whole(own_group: Group, tmp_path: Path) -> None:
    """Two of three disks are lost, and the third had been away for the last third of the stream."""
    group, path = own_group, tmp_path / "archive"
    for first in (0, 3000):
        group.publish("orders", numbered(first, first + 2999))
    group.kill(2)
    group.publish("orders", numbered(6000, 8999))
    before = frames(group.addresses[0])
    archived(group, path)
    group.kill(0, 1)
    group.wipe(0)
    group.wipe(1)
    group.launch()
    refused = restored(group, path, patience=0.0)
    for address in group.addresses[:2]:
        assert isinstance(refused.sources[ORDERS][address].failure, RestoreRefused)
    request = store_v1.AcceptLossRequest(
        first=-1, last=-1, reason="two disks burnt", protocol_version=PROTOCOL_VERSION
    )
    stub_of(group.addresses[0]).AcceptLoss(request)
    until("all vouch", lambda: not Stores(group.addresses).sources().limbo)
    report = restored(group, path)
    assert report.done, report.as_object()
    assert [frames(address) for address in group.addresses] == [before] * 3


@pytest.mark.long
def test_a_damaged_archive_is_reported_and_nothing_of_it_is_taken(
    one: Group, tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    one.publish("orders", numbered(0, 999))
    archived(one, path)
    lose_everything(one)
    (file,) = Archive(str(path)).table.files
    damaged = bytearray((path / file.path).read_bytes())
    damaged[len(damaged) // 3] ^= 1
    (path / file.path).write_bytes(damaged)
    report = restored(one, path)
    (store,) = report.sources[ORDERS].values()
    assert isinstance(store.failure, ArchiveInvalid | CorruptBatch), store
    assert not store.vouches
    with pytest.raises((MessagesGone, MissingMessages)):
        frames(one.addresses[0], last=999)


@pytest.mark.expects_log("cannot be reached|refused an acknowledgement|is withdrawn by epoch")
@pytest.mark.expects_log("does not register the receiver")
async def test_receivers_that_lived_through_it_are_told_what_is_withdrawn(
    one: Group, tmp_path: Path
) -> None:
    """And get what came under the numbers that were lost: in another epoch."""
    path = tmp_path / "archive"
    await asyncio.to_thread(one.publish, "orders", numbered(0, 99))
    got: list[tuple[int, bytes]] = []
    withdrawn: asyncio.Future[Withdrawn] = asyncio.get_running_loop().create_future()

    async def take(receiver: Receiver, count: int) -> None:
        async for message in receiver:
            got.append((message.sequence, message.payload))
            if len(got) == count:
                return

    async def listen(receiver: Receiver) -> None:
        async for event in receiver.events():
            if isinstance(event, Withdrawn):
                withdrawn.set_result(event)

    def loses_everything() -> None:
        lose_everything(one)
        assert restored(one, path).done

    async with (
        asyncio.timeout(100),
        await Receiver.open("orders", session_id=0x20, stores=one.stores) as receiver,
    ):
        listening = asyncio.create_task(listen(receiver))
        await take(receiver, 100)
        await asyncio.to_thread(archived, one, path)
        await asyncio.to_thread(one.publish, "orders", numbered(100, 109))
        await take(receiver, 110)
        await asyncio.to_thread(loses_everything)
        await asyncio.to_thread(one.publish, "orders", [b"new %d" % n for n in range(100, 150)])
        await take(receiver, 160)
        event = await withdrawn
        listening.cancel()
    assert (event.first, event.last) == (100, 109)
    assert got[100:110] == [(n, b"%d" % n) for n in range(100, 110)]
    assert got[110:] == [(n, b"new %d" % n) for n in range(100, 150)]


# What stores are told.


def source_in_archive() -> ArchivedSource:
    policy = Policy.majority_of(("a", "b", "c"))
    return ArchivedSource(
        ORDERS,
        Lineage((Term(3, 0),)),
        10,
        99,
        Membership((policy,), (policy,)),
        v1.SourceInformation(address="h:9", epoch=3, version=5, stores=[v1.StoreEntry(name="a")]),
        7,
        12,
        (HeldRange(20, 29, 3),),
    )


def test_a_group_of_the_same_names_keeps_its_policy() -> None:
    same = Layout.plain("a=h:1,b=h:2,c=h:3,d=h:4")
    made = opening(source_in_archive(), same)
    policy = Policy.majority_of(("a", "b", "c"))
    membership = membership_from_wire(made.membership)
    assert (membership.from_policies, membership.to_policies) == ((policy,), (policy,))
    assert dict(membership.addresses)["c"] == "h:3"
    assert [each.name for each in made.information.stores] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("lacking", "warned"),
    [
        pytest.param((HeldRange(10, 99, 1),), True, id="all"),
        pytest.param((HeldRange(90, 99, 1),), True, id="the end"),
        pytest.param((HeldRange(40, 49, 1),), False, id="a part in the middle"),
    ],
)
def test_a_store_that_was_only_mended_lets_no_number_be_given_again(
    lacking: tuple[HeldRange, ...], warned: bool
) -> None:
    request, restored = opening(source_in_archive(), Layout.plain("a=h:1")), StoreRestored("a")
    note(restored, Answered(lacking=lacking), request)
    restored.written = sum(each.last - each.first + 1 for each in lacking)
    note(restored, Answered(limbo=False), request)
    report = RestoreReport("/archive", 3, {ORDERS: {"a": restored}}, {ORDERS: 99})
    assert bool(report.warnings) is warned


def test_epochs_that_nobody_knows_of_are_not_used_twice() -> None:
    layout = Layout.plain("a=h:1,b=h:2,c=h:3")
    assert opening(source_in_archive(), layout).promised_epoch == 1007
    # Where stores know the source, they know its epochs; nobody who lives is fenced.
    assert opening(source_in_archive(), layout, 5).promised_epoch == 7
    assert opening(source_in_archive(), layout, 9).promised_epoch == 9


def test_another_group_has_its_own() -> None:
    other = Layout.of(StoreGroup("new", "x=h:1,y=h:2,z=h:3", "all"))
    made = opening(source_in_archive(), other)
    assert membership_from_wire(made.membership).to_policies == (other.policy,)
    assert (made.first, made.last, made.reg_id) == (10, 99, 12)
    assert held_from_wire(made.accepted_losses) == (HeldRange(20, 29, 3),)
    assert (made.information.address, made.information.epoch) == ("h:9", 3)
    assert made.information.policy == policy_to_wire(other.policy)
