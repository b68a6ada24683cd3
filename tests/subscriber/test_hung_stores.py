"""A subscriber at a store that hangs: it goes on at another one, as soon as the silence counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from tests.beats import Beats
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import client, send, sent, stores, take

from quorate.client import Client, connect
from quorate.client.replay import StoreLeft, Subscribed, in_order
from quorate.protocol.errors import Unreachable
from quorate.subscriber.events import Event
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreServicer, add_StoreServicer_to_server

__all__ = ["client", "stores"]

TIMEOUT = 0.5


class Hanging(StoreServicer):  # type: ignore[misc]
    """A store that hangs once a subscription has begun, or before it answers."""

    def __init__(self, *, answers: bool) -> None:
        self.beating = asyncio.Event()
        self.beating.set()
        self._answers = answers

    async def Subscribe(self, *_: Any) -> AsyncIterator[Any]:
        self.beating.clear()
        if self._answers:
            yield store_v1.SubscribeResponse(begins=store_v1.Position())
        await asyncio.Event().wait()


@asynccontextmanager
async def hanging(*, answers: bool) -> AsyncIterator[str]:
    """Yield the address of such a store."""
    store, server = Hanging(answers=answers), grpc.aio.server()
    add_StoreServicer_to_server(store, server)
    server.add_generic_rpc_handlers((Beats(store.beating).handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@pytest.mark.parametrize("answers", [True, False])
async def test_it_goes_on_at_another_store(
    client: Client, stores: RealStores, answers: bool
) -> None:
    told: list[Event] = []
    await send(client, 1, 0, 9)
    async with (
        hanging(answers=answers) as address,
        connect(
            f"hung={address},{stores.named('a')}",
            heartbeat_interval=0.05,
            heartbeat_timeout=TIMEOUT,
        ) as other,
        other.subscriber("orders", chooser=in_order, on_event=told.append) as subscriber,
    ):
        assert await take(subscriber, 10) == sent(1, 0, 9)
    left = next(each for each in told if isinstance(each, StoreLeft))
    assert (left.store, str(left.reason)) == (
        "hung",
        str(Unreachable(address, f"it said nothing for {TIMEOUT} s")),
    )
    assert [each.store for each in told if isinstance(each, Subscribed)][-1] == "a"
