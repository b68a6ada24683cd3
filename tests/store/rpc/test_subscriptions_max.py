"""The bound on the subscriptions of a store, as clients and subscribers meet it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests.source.real_stores import RealStores
from tests.store.support import Client, running

from quorate.client import connect
from quorate.client.replay import in_order
from quorate.protocol.errors import TooManySubscriptions
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.subscriber.events import Event, StoreLeft, Subscribed
from quorate.transport.failures import error_from_call
from quorate.v1 import store_pb2 as store_v1

Call = grpc.aio.UnaryStreamCall[store_v1.SubscribeRequest, store_v1.SubscribeResponse]


async def subscribed(client: Client) -> Call:
    """A subscription that has begun."""
    request = store_v1.SubscribeRequest(
        protocol_version=PROTOCOL_VERSION, topic="orders", delivered=store_v1.DELIVERED_STABLE
    )
    call: Call = client.stub.Subscribe(request)
    try:
        begun: Any = await call.read()
    except grpc.aio.AioRpcError as error:
        raise error_from_call(client.address, error) from error
    assert begun.HasField("begins")
    return call


async def test_one_too_many_is_refused_until_another_ends(tmp_path: Path) -> None:
    async with running(tmp_path, subscriptions_max=2) as node, Client(node.address) as client:
        first, _ = await subscribed(client), await subscribed(client)
        with pytest.raises(TooManySubscriptions) as caught:
            await subscribed(client)
        assert (caught.value.store, caught.value.most) == ("s1", 2)
        first.cancel()
        async with asyncio.timeout(60):
            while True:
                try:
                    await subscribed(client)
                    return
                except TooManySubscriptions:  # the store has not heard of the end yet
                    await asyncio.sleep(0.01)


async def test_a_subscriber_goes_to_a_store_that_has_room(tmp_path: Path) -> None:
    stores, told = RealStores(tmp_path), list[Event]()
    stores.settings["a"] = {"subscriptions_max": 1}
    await stores.start("ab")
    async with (
        connect(stores.named("ab")) as client,
        client.subscriber("orders", chooser=in_order),
        client.subscriber("orders", chooser=in_order, on_event=told.append),
    ):
        left, begun = told
        assert isinstance(left, StoreLeft)
        assert isinstance(left.reason, TooManySubscriptions)
        assert isinstance(begun, Subscribed)
        assert begun.store == "b"
    await stores.stop_all()


async def test_with_no_other_store_opening_raises_the_refusal(tmp_path: Path) -> None:
    stores = RealStores(tmp_path)
    stores.settings["a"] = {"subscriptions_max": 1}
    await stores.start("a")
    async with connect(stores.named("a")) as client, client.subscriber("orders"):
        with pytest.raises(TooManySubscriptions, match="raise subscriptions_max at the store"):
            await client.subscriber("orders", timeout=0.5)
    await stores.stop_all()
