"""Strangers that reach a store: what each costs is bounded, and others are served."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from h2.events import ConnectionTerminated
from tests import seams
from tests.certificates import files
from tests.store.monitor.test_pages import of_tls
from tests.store.support import Client, batch, running
from tests.strangers import Stranger, bomb, silent_seconds

from quorate.client import connect
from quorate.console.group.authority import Authority
from quorate.protocol.errors import Closed, InvalidArgument, InvalidFilter, Unreachable
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.store.node import StoreNode
from quorate.transport.channels import frames_to, open_channel
from quorate.transport.failures import errors_of
from quorate.transport.server_limits import HANDSHAKE_SECONDS
from quorate.transport.status import read_status, status_request
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

_MIB = 1024 * 1024
SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""A frame with settings: the usual ones. Those of the other end are not acknowledged."""
_GROWTH_BYTES_MAX = 64 * _MIB


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StoreNode]:
    """A store. After the test it still serves a source."""
    async with running(tmp_path) as node:
        yield node
        async with connect(f"s1={node.address}", timeout=30.0) as quorate:
            source = await quorate.source("lawful")
            receipt = await source.publish(b"served", timeout=30.0)
            assert receipt.sequence == 0


def grown(process: psutil.Process, before: int) -> int:
    return int(process.memory_info().rss) - before


async def test_pings_without_calls_end_the_connection(node: StoreNode) -> None:
    def floods() -> list[Any]:
        with Stranger(node.address) as stranger:
            for number in range(100):
                stranger.http.ping(struct.pack(">Q", number))
            stranger.flush()
            return stranger.events()

    events = await asyncio.to_thread(floods)
    (ended,) = [each for each in events if isinstance(each, ConnectionTerminated)]
    assert ended.additional_data == b"too_many_pings"


async def test_calls_that_are_reset_at_once_leave_nothing_behind(node: StoreNode) -> None:
    process = psutil.Process()

    def floods(count: int) -> None:
        with Stranger(node.address) as stranger:
            for number in range(count):
                stranger.call(1 + 2 * number, "Append")
                stranger.http.reset_stream(1 + 2 * number)
                stranger.flush()

    await asyncio.to_thread(floods, 500)
    before = process.memory_info().rss
    await asyncio.to_thread(floods, 3000)
    assert grown(process, before) < _GROWTH_BYTES_MAX


async def test_headers_without_end_are_refused(node: StoreNode) -> None:
    def calls() -> str:
        with Stranger(node.address) as stranger:
            stranger.call(1, "Status", [(f"x-{number}", "y" * 1000) for number in range(30)])
            stranger.send(1, b"")
            return stranger.status()

    assert "metadata size exceeds" in await asyncio.to_thread(calls)


async def test_a_message_that_inflates_takes_no_memory(node: StoreNode) -> None:
    process, content = psutil.Process(), bomb(200)
    before = process.memory_info().rss

    def calls() -> str:
        with Stranger(node.address) as stranger:
            stranger.call(1, "Status", [("grpc-encoding", "gzip")])
            stranger.send(1, content, compressed=True)
            return stranger.status()

    assert "larger than max" in await asyncio.to_thread(calls)
    assert grown(process, before) < _GROWTH_BYTES_MAX


