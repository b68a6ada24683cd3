"""Retention at work in real stores: what goes, what is answered for it, and the disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import seams
from tests.store.group import Group
from tests.store.large import COUNT, fetched, fragments_in, frames_of, large, send
from tests.store.support import ORDERS, Client, batch, payload, running

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.wire import source_to_wire
from quorate.store import startup
from quorate.store.node import StoreNode
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.records import position_key
from quorate.store.storage.rocksdb import RocksStorage
from quorate.store.tasks import (
    repair,
)
from quorate.store.tasks import (
    retention as releasing,
)
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

FIRST = Lineage((Term(1, 0),))
ABC = Policy.majority_of("abc")
RECORD = Membership((ABC,), (ABC,))


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.RETENTION_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.RETENTION_STEP_BATCHES.replace(monkeypatch, 2)
    seams.RETENTION_SEARCH_SECONDS.replace(monkeypatch, 0.1)
    seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.PEER_POLLING_ROUND_SECONDS.replace(monkeypatch, 0.05)


async def until(client: Client, so: Callable[[store_v1.SourceStatus], bool]) -> Any:
    """What the store says of its only source once it is so."""
    async with asyncio.timeout(60):
        while True:
            status = await client.status()
            if status.sources and so(status.sources[0]):
                return status.sources[0]
            await asyncio.sleep(0.02)


async def filled(client: Client, first: int = 0, last: int = 99) -> None:
    """Batches of ten that are all stable."""
    if first == 0:
        await client.promise()
        await client.begin(FIRST, membership=RECORD)
    stream = await client.open(1, retained_from=first)
    for at in range(first, last + 1, 10):
        await stream.batch(batch(at, at + 9), first - 1)
    await stream.durable(last)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=last))
    await stream.close()


async def reclaimed(client: Client, batches: int) -> store_v1.StatusResponse:
    """The store's status once so many batches have left its journal."""
    async with asyncio.timeout(60):
        while (status := await client.status()).retention.batches < batches:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return status


async def archived(client: Client, upto: int) -> int:
    told = store_v1.ArchivedSource(source=source_to_wire(ORDERS), upto=upto)
    request = store_v1.ArchivedRequest(sources=[told], protocol_version=PROTOCOL_VERSION)
    (answer,) = (await client.call("Archived", request)).answers
    if answer.refused:
        raise InvalidArgument("upto", answer.refused)
    upto = answer.archived_upto
    return upto


async def test_what_is_over_the_bound_goes_and_that_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, retention_messages=30) as node, Client(node.address) as client:
        await filled(client)
        source = await until(client, lambda source: source.retained_from == 70)
        assert [(item.first, item.last) for item in source.held] == [(70, 99)]
        assert not source.holes
        status = await reclaimed(client, 7)
        assert status.retention.messages == 70
        assert status.retention.bytes == status.sources[0].released_bytes > 0
        fetched = await client.fetch(first=10, last=20)
        assert fetched.missing == [(10, 69, v1.LOOKUP_RELEASED)], "all of it, at once"
        fetched = await client.fetch(first=65, last=99)
        assert fetched.missing == [(65, 69, v1.LOOKUP_RELEASED)]
        assert fetched.messages == {n: payload(n) for n in range(70, 100)}
    async with running(tmp_path) as node, Client(node.address) as client:
        (source,) = (await client.status()).sources
        assert source.retained_from == 70
        await filled(client, 100, 149)
        assert (await client.fetch()).messages == {n: payload(n) for n in range(70, 150)}


@pytest.mark.parametrize(
    ("settings", "retained_from"),
    [({"retention_messages": 15}, 80), ({"retention_bytes": 1}, 90)],
    ids=["messages", "bytes"],
)
async def test_what_a_bound_keeps_stays_and_is_not_looked_at_again_and_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    retained_from: int,
) -> None:
    """A source is over its bound by a part of a batch most of the time."""
    seams.RETENTION_SEARCH_SECONDS.replace(monkeypatch, 3600.0)
    looked: list[str] = []
    ten_rounds = asyncio.Event()
    choose, compact = seams.RETENTION_RULES_CHOOSE.real(), seams.RELEASING_COMPACT.real()

    def chosen(*arguments: Any) -> Any:
        looked.append("at the rows")
        return choose(*arguments)

    async def compacted(self: releasing.Releasing, now: float) -> None:
        looked.append("at the disk")
        if looked.count("at the disk") == 10:
            ten_rounds.set()
        await compact(self, now)

    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        await filled(client)
        await until(client, lambda source: source.retained_from == retained_from)
        seams.RETENTION_RULES_CHOOSE.replace(monkeypatch, chosen)
        seams.RELEASING_COMPACT.replace(monkeypatch, compacted)
        async with asyncio.timeout(60):
            await ten_rounds.wait()
        assert looked.count("at the rows") <= 1
        assert (await client.fetch()).messages == {n: payload(n) for n in range(retained_from, 100)}


