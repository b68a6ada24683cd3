"""Alerts that are caused on real stores in this process: Prometheus' own rules judge the metrics.

Most tests expect exactly the alerts of their fault, so the other alerts are silent meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests import seams
from tests.certificates import files
from tests.queue.conftest import QueueStores
from tests.store.group import Group
from tests.store.monitor.promtool import promtool
from tests.store.monitor.scrapes import Scrape, Scrapes, at, without
from tests.store.monitor.test_pages import MONITOR, of_tls, trusting
from tests.store.support import Client, batch, running
from tests.store.tasks.test_retention_unreadable import lost, rotten

from quorate.client import connect
from quorate.console.group.authority import Authority
from quorate.store.node import StoreNode
from quorate.store.storage.rocksdb import RocksStorage
from quorate.transport.channels import open_channel
from quorate.transport.identities import hash_of
from quorate.transport.status import read_status, status_request
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2_grpc import StoreStub

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _needs_promtool() -> None:
    promtool("--version")


def of(*nodes: StoreNode, **more: Any) -> Scrapes:
    """Return what Prometheus reads of these stores."""
    names = "abc"[: len(nodes)]
    pages = {name: node.monitor_address for name, node in zip(names, nodes, strict=True)}
    return Scrapes(lambda: pages, **more)


def fired(scrapes: Scrapes, directory: Path) -> set[str]:
    """Return the alerts that fire, without those that a busy machine may cause by itself."""
    return scrapes.firing(directory) - {"QuorateDiskSlow", "QuorateStoreOverloaded"}


@pytest.mark.expects_log("free")
async def test_a_disk_that_is_almost_full(tmp_path: Path) -> None:
    bounds: dict[str, Any] = {"disk_free_min_bytes": 0, "disk_free_warning_bytes": 1 << 60}
    async with running(tmp_path, monitor=MONITOR, **bounds) as node:
        scrapes = of(node)
        await scrapes.last(1)
        assert fired(scrapes, tmp_path) == {"QuorateDiskAlmostFull"}


@pytest.mark.parametrize(("days", "alerts"), [(6.9, {"QuorateCertificateEnds"}), (8, set())])
async def test_a_certificate_that_is_about_to_end(
    tmp_path: Path, days: float, alerts: set[str]
) -> None:
    authority = Authority.new()
    tls = of_tls(files(tmp_path / "tls", authority, "s1", days=days))
    async with running(tmp_path / "s1", monitor=MONITOR, tls=tls) as node:
        scrapes = of(node, context=trusting(authority))
        await scrapes.last(1)
        assert fired(scrapes, tmp_path) == alerts


@pytest.mark.expects_log("may not")
async def test_calls_that_no_rule_permits(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"prometheus {hash_of('good')}\n")
    authority = Authority.new()
    tls = of_tls(files(tmp_path / "tls", authority, "s1"), tokens=tokens)
    access = [{"identities": ["prometheus"], "verbs": ["query"]}]
    async with (
        running(tmp_path / "s1", monitor=MONITOR, tls=tls, access=access) as node,
        open_channel(node.address, files(tmp_path / "eve", authority, "eve")) as channel,
    ):
        scrapes = of(node, context=trusting(authority), token="good")
        await scrapes.last(5)
        await denied(channel, 8)
        await scrapes.last(5)
        assert fired(scrapes, tmp_path) == set(), "a few are no alert"
        await denied(channel, 12)
        await scrapes.last(5)
        assert fired(scrapes, tmp_path) == {"QuorateCallsDenied"}


async def denied(channel: grpc.aio.Channel, calls: int) -> None:
    for _ in range(calls):
        with pytest.raises(grpc.aio.AioRpcError, match="may not query"):
            await read_status(StoreStub(channel).Status(status_request()))


async def holed(client: Client) -> None:
    """Make a store that lacks [10, 19]."""
    await client.promise()
    await client.begin()
    for first in (0, 20):
        stream = await client.open(retained_from=first, stable_upto=first - 1)
        await stream.batch(batch(first, first + 9), first - 1)
        await stream.durable(first + 9)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=first + 9))
        await stream.close()


@pytest.mark.expects_log("lacks")
async def test_a_hole_that_no_store_fills(tmp_path: Path) -> None:
    async with running(tmp_path, monitor=MONITOR) as node, Client(node.address) as client:
        await holed(client)
        scrapes = of(node)
        await scrapes.until(at("lacking_messages", "a", 10))
        await scrapes.last(14)
        assert fired(scrapes, tmp_path) == set()
        await scrapes.last(2)
        assert fired(scrapes, tmp_path) == {"QuorateMessagesLacking"}


async def test_a_store_that_is_started_again_and_again(tmp_path: Path) -> None:
    pages: dict[str, str] = {}
    scrapes = Scrapes(lambda: pages)
    for start in range(4):
        async with running(tmp_path, monitor=MONITOR) as node:
            pages["a"] = node.monitor_address
            await scrapes.last(3)
            fires = {"QuorateStoreRestarts"} if start == 3 else set()
            assert fired(scrapes, tmp_path) == fires, start


@pytest.mark.expects_log("cannot be read|retention|accepted by an operator|lacks|unreadable")
async def test_a_disk_that_rots_holds_its_space_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.RETENTION_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.RETENTION_SEARCH_SECONDS.replace(monkeypatch, 0.05)
    seams.RETENTION_COMPACT_SECONDS.replace(monkeypatch, 0.0)
    store = tmp_path / "s1"
    await rotten(store)
    async with running(store, monitor=MONITOR) as node, Client(node.address) as client:
        scrapes = of(node)
        await client.fetch()
        await scrapes.until(without("unreadable_messages", "a", 0))
        await scrapes.last(1)
        assert "QuorateMessagesUnreadable" in scrapes.firing(tmp_path)
        await lost(client, 50, 59)
        await scrapes.until(at("retention_held_up", "a", 1))
        await scrapes.until(at("unreadable_messages", "a", 0))
        await scrapes.last(31)
        assert fired(scrapes, tmp_path) == {"QuorateRetentionHeldUp"}


@pytest.mark.expects_log("holds? other content|refused ContentConflict")
async def test_two_stores_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.REPAIR_COMPARE_SECONDS.replace(monkeypatch, 0.02)
    group = Group(tmp_path, "ab")
    group.overrides = {name: {"monitor": MONITOR} for name in "ab"}
    try:
        await group.found()
        for name in "ab":
            async with group.client(name) as client:
                await stored(client, f"of {name} ")
        scrapes = of(group.nodes["a"], group.nodes["b"])
        await scrapes.until(without("conflicts", "a", 0), of="a")
        await scrapes.last(1)
        assert fired(scrapes, tmp_path) == {"QuorateStoresDiffer"}
    finally:
        await group.stop(*list(group.nodes))


async def stored(client: Client, salt: str) -> None:
    stream = await client.stream(stores="ab")
    await stream.batch(batch(0, 9, salt=salt))
    await stream.durable(9)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=9))
    await stream.close()


async def test_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = seams.ROCKS_STORAGE_SYNC.real()

    def slow(self: RocksStorage) -> None:
        time.sleep(0.3)  # in the thread of the writer
        sync(self)

    seams.ROCKS_STORAGE_SYNC.replace(monkeypatch, slow)
    async with (
        running(tmp_path, monitor=MONITOR) as node,
        connect(node.address) as client,
        client.source("orders", session_id=1) as source,
    ):
        scrapes = of(node)
        for _ in range(13):
            await source.publish(b"one")
            await scrapes.until(at("unstable_live_messages", "a", 0))
            await scrapes.last(1)
        assert "QuorateDiskSlow" in scrapes.firing(tmp_path)


async def test_rows_that_fall_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    # The store has always more to do than to make rows.
    seams.STATE_MAKING_GIVE_WAY.replace(monkeypatch, never)
    keyed = ({"pattern": "orders", "keys": "$key"},)
    async with (
        running(tmp_path, monitor=MONITOR, topic=keyed) as node,
        Client(node.address) as client,
    ):
        scrapes, stream = of(node), await client.stream()
        upto = -1
        for size in (1, *[10_010] * 10):
            first, upto = upto + 1, upto + size
            await stream.batch(batch(first, upto, key=b"k"))
            await stream.durable(upto)
            await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=upto))
        await scrapes.until(lambda now: now[ROW_LAG] > 100_000)
        await scrapes.until(at("unstable_messages", "a", 0))
        await scrapes.last(11)
        assert fired(scrapes, tmp_path) == {"QuorateRowsBehind"}


ROW_LAG = 'quorate_row_lag_messages{job="g", instance="a", topic="orders"}'
LATE = 'quorate_event_loop_lag_seconds_bucket{job="g", instance="a", le="0.25"}'
TURNS = 'quorate_event_loop_lag_seconds_count{job="g", instance="a"}'


async def test_a_store_that_gets_too_little_of_the_processor(tmp_path: Path) -> None:
    late = 0.0

    def is_late_again(scrape: Scrape) -> bool:
        return scrape[TURNS] - scrape[LATE] > late

    async with running(tmp_path, monitor=MONITOR) as node:
        scrapes = of(node)
        for _ in range(13):
            # The loop of the store cannot run meanwhile.
            time.sleep(1.0)  # noqa: ASYNC251
            await scrapes.until(is_late_again)
            late += 1
            await scrapes.last(1)
        assert "QuorateStoreOverloaded" in scrapes.firing(tmp_path)


@pytest.mark.expects_log("certificate|cannot be reached|TLS|handshake")
async def test_stores_of_which_one_does_not_trust_the_others(tmp_path: Path) -> None:
    authority, elsewhere = Authority.new(), Authority.new()
    group = Group(tmp_path)
    for name in group.addresses:
        trusts = elsewhere if name == "b" else authority
        tls = files(tmp_path / f"tls-{name}", authority, name, trusts=trusts)
        group.overrides[name] = {"monitor": MONITOR, "tls": of_tls(tls, mutual=False)}
    try:
        await group.start(*group.addresses)
        pages = {name: node.monitor_address for name, node in group.nodes.items()}
        scrapes = Scrapes(lambda: pages, trusting(authority))
        for name in "ac":
            await scrapes.until(without("peer_reachable", name, 0), of=name)
        await scrapes.until(without("peer_reachable", "b", 1), of="b")
        await scrapes.last(3)
        assert fired(scrapes, tmp_path) == {"QuorateStoresPartitioned"}
    finally:
        await group.stop(*list(group.nodes))


@pytest.fixture
async def queues(tmp_path: Path) -> AsyncIterator[QueueStores]:
    made = QueueStores(tmp_path, {}, monitor=True)
    try:
        await asyncio.gather(*map(made.start, made.addresses))
        yield made
    finally:
        for name in list(made.nodes):
            await made.stop(name)


@pytest.mark.expects_log("does not take|in limbo|lost its quorum|is fenced|cannot be reached")
async def test_a_queue_with_dead_letters_and_without_a_dispatcher(
    queues: QueueStores, tmp_path: Path
) -> None:
    scrapes = Scrapes(lambda: {name: node.monitor_address for name, node in queues.nodes.items()})
    async with (
        connect(queues.named) as client,
        client.source("orders", session_id=1) as source,
        client.queue("work") as consumer,
    ):
        await source.publish(b"one")
        job = await anext(consumer)
        (dispatcher,) = queues.dispatching
        await scrapes.last(2)
        assert fired(scrapes, tmp_path) == set()
        await job.discard("no such customer")
        await scrapes.until(at("queue_dead_messages_total", dispatcher, 1))
        await scrapes.last(2)
        assert "QuorateQueueDeadLetters" in scrapes.firing(tmp_path)
    await scrapes.last(16)
    for name in "bc":
        await queues.stop(name)
    await scrapes.until(without("queue_dispatches", "a", 1))
    await scrapes.last(4)
    assert "QuorateQueueNotDispatched" in scrapes.firing(tmp_path)
