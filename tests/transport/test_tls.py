"""TLS between a server and a channel: what comes about, what fails and how, and new files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.certificates import files

from quorate.console.group.authority import Authority
from quorate.protocol.errors import ConfigurationInvalid, QuorateError, TlsFailed
from quorate.protocol.tls import Tls
from quorate.transport.channels import (
    LastingChannel,
    listen,
    new_server,
    open_blocking_channel,
    open_channel,
)
from quorate.transport.credentials import check_files
from quorate.transport.failures import error_from_blocking_call, errors_of

SECONDS_MAX = 5.0
"""The bound within which a connection that cannot come about must fail."""


class Echo:
    """A service that says who called, and one stream of it that lasts."""

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        return (
            grpc.method_handlers_generic_handler(
                "test.Echo",
                {
                    "Who": grpc.unary_unary_rpc_method_handler(self.who),
                    "Stream": grpc.stream_stream_rpc_method_handler(self.stream),
                },
            ),
        )

    async def who(self, _: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return b",".join(context.auth_context().get("x509_common_name", []))

    async def stream(
        self, _: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> None:
        end: object = grpc.aio.EOF
        while (request := await context.read()) is not end:
            await context.write(request)


@asynccontextmanager
async def serving(
    tls: Tls | None, address: str = "127.0.0.1:0", *, mutual: bool = True
) -> AsyncIterator[str]:
    server = new_server()
    server.add_generic_rpc_handlers(Echo().handlers())
    port = listen(server, address, tls, mutual=mutual)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def who(channel: grpc.aio.Channel, address: str) -> bytes:
    """Call, and return the identity that the server saw. Raises the error of the call."""
    with errors_of(address):
        method: Any = channel.unary_unary("/test.Echo/Who")
        answer: bytes = await method(b"", timeout=20)
        return answer


async def failure(tls: Tls | None, address: str) -> QuorateError:
    """Return the error of a call that must fail, and fail soon."""
    began = time.monotonic()
    async with open_channel(address, tls) as channel:
        with pytest.raises(QuorateError) as caught:
            await who(channel, address)
    assert time.monotonic() - began < SECONDS_MAX
    return caught.value


@pytest.fixture
def authority() -> Authority:
    return Authority.new()


@pytest.fixture
def store(tmp_path: Path, authority: Authority) -> Tls:
    return files(tmp_path / "store", authority, "store-a")


@pytest.fixture
def client(tmp_path: Path, authority: Authority) -> Tls:
    return files(tmp_path / "client", authority, "client-1", hosts=())


async def test_each_end_knows_the_other(store: Tls, client: Tls) -> None:
    async with serving(store) as address, open_channel(address, client) as channel:
        assert await who(channel, address) == b"client-1"


async def test_a_channel_without_asyncio_is_secure_too(store: Tls, client: Tls) -> None:
    async with serving(store) as address:

        def call(tls: Tls | None) -> bytes:
            with open_blocking_channel(address, tls) as channel:
                try:
                    method: Any = channel.unary_unary("/test.Echo/Who")
                    answer: bytes = method(b"", timeout=20)
                    return answer
                except grpc.RpcError as error:
                    raise error_from_blocking_call(address, error) from None

        assert await asyncio.to_thread(call, client) == b"client-1"
        with pytest.raises(TlsFailed):
            await asyncio.to_thread(call, None)


async def test_a_client_without_a_certificate_may_call_where_that_is_the_setting(
    store: Tls, client: Tls
) -> None:
    anonymous = Tls(client.ca)
    async with serving(store, mutual=False) as address, open_channel(address, anonymous) as channel:
        assert await who(channel, address) == b""


def ends(tmp_path: Path, authority: Authority) -> dict[str, tuple[Tls | None, Tls | None, str]]:
    """Return, for each mistake, the files of the server and the client, and what the error says."""
    other = Authority.new()

    def end(name: str, by: Authority = authority, **given: Any) -> Tls:
        return files(tmp_path / name, by, name, **given)

    good = end("good")
    return {
        "client trusts another authority": (good, end("a", trusts=other), "no authority"),
        "store is of another authority": (end("b", other), good, "no authority"),
        "store has expired": (end("c", days=-1), good, "has expired"),
        "store has another name": (end("d", hosts=["elsewhere"]), good, "does not name this host"),
        "client is of another authority": (good, end("e", other, trusts=authority), "refuses"),
        "client has expired": (good, end("f", days=-1), "refuses"),
        "client has no certificate": (good, Tls(good.ca), "There may be none"),
        "client is plain": (good, None, "it speaks TLS, and this end does not"),
        "store is plain": (None, good, "this end speaks TLS, the other end does not"),
    }


MISTAKES = (
    "client trusts another authority",
    "store is of another authority",
    "store has expired",
    "store has another name",
    "client is of another authority",
    "client has expired",
    "client has no certificate",
    "client is plain",
    "store is plain",
)


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_is_a_clear_error(
    mistake: str, tmp_path: Path, authority: Authority
) -> None:
    store, client, says = ends(tmp_path, authority)[mistake]
    async with serving(store) as address:
        error = await failure(client, address)
    assert isinstance(error, TlsFailed)
    assert not error.retryable
    assert says in str(error)
    assert address in str(error)


async def test_a_port_where_nobody_listens_is_no_matter_of_tls(client: Tls) -> None:
    error = await failure(client, "127.0.0.1:1")
    assert type(error).__name__ == "Unreachable"
    assert error.retryable


async def test_new_files_of_a_server_count_for_new_connections_and_drop_no_stream(
    store: Tls, client: Tls, tmp_path: Path, authority: Authority
) -> None:
    newer = Authority.new()
    async with serving(store) as address, open_channel(address, client) as before:
        stream: Any = before.stream_stream("/test.Echo/Stream")()
        await stream.write(b"1")
        assert await stream.read() == b"1"
        files(tmp_path / "store", newer, "store-a", trusts=authority)
        assert "no authority" in str(await failure(client, address))
        trusting = files(tmp_path / "newer", authority, "client-2", trusts=newer)
        async with open_channel(address, trusting) as after:
            assert await who(after, address) == b"client-2"
        await stream.write(b"2")
        assert await stream.read() == b"2"
        stream.cancel()


@pytest.mark.expects_log("stay in use")
async def test_files_of_a_server_that_are_no_use_leave_the_old_ones_in_use(
    store: Tls, client: Tls
) -> None:
    async with serving(store) as address, open_channel(address, client) as channel:
        spoil(store.certificate)
        assert await who(channel, address) == b"client-1"


async def test_new_files_of_a_client_count_for_new_connections_and_drop_no_stream(
    store: Tls, client: Tls, tmp_path: Path, authority: Authority
) -> None:
    async with serving(store) as address:
        lasting = LastingChannel(address, client)
        stream: Any = lasting.channel.stream_stream("/test.Echo/Stream")()
        await stream.write(b"1")
        assert await stream.read() == b"1"
        files(tmp_path / "client", authority, "client-2", hosts=())
        assert await who(lasting.channel, address) == b"client-1"
        await stream.write(b"2")
        assert await stream.read() == b"2"
        stream.cancel()
    async with serving(store, address):
        assert await who(lasting.channel, address) == b"client-2"
    await lasting.close()


def spoil(path: str) -> None:
    Path(path).write_text("half of a")


@pytest.mark.expects_log("stay in use")
async def test_files_of_a_client_that_are_no_use_leave_the_old_ones_in_use(
    store: Tls, client: Tls
) -> None:
    async with serving(store) as address:
        lasting = LastingChannel(address, client)
        spoil(client.key)
        assert await who(lasting.channel, address) == b"client-1"
        await lasting.close()


@pytest.mark.parametrize(
    ("field", "content", "says"),
    [
        ("ca", "no PEM", "ca"),
        ("ca", None, "No such file"),
        ("certificate", "no PEM", "certificate"),
        ("key", None, "No such file"),
        ("token", None, "token"),
        ("token", "two words", "holds no token"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    client: Tls, tmp_path: Path, field: str, content: str | None, says: str
) -> None:
    path = tmp_path / "bad"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationInvalid) as caught:
        check_files(replace(client, **{field: str(path)}))
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_key_of_another_certificate_is_no_use(client: Tls, store: Tls) -> None:
    with pytest.raises(ConfigurationInvalid, match="not of each other"):
        check_files(replace(client, key=store.key))


def test_a_server_needs_a_certificate(client: Tls) -> None:
    with pytest.raises(ConfigurationInvalid, match="certificate: must be given"):
        listen_only(Tls(client.ca))


def listen_only(tls: Tls) -> None:
    async def serve() -> None:
        listen(new_server(), "127.0.0.1:0", tls)

    asyncio.run(serve())
