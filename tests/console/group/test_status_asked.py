"""The status of a store that takes its time, asked for over the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest

from quorate.console.group.status import ask
from quorate.protocol.errors import Unreachable
from quorate.v1.store_pb2 import SourceStatus, StatusRequest, StatusResponse
from quorate.v1.store_pb2_grpc import StoreServicer, add_StoreServicer_to_server


class SlowStore(StoreServicer):  # type: ignore[misc]
    """A store that says a part of its status, and the next one when it may."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.deadlines: list[float | None] = []

    async def Status(
        self, _: StatusRequest, context: grpc.aio.ServicerContext[StatusRequest, object]
    ) -> AsyncIterator[StatusResponse]:
        self.deadlines.append(context.time_remaining())
        yield StatusResponse(store_name="a")
        await self.goes_on.wait()
        yield StatusResponse(sources=[SourceStatus(reg_id=1)])


@asynccontextmanager
async def serving(store: SlowStore) -> AsyncIterator[str]:
    """Serve the store, and yield its address."""
    server = grpc.aio.server()
    add_StoreServicer_to_server(store, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def test_the_whole_answer_has_no_deadline() -> None:
    store = SlowStore()
    store.goes_on.set()
    async with serving(store) as address:
        status = await ask(address, 60.0)
    assert (status.store_name, len(status.sources)) == ("a", 1)
    assert store.deadlines == [None]


async def test_a_store_that_falls_silent_is_unreachable() -> None:
    async with serving(SlowStore()) as address:
        with pytest.raises(Unreachable, match="did not answer in time"):
            await ask(address, 0.1)
