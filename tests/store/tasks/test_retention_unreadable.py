"""A store that lets go of what it can not read, on a real disk with a bit that is flipped.

RocksDB stops taking writes once it has compacted over a block whose checksum is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.store.support import ORDERS, TRADES, Client, payload, running
from tests.store.tasks.test_retention import (
    FIRST,
    RECORD,
)
from tests.store.test_node import flip

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.wire import source_to_wire
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.records import (
    index_key,
    position_of,
)
from quorate.store.storage.rocksdb import RocksStorage
from quorate.store.tasks import retention
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

SALT = "long " * 200
LATER = (Term(2, 100), Term(3, 110))


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.RETENTION_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.RETENTION_SEARCH_SECONDS.replace(monkeypatch, 0.05)
    seams.RETENTION_COMPACT_SECONDS.replace(monkeypatch, 0.0)


async def until(client: Client, so: Callable[[store_v1.StatusResponse], bool]) -> Any:
    async with asyncio.timeout(20):
        while not so(status := await client.status()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return status


async def filled(client: Client, source: SourceName = ORDERS, stable_upto: int = 99) -> None:
    """[0, 99] in batches of ten."""
    await client.promise(source=source)
    await client.begin(FIRST, source, membership=RECORD)
    stream = await client.open(source=source)
    for first in range(0, 100, 10):
        await stream.append(first, first + 9, source=source, salt=SALT)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=stable_upto))
    await stream.close()


async def rotten(directory: Path) -> None:
    """The same, of which RocksDB can not read [50, 59]."""
    async with running(directory) as node, Client(node.address) as client:
        await filled(client)
    flip((directory / "rocksdb").glob("*.sst"), payload(55, SALT))


async def lost(client: Client, first: int, last: int) -> None:
    """Accept the loss of what is unreadable there."""
    await client.fetch()  # it finds that out
    request = store_v1.AcceptLossRequest(
        source=source_to_wire(ORDERS),
        first=first,
        last=last,
        reason="ada",
        protocol_version=PROTOCOL_VERSION,
    )
    await client.call("AcceptLoss", request)


async def deregister(client: Client) -> None:
    await client.end()


async def rounds(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Return once retention has looked around so many times more."""
    done, seen = asyncio.Event(), 0
    round_of = seams.RELEASING_ROUND.real()

    async def looked(self: retention.Releasing) -> None:
        nonlocal seen
        try:
            await round_of(self)
        finally:
            seen += 1
            if seen >= count:
                done.set()

    seams.RELEASING_ROUND.replace(monkeypatch, looked)
    async with asyncio.timeout(20):
        await done.wait()
    seams.RELEASING_ROUND.replace(monkeypatch, round_of)


async def sent(client: Client, epoch: int, first: int, last: int) -> None:
    """The store still takes messages, which are stable."""
    await client.promise(epoch, take_over=True)
    await client.begin(Lineage((*FIRST.terms, *LATER[: epoch - 1])), membership=RECORD)
    stream = await client.open(epoch, retained_from=first)
    await stream.append(first, last, epoch=epoch, salt=SALT)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=last))
    await stream.close()


def said(caplog: pytest.LogCaptureFixture, what: str) -> int:
    """How often the log has it."""
    return sum(what in record.getMessage() for record in caplog.records)


def in_the_journal(directory: Path) -> list[int]:
    """The positions that the closed database names as let go, and has not."""
    storage = RocksStorage(directory / "rocksdb", read_only=True)
    rows = storage.scan(Table.RELEASED, b"", b"\xff" * 8, 100)
    storage.close()
    return [position_of(key) for key, _ in rows]


@pytest.mark.expects_log("cannot be read|retention|accepted by an operator|lacks")
@pytest.mark.parametrize("last", [54, 59], ids=["a part of a batch", "a whole batch"])
async def test_what_was_lost_keeps_nothing_else_and_the_store_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, last: int
) -> None:
    await rotten(tmp_path)
    async with running(tmp_path) as node, Client(node.address) as client:
        await lost(client, 50, last)
        await until(client, lambda status: "checksum mismatch" in status.retention.held_up)
        await rounds(monkeypatch, 20)
        await sent(client, 2, 100, 109)
    assert said(caplog, "stay in the journal") == 1
    caplog.clear()
    async with running(tmp_path, retention_messages=20) as node, Client(node.address) as client:
        # All but [50, 59], which has been let go before, and [90, 109].
        status = await until(client, lambda status: status.retention.batches == 8)
        assert status.sources[0].retained_from == 90
        await rounds(monkeypatch, 20)
        status = await client.status()
        assert (status.retention.batches, bool(status.retention.held_up)) == (8, True)
        await sent(client, 3, 110, 119)
        assert set((await client.fetch(first=100)).messages) == set(range(100, 120))
    assert said(caplog, "stay in the journal") == said(caplog, "the journal is not compacted") == 1
    assert in_the_journal(tmp_path)[0] == 5


