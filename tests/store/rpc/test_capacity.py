"""The bounds of a whole store, on stores that run: sources, receivers, bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import seams
from tests.store.support import ORDERS, TRADES, Client, batch, running

from quorate.console.group.rules.findings import Kind
from quorate.console.group.rules.store_findings import troubles
from quorate.protocol.errors import StoreFull
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.RETENTION_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.RETENTION_STEP_BATCHES.replace(monkeypatch, 2)


async def registered(client: Client, session_id: int, epoch: int = 1) -> None:
    request = store_v1.RegisterReceiverRequest(
        source=source_to_wire(ORDERS),
        session_id=session_id,
        instance=b"r",
        epoch=epoch,
        protocol_version=PROTOCOL_VERSION,
    )
    await client.call("RegisterReceiver", request)


@pytest.mark.expects_log("refused StoreFull")
async def test_one_source_too_many_is_refused_and_counted(tmp_path: Path) -> None:
    async with running(tmp_path, sources_max=1) as node, Client(node.address) as client:
        await client.promise()
        with pytest.raises(StoreFull, match=r"keeps 1 sources.*raise sources_max") as caught:
            await client.promise(source=TRADES)
        assert caught.value.retryable
        await client.promise(2)  # it is known
        status = await client.status()
        assert status.capacity.refused == 1
        (finding,) = [each for each in troubles(status) if each.kind is Kind.FULL]
        assert "as many sources as it may, and has refused 1 reg" in finding.what


@pytest.mark.expects_log("refused StoreFull")
async def test_one_receiver_too_many_is_refused_and_counted(tmp_path: Path) -> None:
    async with running(tmp_path, receivers_max=2) as node, Client(node.address) as client:
        await client.stream()
        await registered(client, 1)
        await registered(client, 2)
        with pytest.raises(StoreFull, match=r"keeps 2 receivers.*raise receivers_max"):
            await registered(client, 3)
        await registered(client, 2, epoch=2)  # it is known
        status = await client.status()
        assert (status.capacity.receivers, status.capacity.refused) == (2, 1)
        (finding,) = [each for each in troubles(status) if each.kind is Kind.FULL]
        assert "as many receivers as it may" in finding.what


async def until(
    client: Client, so: Callable[[store_v1.StatusResponse], bool]
) -> store_v1.StatusResponse:
    """Return the status of the store once it is so."""
    async with asyncio.timeout(60):
        while True:
            if so(status := await client.status()):
                return status
            await asyncio.sleep(0.02)


async def sent(client: Client, *, stable: bool = True) -> None:
    """Send to two sources in turn: batches of ten, alike in size."""
    streams = {source: await client.stream(source=source) for source in (ORDERS, TRADES)}
    for first in range(0, 100, 10):
        for source, stream in streams.items():
            await stream.batch(batch(first, first + 9, source=source), first - 1 if stable else -1)
            await stream.durable(first + 9)
    if stable:
        for stream in streams.values():
            await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=99))


async def test_the_oldest_batches_of_any_source_go(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await sent(client)
        whole = (await client.status()).capacity.bytes
        assert whole > 0
    async with (
        running(tmp_path, store_bytes_max=whole // 2) as node,
        Client(node.address) as client,
    ):
        status = await until(client, lambda status: status.capacity.bytes <= whole // 2)
        one, other = sorted(each.retained_from for each in status.sources)
        assert 50 <= one <= other <= one + 10, "each gave its oldest half"
        assert not status.capacity.kept_because


@pytest.mark.expects_log("over store_bytes_max, and cannot let more go")
async def test_what_may_not_go_stays_and_that_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, store_bytes_max=1) as node, Client(node.address) as client:
        await sent(client, stable=False)
        status = await until(client, lambda status: bool(status.capacity.kept_because))
        assert "not known to be stable" in status.capacity.kept_because
        assert all(not each.retained_from for each in status.sources)
        (finding,) = [each for each in troubles(status) if each.kind is Kind.HELD]
        assert "has more than store_bytes_max = 1 bytes" in finding.what
