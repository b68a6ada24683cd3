"""Connections that several users share: one TCP connection for each address, while it is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.sockets import connections_to

from quorate.transport.channels import new_server
from quorate.transport.connections import Connection, Connections


async def _wait(request: bytes, _: grpc.aio.ServicerContext[Any, Any]) -> bytes:
    if request == b"for ever":
        await asyncio.Event().wait()
    return request


@pytest.fixture
async def addresses() -> AsyncIterator[list[str]]:
    """Two servers that answer."""
    servers, found = [], []
    for _ in range(2):
        server = new_server()
        handlers: dict[str, Any] = {"Wait": grpc.unary_unary_rpc_method_handler(_wait)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
        found.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        await server.start()
        servers.append(server)
    yield found
    for server in servers:
        await server.stop(None)


async def call(connection: Connection, request: bytes = b"x") -> bytes:
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
    method = connection.channel.unary_unary("/t.T/Wait")
    return await method(request)


async def test_all_users_of_an_address_share_one_tcp_connection(addresses: list[str]) -> None:
    connections = Connections()
    users = [connections.connect(address) for address in addresses * 3]
    for user in users:
        assert await call(user) == b"x"
    assert connections_to(addresses) == dict.fromkeys(addresses, 1)
    await connections.close()


async def test_two_clients_share_nothing(addresses: list[str]) -> None:
    clients = Connections(), Connections()
    for client in clients:
        await call(client.connect(addresses[0]))
    assert connections_to(addresses) == {addresses[0]: 2}
    for client in clients:
        await client.close()


async def test_a_connection_ends_when_its_last_user_has_released_it(addresses: list[str]) -> None:
    connections = Connections()
    first, second = (connections.connect(addresses[0]) for _ in range(2))
    await call(first)
    first.release()
    first.release()
    assert await call(second) == b"x"
    with connections.connect(addresses[0]) as third:
        assert third.channel is second.channel
    second.release()
    assert connections.connect(addresses[0]).channel is not second.channel
    await connections.close()
    async with asyncio.timeout(10):
        while connections_to(addresses):  # noqa: ASYNC110, the kernel tells nobody
            await asyncio.sleep(0.01)


async def test_closing_cancels_the_calls_under_way(addresses: list[str]) -> None:
    connections = Connections()
    waiting = asyncio.ensure_future(call(connections.connect(addresses[0]), b"for ever"))
    await call(connections.connect(addresses[0]))
    await connections.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_connection_that_is_kept_stays_for_a_while(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    ends: list[Callable[[], None]] = []

    def call_later(_: float, act: Callable[[str], None], address: str) -> asyncio.TimerHandle:
        ends.append(partial(act, address))
        return asyncio.TimerHandle(0.0, act, (address,), loop)

    connections = Connections()
    monkeypatch.setattr(loop, "call_later", call_later)
    for _ in range(3):
        with connections.connect(addresses[0]) as user:
            await call(user)
            channel = user.channel
            connections.keep(addresses[0])
    with connections.connect(addresses[0]) as user:
        assert user.channel is channel
    ends[-1]()
    with connections.connect(addresses[0]) as user:
        assert user.channel is not channel
        connections.keep(addresses[0])
    await connections.close()
    assert connections_to(addresses) == {}