async def test_nothing_goes_before_it_is_archived(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"retention_messages": 10, "retain_until": ("archived",)}
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        with pytest.raises(InvalidArgument, match="orders"):
            await archived(client, 5)
        await filled(client)
        source = await until(client, lambda source: "archive" in source.kept_because)
        assert (source.retained_from, source.archived_upto) == (0, -1)
        with pytest.raises(InvalidArgument, match="99"):
            await archived(client, 100)
        assert await archived(client, 54) == 54
        assert await archived(client, 30) == 54
        await until(client, lambda source: source.retained_from == 50)
        assert await archived(client, 99) == 99
        source = await until(client, lambda source: source.retained_from == 90)
        await until(client, lambda source: source.kept_because == "")


async def test_a_receiver_that_only_another_store_knows_keeps_messages(tmp_path: Path) -> None:
    """Receivers register with a stable set; the third store must not let go what they need."""
    group = Group(tmp_path, ("a", "b"))
    group.overrides["a"] = {"retention_messages": 10, "retain_until": ("acknowledged",)}
    await group.found()
    async with group.client("a") as a, group.client("b") as b:
        await filled(b)
        request = store_v1.RegisterReceiverRequest(
            source=source_to_wire(ORDERS),
            session_id=7,
            instance=b"r",
            epoch=1,
            protocol_version=PROTOCOL_VERSION,
        )
        await b.call("RegisterReceiver", request)
        await group.greeted("a", "b")
        await group.rounds("a", 2)
        await filled(a)
        source = await until(a, lambda source: "receiver 0x7" in source.kept_because)
        assert source.retained_from == 0
        acknowledgement = store_v1.Acknowledgement(
            source=source_to_wire(ORDERS), instance=b"r", epoch=1, upto=42, source_epoch=1
        )
        await b.call(
            "Acknowledge",
            store_v1.AcknowledgeRequest(session_id=7, acknowledgements=[acknowledgement]),
        )
        await until(a, lambda source: source.retained_from == 40)
    await group.stop("b")
    await group.stop("a")


async def test_a_store_that_was_not_heard_may_know_receivers(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "retention_messages": 10,
        "retain_until": ("acknowledged",),
        "peers": ("127.0.0.1:9",),
    }
    async with running(tmp_path) as node, Client(node.address) as client:
        await filled(client)
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        source = await until(client, lambda source: source.kept_because != "")
        assert "127.0.0.1:9 was not heard" in source.kept_because
        assert source.retained_from == 0


async def test_a_wiped_store_takes_over_what_others_let_go_and_others_keep_more(
    tmp_path: Path,
) -> None:
    group = Group(tmp_path)
    group.overrides["a"] = {"retention_messages": 30}
    await group.found()
    for name in "abc":
        async with group.client(name) as client:
            await filled(client)
    async with group.client("a") as a, group.client("b") as b:
        await until(a, lambda source: source.retained_from == 70)
        source = await until(b, lambda source: source.retained_from == 70)
        assert [(item.first, item.last) for item in source.held] == [(0, 99)], "it is kept here"
        assert (await b.fetch()).messages == {n: payload(n) for n in range(100)}
    await group.wipe("c")
    await group.start("c")
    await group.vouching("c")
    async with group.client("c") as c:
        source = await until(c, lambda source: source.stable_upto == 99)
        assert [(item.first, item.last) for item in source.held] == [(70, 99)]
        assert (source.retained_from, list(source.holes)) == (70, [])
        assert (await c.fetch(first=0, last=99)).missing == [(0, 69, v1.LOOKUP_RELEASED)]
    await group.stop("a", "b", "c")


async def test_what_a_peer_lets_go_while_it_is_fetched_is_nothing_to_complain_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group(tmp_path, ("a", "b"))
    group.overrides["a"] = {"retention_messages": 30, "retain_until": ("archived",)}
    await group.found()
    async with group.client("a") as a, group.client("b") as b:
        run_errands = seams.REPAIR_RUN_ERRANDS.real()

        async def run_them_late(self: repair.Repair, *arguments: Any) -> None:
            await archived(a, 69)
            await until(a, lambda source: source.retained_from == 70)
            await run_errands(self, *arguments)

        seams.REPAIR_RUN_ERRANDS.replace(monkeypatch, run_them_late)
        await filled(a)
        source = await until(b, lambda source: source.retained_from == 70 and bool(source.held))
        assert [(item.first, item.last) for item in source.held] == [(70, 99)]
        await group.rounds("b", 2)
    await group.stop("a", "b")


