"""Lanes as a client has them: they share a call, and each ends by itself or with the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

from quorate.protocol.errors import QuorateError, Unreachable
from quorate.transport.channels import new_server, open_channel
from quorate.transport.lanes import Lane, Lanes
from quorate.v1.messages_pb2 import Frame, Keepalive
from quorate.v1.store_pb2 import AppendFrames, AppendResponse, AppendResponses, LaneResponse
from quorate.v1.store_pb2_grpc import StoreServicer, add_StoreServicer_to_server

ADDRESS = "the store"
FRAME = Frame(keepalive=Keepalive(), stable_upto=1).SerializeToString()


class Store(StoreServicer):  # type: ignore[misc]
    """A store that takes bundles, and responds when a test says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.bundles: list[AppendFrames] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.came = asyncio.Event()
        self.context: Any = None
        self.signs = 0

    async def Append(self, _: Any, context: Any) -> None:
        self.calls += 1
        self.context = context
        while True:
            await self.reads.wait()
            bundle = await context.read()
            if bundle is grpc.aio.EOF:
                return
            self.bundles.append(bundle)
            self.came.set()

    def heard(self) -> None:
        self.signs += 1

    async def until(self, frames: int) -> list[int]:
        """Return the lanes of all that came, in order, once there are so many."""
        while len(lanes := [each.lane for one in self.bundles for each in one.frames]) < frames:
            self.came.clear()
            await self.came.wait()
        return lanes

    async def respond(self, lane: int, response: AppendResponse | None) -> None:
        told = LaneResponse(lane=lane, response=response)
        await self.context.write(AppendResponses(responses=[told]))


def unexpected() -> None:
    pytest.fail("a frame is said to be written that was not")


class User:
    """A user of a lane: what it was told."""

    def __init__(self, lanes: Lanes) -> None:
        self.heard: list[AppendResponse] = []
        self.over: asyncio.Future[QuorateError | None] = asyncio.Future()
        self.news = asyncio.Event()
        self.lane: Lane = lanes.open(self._take, self.over.set_result)

    async def write(self, frame: bytes) -> None:
        """Write a frame, and wait until gRPC has taken it."""
        written = asyncio.Event()
        self.lane.write(frame, written.set)
        await written.wait()

    def _take(self, response: AppendResponse) -> None:
        self.heard.append(response)
        self.news.set()


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def lanes(store: Store) -> AsyncIterator[Lanes]:
    server = new_server()
    add_StoreServicer_to_server(store, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        lanes = Lanes(ADDRESS, lambda: channel, store.heard)
        yield lanes
        await lanes.close()
    await server.stop(None)


async def test_what_waits_travels_together_in_its_order(store: Store, lanes: Lanes) -> None:
    users = [User(lanes) for _ in range(100)]
    await users[0].write(FRAME)
    await store.until(1)
    await asyncio.gather(*(user.write(FRAME) for user in users))
    assert await store.until(101) == [1, *range(1, 101)]
    assert len(store.bundles) < 10
    assert store.calls == 1


async def test_a_response_goes_to_its_lane(store: Store, lanes: Lanes) -> None:
    first, second = User(lanes), User(lanes)
    await first.write(FRAME)
    await store.until(1)
    await store.respond(2, AppendResponse())
    await second.news.wait()
    assert (len(first.heard), len(second.heard)) == (0, 1)
    assert store.signs == 1


async def test_a_lane_that_its_user_left_hears_nothing_more(store: Store, lanes: Lanes) -> None:
    left, other = User(lanes), User(lanes)
    await left.write(FRAME)
    left.lane.close()
    left.lane.close()  # a second time it is nothing
    await store.until(2)
    assert not store.bundles[-1].frames[-1].HasField("frame")
    await store.respond(1, AppendResponse())
    await store.respond(1, None)
    await store.respond(2, AppendResponse())
    await other.news.wait()
    assert not left.heard
    assert not left.over.done()


async def test_a_lane_that_the_store_ends_is_over_alone(store: Store, lanes: Lanes) -> None:
    ended, other = User(lanes), User(lanes)
    await ended.write(FRAME)
    await store.until(1)
    await store.respond(1, None)
    assert await ended.over is None
    await other.write(FRAME)
    # The store hears that the lane's user has left, too.
    assert await store.until(3) == [1, 1, 2]
    assert not other.over.done()


async def test_all_lanes_are_over_with_the_call_and_the_next_one_is_on_another(
    store: Store, lanes: Lanes
) -> None:
    users = [User(lanes) for _ in range(3)]
    await users[0].write(FRAME)
    await store.until(1)
    lanes.break_off(Unreachable(ADDRESS, "it is silent"))
    for user in users:
        assert isinstance(await user.over, Unreachable)
    users[1].lane.write(FRAME, unexpected)
    await User(lanes).write(FRAME)
    await store.until(2)
    assert store.calls == 2


async def test_what_waits_when_the_call_breaks_off_is_dropped(store: Store, lanes: Lanes) -> None:
    store.reads.clear()
    user = User(lanes)
    large = Frame(batch=bytes(3_000_000)).SerializeToString()
    user.lane.write(large, unexpected)
    user.lane.write(large, unexpected)
    await asyncio.sleep(0)
    lanes.break_off(Unreachable(ADDRESS, "it is silent"))
    assert isinstance(await user.over, Unreachable)
    store.reads.set()
    await User(lanes).write(FRAME)


async def test_a_store_that_is_away_ends_all_lanes() -> None:
    async with open_channel("127.0.0.1:1") as channel:
        lanes = Lanes(ADDRESS, lambda: channel, lambda: None)
        users = [User(lanes) for _ in range(2)]
        for user in users:
            assert isinstance(await user.over, Unreachable)
        await lanes.close()


async def test_no_lane_is_opened_on_a_connection_that_this_end_has_closed() -> None:
    channel = open_channel("127.0.0.1:1")
    await channel.close()
    lanes = Lanes(ADDRESS, lambda: channel, lambda: None)
    with pytest.raises(Unreachable, match="this end closed the connection"):
        lanes.open(lambda _: None, lambda _: None)
