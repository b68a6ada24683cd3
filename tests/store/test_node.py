"""Starting and stopping a store, and what it finds of its former life."""

from __future__ import annotations

import asyncio
import errno
import shutil
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.store.support import (
    MEMBERSHIP,
    ORDERS,
    TRADES,
    Client,
    batch,
    configuration,
    payload,
    running,
)

from quorate.protocol.errors import (
    ConfigurationInvalid,
    DataDirectoryCorrupt,
    DataDirectoryInUse,
    InvalidArgument,
    SourceActive,
    StorageFailed,
)
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.store.configuration import cannot_listen
from quorate.store.node import StoreNode
from quorate.store.storage.data_directory import DataDirectory
from quorate.store.storage.interface import Columns, Write
from quorate.store.storage.reader import StoredBatch
from quorate.store.storage.rocksdb import RocksStorage
from quorate.store.tasks.lifecycle import AskedEnd
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


async def test_a_restart_has_everything(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        incarnation = (await client.promise()).incarnation
        await client.begin()
        stream = await client.open()
        await stream.append(0, 9)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=8))
        await stream.close()
    async with running(tmp_path) as node, Client(node.address) as client:
        promised = await client.promise(2, b"b")
        assert (promised.incarnation, promised.stable_upto) == (incarnation, 8)
        assert (await client.fetch()).messages == {n: payload(n) for n in range(10)}


