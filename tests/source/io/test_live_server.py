"""The servers that sources of one client share: the source that a receiver reaches there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests.receiver.real_peers import Stores
from tests.source.io.live_receiver import SILENCE, Client, batches
from tests.source.support import event_of

from quorate.protocol.errors import Closed, InvalidArgument, UnknownTopic
from quorate.protocol.identity import SourceName
from quorate.source import ReceiverDetached, Source, SourceOptions
from quorate.source.io.live_server import LiveServers
from quorate.transport.failures import error_from_call
from quorate.v1 import messages_pb2 as m


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Stores]:
    """One store, which takes any number of sources."""
    started = Stores(tmp_path)
    await started.start("a")
    yield started
    await started.stop("a")


async def open_source(
    store: Stores,
    session_id: int = 0x10,
    servers: LiveServers | None = None,
    options: SourceOptions | None = None,
) -> Source:
    return await Source.open(
        "orders",
        stores=store.addresses,
        session_id=session_id,
        live_servers=servers,
        options=options,
    )


def name_of(source: Source) -> m.SourceName:
    return m.SourceName(topic=source.name.topic, session_id=source.name.session_id)


def address_of(source: Source) -> str:
    return source._core.address


async def three_sources(store: Stores, servers: LiveServers) -> list[Source]:
    """Open sources with the session IDs 0x10 to 0x12."""
    return [await open_source(store, session_id, servers) for session_id in (0x10, 0x11, 0x12)]


async def closed(sources: list[Source]) -> None:
    for source in sources:
        await source.close()


async def error_of(call: Any) -> Exception:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    return error_from_call("source", raised.value)


async def test_sources_of_one_client_have_one_address(store: Stores) -> None:
    sources = await three_sources(store, LiveServers())
    assert len({address_of(source) for source in sources}) == 1
    async with await open_source(store, 0x13) as alone:
        assert address_of(alone) != address_of(sources[0])
    await closed(sources)


async def test_a_source_that_listens_elsewhere_has_another_address(store: Stores) -> None:
    servers = LiveServers()
    elsewhere = SourceOptions(listen="[::1]:0")
    async with (
        await open_source(store, servers=servers) as one,
        await open_source(store, 0x11, servers, options=elsewhere) as other,
    ):
        assert address_of(one) != address_of(other)


async def test_each_receiver_gets_the_source_that_it_names(store: Stores) -> None:
    sources = await three_sources(store, LiveServers())
    async with Client(sources[0]) as client:
        calls = [client.attach(source=name_of(source)) for source in sources]
        for number, (source, call) in enumerate(zip(sources, calls, strict=True)):
            attached = (await call.read()).attached
            assert attached.information.source == name_of(source)
            await source.publish(b"%d" % number)
            assert await anext(batches(call)) == (0, 0, [b"%d" % number])
    await closed(sources)


async def test_closing_a_source_ends_its_streams_and_no_other(store: Stores) -> None:
    first, second, third = await three_sources(store, LiveServers())
    async with Client(first) as client:
        calls = [client.attach(source=name_of(source)) for source in (first, second)]
        for call in calls:
            await call.read()
        await first.close()
        assert (await calls[0].read()).WhichOneof("kind") == "goodbye"
        assert await calls[0].read() is grpc.aio.EOF
        again = client.attach(source=name_of(first))
        assert isinstance(await error_of(again), UnknownTopic)
        await second.publish(b"0")
        assert await anext(batches(calls[1])) == (0, 0, [b"0"])
    await closed([second, third])


async def test_a_server_listens_as_long_as_it_has_sources(store: Stores) -> None:
    servers = LiveServers()
    source = await open_source(store, servers=servers)
    listen = address_of(source)
    await source.close()
    # The port is free again: also for a source of another client.
    options = SourceOptions(listen=listen)
    async with await open_source(store, options=options) as other:
        assert address_of(other) == listen
    async with await open_source(store, servers=servers) as source, Client(source) as client:
        assert (await client.attach().read()).WhichOneof("kind") == "attached"


async def test_one_silence_ends_the_streams_of_all_sources(store: Stores) -> None:
    sources = await three_sources(store, LiveServers())
    async with Client(sources[0]) as client:
        calls = [client.attach(source=name_of(source)) for source in sources]
        for call in calls:
            await call.read()
        await client.beat_once()
        for source, call in zip(sources, calls, strict=True):
            assert (await event_of(source, ReceiverDetached)).reason == SILENCE
            assert isinstance(await error_of(call), Closed)
    await closed(sources)


class OneInstance:
    """A live stream of an instance of one identity, which answers calls with its number."""

    name = SourceName("orders", 0x10)

    def __init__(self, number: int, *, started: bool) -> None:
        self.number = number
        self.started = started

    async def attach(self, _request: Any, context: Any, _listening: Any) -> None:
        attached = m.Attached(next_sequence=self.number)
        await context.write(m.Frame(attached=attached).SerializeToString())

    async def end(self, goodbye: bytes | None = None) -> None:
        pass


async def test_receivers_reach_the_newest_instance_of_an_identity_that_has_started() -> None:
    server = LiveServers().at("127.0.0.1:0")
    older, newer = OneInstance(1, started=True), OneInstance(2, started=False)
    instances: list[Any] = [older, newer]
    addresses = {await server.add(instance, None) for instance in instances}

    async def reached() -> int:
        frame = await client.attach().read()
        number: int = frame.attached.next_sequence
        return number

    (address,) = addresses
    async with Client(address) as client:
        assert await reached() == 1
        newer.started = True
        assert await reached() == 2
        await server.remove(instances[1])
        assert await reached() == 1
    await server.remove(instances[0])


async def test_an_address_that_is_taken_is_refused(store: Stores) -> None:
    async with await open_source(store) as source:
        options = SourceOptions(listen=address_of(source))
        with pytest.raises(InvalidArgument, match="cannot be listened on"):
            await open_source(store, 0x11, options=options)
