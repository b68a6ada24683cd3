"""Heartbeats over real connections: each end notices the other's silence, and its return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.beats import QUICK, Beats

from quorate.protocol.errors import Unreachable
from quorate.protocol.heartbeat import Heartbeat
from quorate.transport.channels import new_server, open_channel
from quorate.transport.connections import Connections
from quorate.transport.heartbeat import _REMEMBERED_MAX, Listening
from quorate.v1.peer_pb2 import BeatRequest
from quorate.v1.peer_pb2_grpc import PeerStub


class Server:
    """A server that may stop answering heartbeats, and that listens to whoever calls Listen."""

    def __init__(self) -> None:
        self.beating = asyncio.Event()
        self.beating.set()
        self.listening = Beats(self.beating)
        self.silences: asyncio.Queue[str] = asyncio.Queue()
        self.address = ""
        self._server = new_server()

    async def start(self) -> None:
        handlers: dict[str, Any] = {"Listen": grpc.unary_unary_rpc_method_handler(self._listen)}
        self._server.add_generic_rpc_handlers(
            (
                self.listening.handler(),
                grpc.method_handlers_generic_handler("t.T", handlers),
            )
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def _listen(self, _: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        with self.listening.to(context.peer(), self.silences.put_nowait):
            await asyncio.Event().wait()
        return b""


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    await made.start()
    yield made
    await made.stop()


async def test_all_users_hear_of_a_silent_peer_and_of_its_return(server: Server) -> None:
    connections = Connections(QUICK)
    told: list[asyncio.Queue[Unreachable | None]] = [asyncio.Queue() for _ in range(2)]
    for each in told:
        connections.connect(server.address, each.put_nowait)
    released = connections.connect(server.address, lambda _: pytest.fail("it was released"))
    released.release()
    server.beating.clear()
    async with asyncio.timeout(30):
        for each in told:
            silence = await each.get()
            assert str(silence) == str(Unreachable(server.address, "it said nothing for 0.2 s"))
    server.beating.set()
    async with asyncio.timeout(30):
        for each in told:
            assert await each.get() is None
    await connections.close()


async def test_a_peer_that_says_anything_is_not_silent(server: Server) -> None:
    connections = Connections(QUICK)
    told: asyncio.Queue[Unreachable | None] = asyncio.Queue()
    connection = connections.connect(server.address, told.put_nowait)
    server.beating.clear()
    loop = asyncio.get_running_loop()
    until = loop.time() + 3 * QUICK.timeout
    while loop.time() < until:
        connection.heard()
        await asyncio.sleep(0.01)
    assert told.empty()
    async with asyncio.timeout(30):
        assert await told.get() is not None
    await connections.close()


async def test_heartbeats_go_on_after_a_connection_broke(server: Server) -> None:
    connections = Connections(QUICK)
    told: asyncio.Queue[Unreachable | None] = asyncio.Queue()
    connections.connect(server.address, told.put_nowait)
    await server.stop()
    again = Server()
    again.address = server.address
    again._server.add_insecure_port(server.address)
    again._server.add_generic_rpc_handlers((again.listening.handler(),))
    again.beating.clear()
    await again._server.start()
    async with asyncio.timeout(30):
        assert await told.get() is not None
        again.beating.set()
        assert await told.get() is None
    await connections.close()
    await again.stop()


async def test_a_server_hears_of_a_client_that_has_stopped_beating(server: Server) -> None:
    async with open_channel(server.address) as channel:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        method = channel.unary_unary("/t.T/Listen")
        calls = [method(b"") for _ in range(2)]
        request = BeatRequest(interval_seconds=QUICK.interval, timeout_seconds=QUICK.timeout)
        async with asyncio.timeout(30):
            while len(server.listening._clients) < 1:  # noqa: ASYNC110, calls come when they come
                await asyncio.sleep(0.001)
            await PeerStub(channel).Beat(request)
            assert await server.silences.get() == "it said nothing for 0.2 s"
        for call in calls:
            call.cancel()


async def test_a_server_remembers_the_heartbeat_with_which_a_connection_began(
    server: Server,
) -> None:
    async with open_channel(server.address) as channel:
        request = BeatRequest(interval_seconds=QUICK.interval, timeout_seconds=QUICK.timeout)
        await PeerStub(channel).Beat(request)
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        method = channel.unary_unary("/t.T/Listen")
        call = method(b"")
        async with asyncio.timeout(30):
            assert await server.silences.get() == "it said nothing for 0.2 s"
        call.cancel()


def test_a_server_remembers_the_newest_connections_alone() -> None:
    listening = Listening()
    for peer in ("first", "second", "first", *map(str, range(_REMEMBERED_MAX - 1))):
        listening._remember(peer, QUICK)
    assert "first" in listening._heartbeats
    assert len(listening._heartbeats) == _REMEMBERED_MAX
    listening._remember("last", QUICK)
    assert "first" not in listening._heartbeats


async def test_times_that_make_no_sense_are_refused(server: Server) -> None:
    async with open_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="heartbeat_timeout"):
            await PeerStub(channel).Beat(BeatRequest(interval_seconds=2.0, timeout_seconds=1.0))


async def test_a_server_that_knows_no_heartbeats_is_not_taken_for_silent() -> None:
    server = new_server()
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    timeout = 1.5  # A busy machine may stop this process for a second.
    connections = Connections(Heartbeat(interval=QUICK.interval, timeout=timeout))
    told: asyncio.Queue[Unreachable | None] = asyncio.Queue()
    connections.connect(address, told.put_nowait)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2 * timeout):
                await told.get()
    finally:
        await connections.close()
        await server.stop(None)