@pytest.mark.expects_log("its messages are deleted")
async def test_a_deregistered_source_leaves_the_disk(tmp_path: Path) -> None:
    async with (
        running(tmp_path, deletion_grace=0.0) as node,
        Client(node.address) as client,
    ):
        await filled(client)
        await client.end()
        await reclaimed(client, 10)
    storage = RocksStorage(tmp_path / "rocksdb", read_only=True)
    assert storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 1) == []
    storage.close()


async def test_a_large_batch_leaves_with_all_of_its_fragments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.RETENTION_COMPACT_SECONDS.replace(monkeypatch, 0.0)
    compacted: list[Table] = []
    compact = RocksStorage.compact

    def noted(self: RocksStorage, table: Table, first: bytes, last: bytes) -> None:
        compacted.append(table)
        compact(self, table, first, last)

    seams.ROCKS_STORAGE_COMPACT.replace(monkeypatch, noted)
    async with running(tmp_path, retention_messages=2) as node, Client(node.address) as client:
        await client.promise()
        await client.begin(FIRST, membership=RECORD)
        stream = await client.open()
        for sequence in range(5):
            await send(stream, large(sequence), sequence - 1)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=4))
        await stream.close()
        await until(client, lambda source: source.retained_from == 3)
        status = await reclaimed(client, 3)
        assert status.retention.bytes == sum(large(sequence).size for sequence in range(3))
        assert node._engine is not None
        assert fragments_in(node._engine.reads) == 2 * COUNT
        kept = [large(sequence).joined() for sequence in (3, 4)]
        assert frames_of(await fetched(client)) == kept
        async with asyncio.timeout(20):
            while Table.FRAGMENTS not in compacted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@pytest.mark.expects_log("its messages are deleted")
async def test_a_deregistered_source_leaves_no_fragment(tmp_path: Path) -> None:
    async with (
        running(tmp_path, deletion_grace=0.0) as node,
        Client(node.address) as client,
    ):
        stream = await client.stream()
        await send(stream, large(0))
        await stream.close()
        await client.end()
        await reclaimed(client, 1)
        assert node._engine is not None
        assert fragments_in(node._engine.reads) == 0


def test_rocksdb_gives_the_space_of_deleted_rows_back(tmp_path: Path) -> None:
    storage = RocksStorage(tmp_path / "db", create=True)

    def tables() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "db").glob("*.sst"))

    size = 100_000
    for at in range(200):
        storage.write([Write(Table.JOURNAL, position_key(at), at.to_bytes(4, "big") * (size // 4))])
    storage.compact(Table.JOURNAL, position_key(0), position_key(199))
    assert tables() > 195 * size
    storage.write([Write(Table.JOURNAL, position_key(at), None) for at in range(150)])
    storage.sync()
    storage.compact(Table.JOURNAL, position_key(0), position_key(149))
    assert tables() < 60 * size
    kept = storage.get(Table.JOURNAL, [position_key(at) for at in range(200)])
    assert [value is not None for value in kept] == [False] * 150 + [True] * 50
    storage.close()


async def test_what_is_old_goes_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both clocks are the test's: the store's own, and the time of day."""
    observed, wall = 0.0, 1e9
    seams.RELEASING_OBSERVED.replace(monkeypatch, property(lambda _: observed))
    clocks = SimpleNamespace(time=lambda: wall, monotonic=time.monotonic)
    seams.TIME_IN_RETENTION.replace(monkeypatch, clocks)
    settings: dict[str, Any] = {"retention_seconds": 1000.0}
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        await filled(client, 0, 49)
        observed, wall = 100.0, wall + 100.0
        await marked(node, 2)
        await filled(client, 50, 99)
        observed, wall = 200.0, wall + 1e8
        await marked(node, 3)
        assert (await until(client, lambda _: True)).retained_from == 0, "the clock jumped"
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        observed = 605.0
        await until(client, lambda source: source.retained_from == 50)
        observed, wall = 705.0, wall + 1000.0
        await until(client, lambda source: source.retained_from == 100)
        assert (await client.fetch()).missing == [(0, 99, v1.LOOKUP_RELEASED)]


async def marked(node: StoreNode, count: int) -> None:
    """Return when the store has noted so many times how far its journal had come."""
    engine = node._engine
    assert engine is not None
    async with asyncio.timeout(60):
        while len(startup.ages(engine.reads).marks) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
