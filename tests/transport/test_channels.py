"""Channels and servers as set up here: what they carry, what they refuse, when they try again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from quorate.protocol.errors import Closed, Fenced, StoreStopping, Unreachable
from quorate.protocol.limits import FRAME_BYTES_MAX
from quorate.transport.channels import (
    frame_stream_handler,
    frames_to,
    new_server,
    open_channel,
    reconnecting,
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


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits that were asked for, without the waiting."""
    waits: list[float] = []
    sleep = asyncio.sleep

    async def at_once(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", at_once)
    return waits


async def test_what_may_pass_is_tried_again_for_ever_and_never_slower_than_every_two_seconds(
    no_waiting: list[float],
) -> None:
    attempts = 0
    async for attempt in reconnecting():
        with attempt:
            attempts += 1
            if attempts < 50:
                raise (Unreachable("a:1", "refused"), StoreStopping("a"))[attempts % 2]
    assert attempts == 50
    assert len(no_waiting) == 49
    assert max(no_waiting) <= 2.1
    assert no_waiting[0] < 0.2


@pytest.mark.parametrize("error", [Fenced("s", 1, 2), Closed("s"), RuntimeError("a defect")])
async def test_what_will_not_pass_is_raised_at_once(error: Exception) -> None:
    attempts = 0

    async def connect() -> None:
        nonlocal attempts
        async for attempt in reconnecting():
            with attempt:
                attempts += 1
                raise error

    with pytest.raises(type(error)):
        await connect()
    assert attempts == 1
