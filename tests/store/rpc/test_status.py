"""A store's report of itself: whole, in parts, and only of some topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
from tests.store.support import Client, configuration

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.store.node import StoreNode
from quorate.store.rpc.status import SOURCES_AT_ONCE
from quorate.transport.failures import error_from_call
from quorate.transport.status import read_status, status_request
from quorate.v1.store_pb2 import StatusResponse


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a store with three parts' worth of sources."""
    node = StoreNode(configuration(tmp_path))
    await node.start()
    names = [SourceName(f"t{number % 10}", number + 1) for number in range(2 * SOURCES_AT_ONCE + 5)]
    async with Client(node.address) as client:
        await asyncio.gather(*(client.promise(source=name) for name in names))
        yield client
    await node.stop()


async def test_all_parts_together_are_the_status(client: Client) -> None:
    stream = await client.stream(2, SourceName("t0", 1))
    await stream.append(0, 4, epoch=2, source=SourceName("t0", 1))
    parts = [part async for part in client.stub.Status(status_request())]
    assert len(parts) == 1 + 2 + 1
    assert [bool(part.store_name) for part in parts] == [True, False, False, False]
    whole = await client.status()
    assert len(whole.sources) == whole.source_count == 2 * SOURCES_AT_ONCE + 5
    assert len({each.information.source.session_id for each in whole.sources}) == len(whole.sources)
    assert (whole.messages, whole.starts, whole.store_name) == (5, 1, "s1")
    assert whole.disk_free_min_bytes < whole.disk_free_warning_bytes


async def test_only_topics_that_match_are_reported(client: Client) -> None:
    whole: StatusResponse = await read_status(client.stub.Status(status_request("t[34]")))
    assert {each.information.source.topic for each in whole.sources} == {"t3", "t4"}
    assert whole.source_count == 2 * SOURCES_AT_ONCE + 5, "the sums are over all sources"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await read_status(client.stub.Status(status_request("(")))
    assert isinstance(error_from_call("", caught.value), InvalidArgument)
