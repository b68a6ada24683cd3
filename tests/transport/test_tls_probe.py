"""The question whether an address speaks TLS: asked once where it does not."""

from __future__ import annotations

import asyncio

from quorate.transport.tls_probe import speaks_tls


async def test_an_address_without_tls_is_asked_once() -> None:
    asked = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        for _ in range(3):
            assert not await asyncio.to_thread(speaks_tls, f"{host}:{port}")
    assert asked == 1
