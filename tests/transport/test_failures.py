"""Errors cross a real gRPC connection whole; peers that are none of ours are told apart."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.foreign import answering

from quorate.protocol import errors
from quorate.protocol.errors import (
    CorruptBatch,
    Fenced,
    NotAStore,
    QuorateError,
    UnknownTopic,
    Unreachable,
    VersionMismatch,
)
from quorate.protocol.limits import PROTOCOL_VERSION, PROTOCOL_VERSIONS
from quorate.transport.channels import new_server, open_channel
from quorate.transport.failures import (
    abort,
    check_version,
    error_from_call,
    failure_from_wire,
    failure_to_wire,
)
from quorate.v1.messages_pb2 import Failure

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, QuorateError) and kind is not QuorateError
]

Answer = Callable[[grpc.aio.ServicerContext[Any, Any]], Awaitable[bytes]]


def example(kind: type[QuorateError]) -> QuorateError:
    return kind(
        **{
            field.name: 2**40 + at if field.type == "int" else f"<{field.name} é\n>"
            for at, field in enumerate(fields(kind))
        }
    )


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """A server with a unary and a streaming method; yields its address."""

    async def unary(_: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        return await answer(context)

    async def stream(_: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[bytes]:
        yield b"first"
        yield await answer(context)

    server = new_server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Call": grpc.unary_unary_rpc_method_handler(unary),
        "Stream": grpc.unary_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("quorate.test.Test", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def unary(channel: grpc.aio.Channel) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
    return channel.unary_unary("/quorate.test.Test/Call")


def streaming(channel: grpc.aio.Channel) -> grpc.aio.UnaryStreamMultiCallable[bytes, bytes]:
    return channel.unary_stream("/quorate.test.Test/Stream")


async def call(address: str, timeout: float | None = 10.0) -> bytes:
    async with open_channel(address) as channel:
        try:
            return await unary(channel)(b"", timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise error_from_call(address, error) from None


async def caught(address: str) -> QuorateError:
    with pytest.raises(QuorateError) as info:
        await call(address)
    return info.value


async def test_every_error_crosses_a_connection_whole() -> None:
    sent: list[QuorateError] = []

    async def answer(context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        await abort(context, sent[-1])

    async with serving(answer) as address:
        for kind in KINDS:
            sent.append(example(kind))
            received = await caught(address)
            assert type(received) is kind
            assert received.facts() == sent[-1].facts()
            assert str(received) == str(sent[-1])


async def test_an_error_ends_a_stream_after_what_came_before_it() -> None:
    async def answer(context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        await abort(context, Fenced("orders/0x10", 3, 4))

    async with serving(answer) as address, open_channel(address) as channel:
        stream = streaming(channel)(b"")
        assert await stream.read() == b"first"
        with pytest.raises(grpc.aio.AioRpcError) as info:
            await stream.read()
        error = error_from_call(address, info.value)
        assert isinstance(error, Fenced)
        assert (error.epoch, error.promised) == (3, 4)


async def test_long_facts_do_not_drown_the_error() -> None:
    """gRPC refuses metadata of more than a few KiB; what is left must still be the error."""

    async def answer(context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        await abort(
            context, UnknownTopic("orders", ", ".join(f"topic-{n:05}" for n in range(9000)))
        )

    async with serving(answer) as address:
        error = await caught(address)
    assert isinstance(error, UnknownTopic)
    assert error.known.startswith("topic-00000, topic-00001")
    assert error.known.endswith("…")


async def test_text_that_is_no_unicode_crosses_too() -> None:
    async def answer(context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        await abort(context, CorruptBatch("in /data/\udcff", "bad"))

    async with serving(answer) as address:
        error = await caught(address)
    assert isinstance(error, CorruptBatch)
    assert error.where == "in /data/?"


async def test_errors_in_a_body() -> None:
    error = Fenced("receiver", 1, 2)
    sent = Failure.FromString(failure_to_wire(error).SerializeToString())
    assert str(failure_from_wire(sent, "a:1")) == str(error)
    newer = failure_from_wire(Failure(kind="NotYetInvented", message="what it says"), "a:1")
    assert isinstance(newer, Unreachable)
    assert "what it says" in str(newer)


async def test_an_exception_that_nobody_meant_is_unreachable_and_not_a_no() -> None:
    async def answer(_: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        raise RuntimeError("a defect")

    async with serving(answer) as address:
        error = await caught(address)
    assert isinstance(error, Unreachable)
    assert error.address == address
    assert error.outcome is errors.Outcome.UNKNOWN


async def test_metadata_that_is_no_failure() -> None:
    async def answer(context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        metadata = (("quorate-failure-bin", b"\xff\xff"),)
        await context.abort(grpc.StatusCode.ABORTED, "the text", metadata)

    async with serving(answer) as address:
        error = await caught(address)
    assert isinstance(error, Unreachable)
    assert "the text" in str(error)


async def test_a_grpc_server_of_another_kind_is_not_a_store() -> None:
    server = new_server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        assert isinstance(await caught(f"127.0.0.1:{port}"), NotAStore)
    finally:
        await server.stop(None)


async def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        error = await caught(address)
    assert isinstance(error, Unreachable)
    assert error.address == address
    assert error.retryable


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n<html>hello</html>",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"220 mail.example ESMTP\r\n",
        b"-ERR unknown command 'PRI'\r\n",
        bytes(range(256)),
    ],
    ids=["http/1.1", "http/1.0", "ssh", "smtp", "redis", "garbage"],
)
async def test_something_other_than_grpc_answers(reply: bytes) -> None:
    with answering(reply) as address:
        error = await caught(address)
    assert isinstance(error, NotAStore), error
    assert "Check the host and the port" in str(error)


async def test_a_peer_that_hangs_up_without_a_word_may_be_a_store_that_stops() -> None:
    with answering(b"") as address:
        assert isinstance(await caught(address), Unreachable)


async def test_a_peer_that_never_answers_may_be_a_store_that_is_paused() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for timeout in (0.2, 5.0):  # ours ends first, then that of the connection
            with pytest.raises(Unreachable):
                await call(address, timeout)


def test_no_text_of_grpc_about_itself_reaches_people() -> None:
    raw = grpc.aio.AioRpcError(
        grpc.StatusCode.INTERNAL,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(),
        "Internal error from Core",
    )
    error = error_from_call("a:1", raw)
    assert isinstance(error, Unreachable)
    assert "Core" not in str(error)
    assert "a:1 cannot be reached (the call broke off on this end)" in str(error)


def test_versions() -> None:
    for version in PROTOCOL_VERSIONS:
        check_version("a:1", version)
    for version in (PROTOCOL_VERSIONS.start - 1, PROTOCOL_VERSIONS.stop):
        with pytest.raises(VersionMismatch, match="Upgrade the older of the two"):
            check_version("a:1", version)
    assert PROTOCOL_VERSION in PROTOCOL_VERSIONS
