"""Channels and servers as set up here: what they carry, what they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from quorate.protocol.limits import FRAME_BYTES_MAX
from quorate.transport.channels import (
    frame_stream_handler,
    frames_to,
    new_server,
    open_channel,
)


def as_it_is(data: bytes) -> bytes:
    return data


async def test_the_largest_frame_travels_both_ways_and_frames_are_not_touched() -> None:
    async def echo(
        frames: AsyncIterator[bytes], _: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[bytes]:
        async for frame in frames:
            yield frame

    async def live(request: bytes, _: grpc.aio.ServicerContext[Any, bytes]) -> AsyncIterator[bytes]:
        yield request * 2

    server = new_server()
    handlers = {
        "Echo": grpc.stream_stream_rpc_method_handler(echo),
        "Live": frame_stream_handler(live, as_it_is),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with open_channel(f"127.0.0.1:{port}") as channel:
            doubled: grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
            doubled = channel.unary_stream("/t.T/Live")
            stream = frames_to(channel, "/t.T/Echo", as_it_is)
            for frame in (b"", b"small", bytes(FRAME_BYTES_MAX)):
                await stream.write(frame)
                assert await stream.read() == frame
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF
            assert [frame async for frame in doubled(b"ab")] == [b"abab"]
    finally:
        await server.stop(None)


async def test_two_servers_never_share_a_port() -> None:
    first = new_server()
    port = first.add_insecure_port("127.0.0.1:0")
    await first.start()
    try:
        with pytest.raises(RuntimeError):
            new_server().add_insecure_port(f"127.0.0.1:{port}")
    finally:
        await first.stop(None)