@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"PRI * HT",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS,
    ],
)
async def test_a_handshake_that_does_not_end_is_given_up(
    greeting: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict(seams.SERVER_OPTIONS.real())
    assert given["grpc.server_handshake_timeout_ms"] == HANDSHAKE_SECONDS * 1000
    sooner = given | {
        "grpc.server_handshake_timeout_ms": 200,
        "grpc.http2.settings_timeout": 200,
    }
    seams.SERVER_OPTIONS.replace(monkeypatch, list(sooner.items()))
    async with running(tmp_path) as node:
        seconds = await asyncio.to_thread(silent_seconds, node.address, greeting)
    assert 0.1 < seconds < 5


@pytest.mark.expects_log("DecodeError")
async def test_requests_that_cannot_be_decoded_fill_no_log(
    node: StoreNode, caplog: pytest.LogCaptureFixture
) -> None:
    def calls() -> list[str]:
        with Stranger(node.address) as stranger:
            found = []
            for number in range(5):
                stranger.call(1 + 2 * number, "Promise")
                stranger.send(1 + 2 * number, b"\xff\xff\xff")
                found.append(stranger.status())
            return found

    for said in await asyncio.to_thread(calls):
        assert "DecodeError" in said
    assert len([each for each in caplog.records if "DecodeError" in each.getMessage()]) <= 1
    assert not any(each.exc_info for each in caplog.records)


async def test_a_stream_that_says_nothing_is_ended(
    node: StoreNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.STORE_LANES_FIRST_FRAMES_SECONDS.replace(monkeypatch, 0.1)
    seams.STORE_RESTORE_SILENT_SECONDS.replace(monkeypatch, 0.1)
    responses = store_v1.AppendResponses.FromString
    async with Client(node.address) as client:
        call = frames_to(client.channel, "/quorate.v1.Store/Append", responses)
        with pytest.raises(Closed, match="call of append"), errors_of(client.address):
            await call.read()
        restoring = client.stub.Restore()
        assert (await restoring.read()).failed.kind == "Closed"
        with pytest.raises(Closed, match="call of restore"), errors_of(client.address):
            await restoring.read()


async def test_a_slow_reader_holds_up_nobody_else(node: StoreNode) -> None:
    process = psutil.Process()
    async with Client(node.address) as slow, Client(node.address) as client:
        stream = await client.stream()
        request = store_v1.SubscribeRequest(
            topic="orders", position=store_v1.Position(), protocol_version=PROTOCOL_VERSION,
            delivered=store_v1.DELIVERED_DURABLE,
        )  # fmt: skip
        unread = [slow.stub.Subscribe(request) for _ in range(20)]
        assert await unread[0].read()  # it has begun
        before = process.memory_info().rss
        for number in range(0, 40_000, 4000):
            await stream.batch(batch(number, number + 3999, salt="x" * 60))
        await stream.durable(39_999)
        fetched = await client.fetch()
        assert len(fetched.messages) == 40_000
        assert grown(process, before) < 2 * _GROWTH_BYTES_MAX
        for call in unread:
            call.cancel()


@pytest.mark.expects_log("refused Invalid")
@pytest.mark.parametrize(
    "where", ["(" * 30_000, "NOT " * 20_000 + "a", "a = 1 OR " * 20_000 + "b", "-" * 20_000 + "1"]
)
async def test_a_filter_that_is_too_deep_is_refused(node: StoreNode, where: str) -> None:
    request = store_v1.SubscribeRequest(
        topic="orders", now=True, where=where, protocol_version=PROTOCOL_VERSION,
        delivered=store_v1.DELIVERED_STABLE,
    )  # fmt: skip
    async with Client(node.address) as client:
        with pytest.raises((InvalidFilter, InvalidArgument)), errors_of(client.address):
            await client.stub.Subscribe(request, timeout=10).read()


@pytest.mark.expects_log("refused InvalidArgument")
@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "(" * 50_000, "a" * 100_000])
async def test_a_pattern_that_is_too_large_is_refused(node: StoreNode, pattern: str) -> None:
    request = store_v1.StatusRequest(topic_pattern=pattern, protocol_version=PROTOCOL_VERSION)
    async with Client(node.address) as client:
        with pytest.raises(InvalidArgument), errors_of(client.address):
            await client.stub.Status(request, timeout=10).read()


async def opened(address: str) -> tuple[asyncio.StreamWriter, bytes]:
    """Connect, and return what the store says first; empty: it closed the connection."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(30):
        return writer, await reader.read(9)


@pytest.mark.parametrize("is_secure", [False, True])
async def test_connections_beyond_the_bound_are_closed(tmp_path: Path, is_secure: bool) -> None:
    authority = Authority.new()
    tls = of_tls(files(tmp_path / "tls", authority, "s1")) if is_secure else None
    async with running(tmp_path / "s1", tls=tls, connections_max=3) as node:
        host, _, port = node.address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        writer, said = await opened(node.address)
        writer.close()
        assert said == b"", "it is one too many"
        client_files = files(tmp_path / "c", authority, "c") if is_secure else None
        async with open_channel(node.address, client_files) as channel:
            with pytest.raises(Unreachable), errors_of(node.address):
                await read_status(StoreStub(channel).Status(status_request(), timeout=5.0))
        for _, each in silent:
            each.close()
        # A place is free once gRPC has seen that they are closed.
        async with connect(f"s1={node.address}", tls=client_files, timeout=30.0) as quorate:
            source = await quorate.source("lawful")
            assert (await source.publish(b"served")).sequence == 0
