"""Stores, sources, receivers and subscribers that speak TLS with each other, and mistakes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests.certificates import files
from tests.source.real_stores import RealStores

from quorate.client import Client, SourceOptions, Subscriber, Tls, connect, connect_blocking
from quorate.client.receiver_events import SourceAttached
from quorate.console.group.authority import Authority
from quorate.errors import (
    AccessDenied,
    ConfigurationInvalid,
    InvalidArgument,
    QuorateError,
    TlsFailed,
)
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.subscriber import ReplayedMessage
from quorate.transport.channels import open_channel
from quorate.transport.failures import errors_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import source_pb2 as source_v1
from quorate.v1.source_pb2_grpc import SourceStub

NAMES = "abc"
SECONDS_MAX = 10.0
"""The bound within which opening must fail if the TLS settings are wrong."""


class SecureStores(RealStores):
    """Stores with TLS, each with files of its own, that know each other as peers."""

    def __init__(self, path: Path, authority: Authority) -> None:
        super().__init__(path)
        self.authority = authority
        self.path = path
        for name in NAMES:
            self.rotate(name)

    def rotate(self, name: str) -> None:
        """Give a store a certificate and a key of its own, also while it runs."""
        tls = files(self.path / f"{name}-tls", self.authority, f"store-{name}")
        self.settings[name] = {
            "tls": {"ca": tls.ca, "certificate": tls.certificate, "key": tls.key}
        }


@pytest.fixture
def authority() -> Authority:
    return Authority.new()


@pytest.fixture
async def stores(tmp_path: Path, authority: Authority) -> AsyncIterator[SecureStores]:
    stores = SecureStores(tmp_path, authority)
    await stores.start(NAMES)
    yield stores
    await stores.stop_all()


@pytest.fixture
def tls(tmp_path: Path, authority: Authority) -> Tls:
    return files(tmp_path / "client", authority, "client-1")


async def taken(subscriber: Subscriber) -> AsyncIterator[ReplayedMessage]:
    """Yield the first message that a subscriber is given."""
    async for item in subscriber:
        if isinstance(item, ReplayedMessage):
            yield item
            return


async def test_all_roles(stores: SecureStores, tls: Tls) -> None:
    async with connect(stores.named(NAMES), tls=tls) as quorate:
        orders = await quorate.source("orders", session_id=1)
        receiver = await quorate.receiver("orders", session_id=2)
        await orders.publish(b"one")
        message = await anext(aiter(receiver))
        assert message.payload == b"one"
        async with quorate.subscriber("orders", begin="epoch") as subscriber:
            replayed = [item async for item in taken(subscriber)]
        assert [item.payload for item in replayed] == [b"one"]


async def test_without_asyncio(stores: SecureStores, tls: Tls) -> None:
    def run() -> int:
        with connect_blocking(stores.named(NAMES), tls=tls) as quorate:
            return quorate.source("orders", session_id=1).publish(b"one").sequence

    assert await asyncio.to_thread(run) == 0


async def test_the_file_of_a_client_names_the_files(
    stores: SecureStores, tls: Tls, tmp_path: Path
) -> None:
    names = ", ".join(f'"{name}={stores.address(name)}"' for name in NAMES)
    table = "\n".join(f'{key} = "{getattr(tls, key)}"' for key in ("ca", "certificate", "key"))
    path = tmp_path / "quorate.toml"
    path.write_text(f"stores = [{names}]\n[tls]\n{table}\n")
    async with connect(path) as quorate, quorate.source("orders") as orders:
        assert (await orders.publish(b"one")).sequence == 0


async def failed(client: Client) -> QuorateError:
    began = time.monotonic()
    async with client:
        with pytest.raises(QuorateError) as caught:
            await client.source("orders", session_id=1)
    assert time.monotonic() - began < SECONDS_MAX
    return caught.value


@pytest.mark.expects_log("No secure connection")
async def test_a_plain_client_is_told_why(stores: SecureStores) -> None:
    error = await failed(connect(stores.named(NAMES)))
    assert isinstance(error, TlsFailed)
    assert "it speaks TLS, and this end does not" in str(error)


@pytest.mark.expects_log("No secure connection")
async def test_a_client_of_another_authority_is_told_why(
    stores: SecureStores, tmp_path: Path
) -> None:
    other = files(tmp_path / "other", Authority.new(), "client-1")
    error = await failed(connect(stores.named(NAMES), tls=other))
    assert isinstance(error, TlsFailed)
    assert "no authority" in str(error)


@pytest.mark.expects_log("No secure connection")
async def test_a_secure_client_of_plain_stores_is_told_why(tmp_path: Path, tls: Tls) -> None:
    plain = RealStores(tmp_path / "plain")
    await plain.start(NAMES)
    error = await failed(connect(plain.named(NAMES), tls=tls))
    assert isinstance(error, TlsFailed)
    assert "the other end does not" in str(error)
    await plain.stop_all()


@pytest.mark.expects_log("No secure connection")
async def test_a_receiver_and_a_subscriber_are_told_why(
    stores: SecureStores, tmp_path: Path
) -> None:
    other = files(tmp_path / "other", Authority.new(), "client-1")
    async with connect(stores.named(NAMES), tls=other, timeout=SECONDS_MAX) as quorate:
        for opening in (quorate.receiver("orders"), quorate.subscriber("orders")):
            with pytest.raises(TlsFailed):
                await opening


async def test_files_are_rotated_and_no_stream_is_dropped(
    stores: SecureStores, tls: Tls, tmp_path: Path, authority: Authority
) -> None:
    options = SourceOptions(registration_interval=0.3)
    async with connect(stores.named(NAMES), tls=tls) as quorate:
        orders = await quorate.source("orders", session_id=1, options=options)
        await orders.publish(b"0")
        for name in NAMES:
            stores.rotate(name)
        files(tmp_path / "client", authority, "client-1")
        await orders.publish(b"1")
        async with connect(stores.named(NAMES), tls=tls) as other, other.source("new") as new:
            await new.publish(b"with the new files")
        assert (await orders.publish(b"2")).epoch == 1, "the streams went on"


async def test_a_source_without_a_certificate_is_told_that_it_needs_one(
    stores: SecureStores, tls: Tls
) -> None:
    error = await failed(connect(stores.named(NAMES), tls=Tls(tls.ca)))
    assert isinstance(error, ConfigurationInvalid)
    assert "because clients connect to this end" in str(error)


async def test_a_source_serves_the_receivers_that_it_names(
    stores: SecureStores, tls: Tls, tmp_path: Path, authority: Authority
) -> None:
    choosy = replace(tls, receivers="desk, audit")
    async with connect(stores.named(NAMES), tls=choosy) as quorate:
        orders = await quorate.source("orders", session_id=1)
        await orders.publish(b"0")
        desk = files(tmp_path / "desk", authority, "desk", hosts=())
        seen: asyncio.Queue[object] = asyncio.Queue()
        async with connect(stores.named(NAMES), tls=desk) as other:
            await other.receiver("orders", on_event=seen.put_nowait)
            async with asyncio.timeout(10):
                while not isinstance(event := await seen.get(), SourceAttached):
                    pass
        stranger = files(tmp_path / "stranger", authority, "stranger", hosts=())
        async with open_channel(event.address, stranger) as channel:
            with pytest.raises(AccessDenied) as caught, errors_of(event.address):
                await anext(aiter(attached(channel)))
        error = caught.value
        assert (error.identity, error.verb, error.topic) == ("stranger", "receive", "orders")


def attached(channel: grpc.aio.Channel) -> Any:
    """Return the call with which a receiver attaches to the source."""
    source = v1.SourceName(topic="orders", session_id=1)
    request = source_v1.AttachRequest(
        source=source, session_id=2, protocol_version=PROTOCOL_VERSION
    )
    return SourceStub(channel).Attach(request)


async def test_a_receiver_without_a_certificate_gets_messages_from_the_stores(
    stores: SecureStores, tls: Tls
) -> None:
    await stores.stop(NAMES)
    for name in NAMES:
        stores.settings[name]["tls"]["mutual"] = False
    await stores.start(NAMES)
    async with (
        connect(stores.named(NAMES), tls=tls) as sending,
        connect(stores.named(NAMES), tls=Tls(tls.ca)) as receiving,
    ):
        orders = await sending.source("orders", session_id=1)
        receiver = await receiving.receiver("orders")
        for payload in (b"0", b"1"):
            await orders.publish(payload)
            async with asyncio.timeout(10):
                assert (await anext(aiter(receiver))).payload == payload


# Its files may be seen half replaced.
@pytest.mark.expects_log("No secure connection|does not take|stay in use")
async def test_one_store_that_has_expired_is_as_good_as_one_that_is_down(
    stores: SecureStores, tls: Tls, authority: Authority, tmp_path: Path
) -> None:
    files(tmp_path / "c-tls", authority, "store-c", days=-1)
    async with connect(stores.named(NAMES), tls=tls) as quorate:
        orders = await quorate.source("orders", session_id=1)
        receipt = await orders.publish(b"0")
        assert set(receipt.stores) == {"a", "b"}
        stores.rotate("c")
        async with asyncio.timeout(30):
            while "c" not in (await orders.publish(b"more")).stores:
                pass


def test_what_is_no_tls_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is not made by Tls"):
        connect("127.0.0.1:1", tls="certificates")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="the two go together"):
        Tls("ca.pem", "certificate.pem")
    with pytest.raises(ConfigurationInvalid, match="No such file"):
        connect("127.0.0.1:1", tls=Tls(tmp_path / "none"))  # type: ignore[arg-type]