@pytest.mark.expects_log("its messages are deleted")
async def test_what_is_deleted_while_it_is_read_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row without a registration would keep the store from ever starting again."""
    reads, deleted = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(*wanted: Any) -> list[StoredBatch]:
        loop.call_soon_threadsafe(reads.set)
        assert deleted.wait(60)
        return [StoredBatch(wanted[3], b"", "it is gone")]

    seams.READ_IN_STORE_SERVICE.replace(monkeypatch, slow)
    async with running(tmp_path) as node, Client(node.address) as client:
        await (await client.stream()).append(0, 9)
        fetching = asyncio.create_task(client.fetch())
        await reads.wait()
        await client.end()
        deleted.set()
        assert [missing[:2] for missing in (await fetching).missing] == [(0, 9)]
    async with running(tmp_path) as node, Client(node.address) as client:
        assert not (await client.status()).sources


@pytest.mark.expects_log("its messages are deleted")
async def test_who_gives_a_promise_back_late_says_nothing_of_what_was_deleted(
    tmp_path: Path,
) -> None:
    """Its end stays as it is."""
    async with running(tmp_path) as node, Client(node.address) as client:
        await (await client.stream()).append(0, 9)
        engine, keeper = node._engine, node.keeper
        assert engine is not None
        assert keeper is not None
        await keeper.end_source(AskedEnd(ORDERS, 2, b"ends"))
        incarnation = engine.core.standing.record.incarnation
        asked = AskedEnd(ORDERS, 2, b"ends", MEMBERSHIP, incarnation)
        await keeper.end_source(asked)
        request = store_v1.DeregisterRequest(
            source=source_to_wire(ORDERS),
            epoch=2,
            unused_promise_to=b"another",
            protocol_version=PROTOCOL_VERSION,
        )
        await client.call("Deregister", request)
        known = engine.core.identities.ended[ORDERS].state.registration
        assert (known.promised_epoch, known.begun.epoch) == (2, 2)


@pytest.mark.expects_log("its messages are deleted")
async def test_a_promise_that_is_given_back_keeps_nobody_out_of_an_ended_source(
    tmp_path: Path,
) -> None:
    """Instances that are refused and begin again would otherwise keep each other out for ever."""
    lasting = running(tmp_path, source_activity_timeout=3600.0)
    async with lasting as node, Client(node.address) as client:
        await (await client.stream()).append(0, 9)
        await client.end()
        await client.promise(3, instance=b"first")
        with pytest.raises(SourceActive):
            await client.promise(4, instance=b"second")
        request = store_v1.DeregisterRequest(
            source=source_to_wire(ORDERS),
            epoch=3,
            unused_promise_to=b"first",
            protocol_version=PROTOCOL_VERSION,
        )
        await client.call("Deregister", request)
        assert (await client.promise(4, instance=b"second")).reg_id


async def test_a_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = StoreNode(configuration(tmp_path, listen=f"127.0.0.1:{port}"))
        with pytest.raises(InvalidArgument, match=rf"cannot listen on 127.0.0.1:{port} \("):
            await node.start()
    async with running(tmp_path):
        pass


async def test_an_unknown_host_is_a_clear_error(tmp_path: Path) -> None:
    node = StoreNode(configuration(tmp_path, listen="no-such-host.invalid:0"))
    with pytest.raises(ConfigurationInvalid, match=r"name no-such-host\.invalid has no"):
        await node.start()


def test_a_name_server_that_is_away_is_no_fault_of_the_configuration() -> None:
    away = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert isinstance(cannot_listen("listen", "a.example:7301", away), InvalidArgument)


async def test_a_data_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path):
        with pytest.raises(DataDirectoryInUse):
            await StoreNode(configuration(tmp_path)).start()


async def test_a_store_that_is_stopped_while_it_starts_ends_cleanly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, stops = asyncio.Event(), threading.Event()
    loop, sources = asyncio.get_running_loop(), seams.STORE_STARTUP_SOURCES.real()

    def slow(*arguments: Any) -> Any:
        loop.call_soon_threadsafe(reads.set)
        assert stops.wait(60)
        return sources(*arguments)

    seams.STORE_STARTUP_SOURCES.replace(monkeypatch, slow)
    node = StoreNode(configuration(tmp_path))
    starting = asyncio.create_task(node.start())
    await reads.wait()
    stopping = asyncio.create_task(node.stop())
    await asyncio.sleep(0)
    stops.set()
    await asyncio.gather(starting, stopping)
    await node.wait()
    assert all(task.done() for task in node._tasks)
    async with running(tmp_path):  # nothing holds the directory
        pass


async def test_a_store_that_cannot_start_can_be_stopped(tmp_path: Path) -> None:
    node = StoreNode(configuration(tmp_path, disk_free_min_bytes=2**60))
    with pytest.raises(StorageFailed):
        await node.start()
    await node.stop()
    assert node._stopping is not None
    await node._stopping
    await node.wait()


async def test_it_says_how_others_reach_it(tmp_path: Path) -> None:
    async with running(tmp_path, advertise="store.example:7301") as node:
        assert node.address == "store.example:7301"


async def test_a_log_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await (await client.stream()).append(0, 9)
    directory = DataDirectory(tmp_path, "s1")
    directory.acknowledged += 1
    directory.close()
    with pytest.raises(DataDirectoryCorrupt, match="was acknowledged, but the last one there is"):
        await StoreNode(configuration(tmp_path)).start()


def flip(files: Iterable[Path], content: bytes) -> None:
    """Flip a bit of this content wherever it is found."""
    flipped = 0
    for path in files:
        held = bytearray(path.read_bytes())
        at = held.find(content)
        if at >= 0:
            held[at] ^= 1
            path.write_bytes(held)
            flipped += 1
    assert flipped


async def test_a_bit_flip_in_the_log_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as node, Client(node.address) as client:
        stream = await client.stream()
        for first in range(0, 100, 10):
            await stream.append(first, first + 9)
        # As a crash would leave it.
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
    flip((tmp_path / "copy" / "rocksdb").glob("*.log"), payload(50))
    with pytest.raises(DataDirectoryCorrupt, match="was acknowledged, but the last one there is"):
        await StoreNode(configuration(tmp_path / "copy")).start()


@pytest.mark.expects_log("cannot be read")
async def test_a_bit_flip_on_the_disk_is_never_served(tmp_path: Path) -> None:
    salt = "long " * 200
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        for first in range(0, 100, 10):
            await stream.append(first, first + 9, salt=salt)
    flip((tmp_path / "rocksdb").glob("*.sst"), payload(55, salt))
    async with running(tmp_path) as node, Client(node.address) as client:
        fetched = await client.fetch()
        assert fetched.missing == [(50, 59, v1.LOOKUP_UNKNOWN)], "it may be had elsewhere"
        expected = {n: payload(n, salt) for n in range(100) if not 50 <= n <= 59}
        assert fetched.messages == expected
        assert fetched.high == 99


async def test_a_missing_database_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await client.promise()
    (tmp_path / "rocksdb").rename(tmp_path.parent / "elsewhere")
    with pytest.raises(DataDirectoryCorrupt):
        await StoreNode(configuration(tmp_path)).start()


async def test_too_little_room_is_refused_at_the_start(tmp_path: Path) -> None:
    node = StoreNode(configuration(tmp_path, disk_free_min_bytes=2**60))
    with pytest.raises(StorageFailed, match="disk_free_min_bytes"):
        await node.start()


@pytest.mark.parametrize("when", ["write", "sync", "room"])
@pytest.mark.expects_log("store s1 stops")
async def test_the_first_failure_stops_the_store_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    node = StoreNode(configuration(tmp_path))
    await node.start()
    async with Client(node.address) as client:
        stream = await client.stream()
        await stream.append(0, 9)

        def fail(*_: object) -> None:
            raise StorageFailed("disk", "No space left on device")

        if when == "room":
            monkeypatch.setattr(node, "_check_room", fail)
            assert node._engine is not None
            monkeypatch.setattr(node._engine.writer, "_check_room", fail)
        else:
            writing = {"write": seams.ROCKS_STORAGE_WRITE, "sync": seams.ROCKS_STORAGE_SYNC}
            writing[when].replace(monkeypatch, fail)
        await stream.batch(batch(10, 19))
        assert isinstance(await stream.ended(), StorageFailed)
        with pytest.raises(StorageFailed, match="No space left"):
            await asyncio.wait_for(node.wait(), 10)
    monkeypatch.undo()
    async with running(tmp_path) as node, Client(node.address) as client:
        fetched = await client.fetch(0, 9)
        assert fetched.messages == {n: payload(n) for n in range(10)}


@pytest.mark.expects_log("store s1 stops|its disk failed")
async def test_after_a_failed_sync_what_was_only_cached_is_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [{"pattern": "orders", "durability": "os"}]
    node = StoreNode(configuration(tmp_path, topic=topics))
    await node.start()
    async with Client(node.address) as client:
        await (await client.stream()).append(0, 9)
        await client.stream(source=TRADES)

        def fail(*_: object) -> None:
            raise StorageFailed("disk", "Input/output error")

        seams.ROCKS_STORAGE_SYNC.replace(monkeypatch, fail)
        with pytest.raises(StorageFailed):
            await client.promise(2, b"a")
        with pytest.raises(StorageFailed):
            await asyncio.wait_for(node.wait(), 10)
    monkeypatch.undo()
    async with running(tmp_path) as node, Client(node.address) as client:
        assert (await client.promise(3, b"a")).limbo
        assert not (await client.promise(3, b"a", TRADES)).limbo


@pytest.mark.expects_log("store s1 stops")
async def test_an_unforeseen_error_of_a_write_stops_the_store_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = StoreNode(configuration(tmp_path))
    await node.start()

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    seams.ROCKS_STORAGE_SYNC.replace(monkeypatch, fail)
    async with Client(node.address) as client:
        with pytest.raises(StorageFailed, match="Input/output error"):
            await client.promise()
    with pytest.raises(StorageFailed):
        await asyncio.wait_for(node.wait(), 10)


async def test_what_memory_is_enough_for_is_acknowledged_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [{"pattern": "orders", "durability": "memory"}]
    write, may_write = seams.ROCKS_STORAGE_WRITE.real(), threading.Event()
    may_write.set()

    def slow(self: RocksStorage, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        assert may_write.wait(60)
        write(self, writes, columns)

    seams.ROCKS_STORAGE_WRITE.replace(monkeypatch, slow)
    async with running(tmp_path, topic=topics) as node, Client(node.address) as client:
        await client.promise()
        await client.begin()
        stream = await client.open()
        assert stream.durability == v1.DURABILITY_MEMORY
        may_write.clear()
        await stream.append(0, 9)
        await stream.append(10, 19)
        may_write.set()
        assert (await client.fetch()).messages == {n: payload(n) for n in range(20)}
    async with running(tmp_path, topic=topics) as node, Client(node.address) as client:
        assert (await client.fetch()).messages == {n: payload(n) for n in range(20)}
        assert not node.in_limbo


async def test_durability_is_said_and_kept_by_topic(tmp_path: Path) -> None:
    topics = [{"pattern": "orders", "durability": "os"}]
    async with running(tmp_path, topic=topics) as node, Client(node.address) as client:
        await client.promise()
        await client.begin()
        stream = await client.open()
        assert stream.durability == v1.DURABILITY_OS
        before = (await client.status()).syncs
        await stream.append(0, 9)
        await stream.append(10, 19)
        assert (await client.status()).syncs == before
