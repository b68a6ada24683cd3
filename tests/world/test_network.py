"""The network of a simulated world."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.world.world import World

ADDRESS = "127.0.0.1:5"
ECHO = "/echo/Echo"


async def echo(_: Any, context: Any) -> None:
    while (message := await context.read()) is not grpc.aio.EOF:
        await context.write(message)


async def refuse(_: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.NOT_FOUND, "it is not here", (("why", "x"),))


async def serve(behaviour: Any) -> None:
    server = grpc.aio.server()
    handler: Any = grpc.stream_stream_rpc_method_handler(behaviour)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("echo", {"Echo": handler}),)
    )
    server.add_insecure_port(ADDRESS)
    await server.start()
    await asyncio.Event().wait()


def call() -> Any:
    method = grpc.aio.insecure_channel(ADDRESS).stream_stream(
        ECHO, request_serializer=bytes, response_deserializer=bytes
    )
    return method()


async def exchange(count: int, came: list[bytes]) -> None:
    stream = call()
    for number in range(count):
        await stream.write(b"%d" % number)
    for _ in range(count):
        came.append(await stream.read())
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF


@pytest.fixture
def world(tmp_path: Path) -> Any:
    with World(1, tmp_path) as world:
        yield world


def test_messages_come_once_and_in_order(world: World) -> None:
    came: list[bytes] = []
    world.start("server", lambda: serve(echo))
    world.run_for(0.1)
    world.finish(world.start("client", lambda: exchange(500, came)))
    assert came == [b"%d" % number for number in range(500)]


def test_a_status_that_is_lost_with_its_server_ends_the_call_all_the_same(world: World) -> None:
    async def hear() -> object:
        try:
            return await call().read()
        except grpc.aio.AioRpcError as error:
            return error.code()

    world.start("server", lambda: serve(refuse))
    world.run_for(0.1)
    connected = world.start("client", hear)
    world.run_until(lambda: world.network.messages > 0)
    world.network.part("server", "client")
    world.run_for(1.0)
    world.crash("server")
    world.network.heal()
    assert world.finish(connected) is grpc.StatusCode.UNAVAILABLE


def test_messages_wait_while_two_processes_are_parted(world: World) -> None:
    came: list[bytes] = []
    world.start("server", lambda: serve(echo))
    world.run_for(0.1)
    client = world.start("client", lambda: exchange(10, came))
    world.run_until(lambda: len(came) == 3)
    world.network.part("server", "client")
    world.run_for(5.0)
    assert 3 <= len(came) < 10
    world.network.heal()
    world.finish(client)
    assert len(came) == 10


@pytest.mark.parametrize("listening", [True, False])
def test_a_call_fails_when_the_server_crashes_or_is_not_there(
    world: World, listening: bool
) -> None:
    if listening:
        world.start("server", lambda: serve(echo))
        world.run_for(0.1)
    client = world.start("client", lambda: exchange(10_000, []))
    if listening:
        world.run_for(0.05)
        world.crash("server")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        world.finish(client)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_refusal_has_its_code_and_details(world: World) -> None:
    async def read() -> None:
        await call().read()

    world.start("server", lambda: serve(refuse))
    world.run_for(0.1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        world.finish(world.start("client", read))
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert refused.value.details() == "it is not here"
    assert dict(refused.value.trailing_metadata()) == {"why": "x"}


def test_a_handler_is_cancelled_when_its_client_crashes(world: World) -> None:
    ended: list[str] = []

    async def wait(_: Any, context: Any) -> None:
        try:
            await context.read()
            await context.read()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def hold() -> None:
        stream = call()
        await stream.write(b"x")
        await asyncio.Event().wait()

    world.start("server", lambda: serve(wait))
    world.run_for(0.1)
    world.start("client", hold)
    world.run_for(1.0)
    assert not ended
    world.crash("client")
    world.run_for(1.0)
    assert ended == ["cancelled"]


def test_a_paused_process_does_nothing_meanwhile(world: World) -> None:
    came: list[bytes] = []
    world.start("server", lambda: serve(echo))
    world.run_for(0.1)
    world.pause("server", 5.0)
    client = world.start("client", lambda: exchange(1, came))
    world.run_for(4.0)
    assert not came
    world.finish(client)
    assert came == [b"0"]