@pytest.mark.expects_log("cannot be read|retention|lacks")
async def test_what_is_held_and_can_not_be_read_does_not_stop_the_store_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is let go is beside it on the disk."""
    await rotten(tmp_path)
    async with running(tmp_path) as node, Client(node.address) as client:
        await client.fetch()  # it finds that out
    async with running(tmp_path, retention_messages=60) as node, Client(node.address) as client:
        await until(client, lambda status: status.retention.batches == 4)
        await until(client, lambda status: "checksum mismatch" in status.retention.held_up)
        await rounds(monkeypatch, 10)
        await sent(client, 2, 100, 109)
        status = await until(client, lambda status: status.retention.batches == 5)
        assert status.sources[0].unreadable
    async with running(tmp_path, retention_messages=30) as node, Client(node.address) as client:
        # It goes when its time has come, and stays in the journal.
        await until(client, lambda status: status.sources[0].retained_from == 80)
        await until(client, lambda status: bool(status.retention.held_up))
        await rounds(monkeypatch, 10)
        await sent(client, 3, 110, 119)
    assert in_the_journal(tmp_path)[0] == 5


@pytest.mark.expects_log("cannot be read|retention|its messages are deleted")
async def test_a_source_that_can_not_be_read_is_deregistered_and_the_store_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rotten(tmp_path)
    async with running(tmp_path, deletion_grace=0.0) as node, Client(node.address) as client:
        await deregister(client)
        await until(client, lambda status: status.retention.batches == 9)
        await until(client, lambda status: "checksum mismatch" in status.retention.held_up)
        await rounds(monkeypatch, 10)
        await client.promise(source=TRADES)
    assert in_the_journal(tmp_path) == [5]


async def is_set_aside(client: Client) -> None:
    """From 50 on there is another stream, which knows nothing of it."""
    await client.promise(2, take_over=True)
    await client.begin(Lineage((*FIRST.terms, Term(2, 50))), membership=RECORD)
    (state,) = (each for each in (await client.status()).sources if each.set_aside)
    assert (state.set_aside, list(state.unreadable)) == (50, [])


@pytest.mark.expects_log("cannot be read|retention|its messages are deleted|aside|lacks")
@pytest.mark.parametrize("leaves", [deregister, is_set_aside])
async def test_what_can_not_be_read_does_not_stop_the_store_once_it_is_no_more_of_a_stream(
    tmp_path: Path, leaves: Callable[[Client], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays in the journal, beside what is let go."""
    async with running(tmp_path) as node, Client(node.address) as client:
        await filled(client, stable_upto=49)
        await filled(client, TRADES)
    flip((tmp_path / "rocksdb").glob("*.sst"), payload(55, SALT))
    async with running(tmp_path) as node, Client(node.address) as client:
        await client.fetch()  # it finds that out
        await leaves(client)
    async with running(tmp_path, retention_messages=20) as node, Client(node.address) as client:
        await until(client, lambda status: "checksum mismatch" in status.retention.held_up)
        await rounds(monkeypatch, 10)
        await client.promise(7, source=TRADES, take_over=True)


@pytest.mark.expects_log("retention: nothing of orders/0x10 is let go|cannot be read|lacks")
async def test_a_source_of_which_it_can_not_be_read_what_it_has_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await filled(client)
        await filled(client, TRADES)
        reg_id = (await client.status()).sources[0].reg_id
    storage = RocksStorage(tmp_path / "rocksdb")
    storage.write([Write(Table.INDEX, index_key(reg_id, 10), b"not a row")])
    storage.close()
    async with running(tmp_path, retention_messages=20) as node, Client(node.address) as client:
        status = await until(client, lambda status: status.sources[1].retained_from == 80)
        await rounds(monkeypatch, 10)
        status = await until(
            client, lambda status: "in the index" in status.sources[0].kept_because
        )
        assert (status.sources[0].retained_from, status.sources[0].journal_bytes > 0) == (0, True)
    assert said(caplog, "nothing of orders/0x10 is let go") == 1
