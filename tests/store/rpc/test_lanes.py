"""The lanes of one client at a store: each serves a source, and ends without the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests import seams
from tests.store.support import FIRST_LINEAGE, Client, batch, information, running

from quorate.protocol.errors import InvalidArgument, NotRegistered, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.lanes import lane_end, lane_frame
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.store.node import StoreNode
from quorate.transport.channels import frames_to
from quorate.transport.failures import errors_of, failure_from_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

SOURCES = [SourceName(f"topic.{number}", 1) for number in range(20)]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StoreNode]:
    async with running(tmp_path / "data", topics=tuple(each.topic for each in SOURCES)) as node:
        yield node


@pytest.fixture
async def client(node: StoreNode) -> AsyncIterator[Client]:
    async with Client(node.address) as client:
        yield client


class Call:
    """A call of Append, as a client without scruples makes it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.call: Any = frames_to(
            client.channel, "/quorate.v1.Store/Append", store_v1.AppendResponses.FromString
        )
        self.durable: dict[int, int] = {}
        self.opened: set[int] = set()
        self.failed: dict[int, QuorateError] = {}
        self.over: list[int] = []

    async def send(self, *parts: bytes) -> None:
        await self.call.write(b"".join(parts))

    async def read(self) -> None:
        """Take one message of the store."""
        async with asyncio.timeout(30):
            responses = await self.call.read()
        assert responses is not grpc.aio.EOF
        for each in responses.responses:
            if not each.HasField("response"):
                self.over.append(each.lane)
            elif each.response.HasField("failed"):
                failed = failure_from_wire(each.response.failed, self._client.address)
                self.failed[each.lane] = failed
            elif each.response.HasField("opened"):
                self.opened.add(each.lane)
            elif each.response.HasField("durable"):
                self.durable[each.lane] = each.response.durable.upto

    async def until(self, what: Any) -> None:
        while not what():
            await self.read()


async def opening(client: Client, source: SourceName) -> v1.Frame:
    """Register a source, and return the first frame of its stream."""
    await client.promise(source=source)
    await client.begin(FIRST_LINEAGE, source)
    opened = v1.AppendOpen(
        information=information(source),
        instance=b"a",
        incarnation=(await client.status()).incarnation,
        protocol_version=PROTOCOL_VERSION,
    )
    return v1.Frame(open=opened, stable_upto=NOTHING)


def part(lane: int, frame: v1.Frame) -> bytes:
    return lane_frame(lane, frame.SerializeToString())


def batch_part(lane: int, first: int, last: int) -> bytes:
    source = SOURCES[lane - 1]
    return part(lane, v1.Frame(batch=batch(first, last, source=source), stable_upto=NOTHING))


async def test_one_call_carries_the_streams_of_many_sources(client: Client) -> None:
    lanes = range(1, len(SOURCES) + 1)
    openings = [await opening(client, source) for source in SOURCES]
    call = Call(client)
    await call.send(*map(part, lanes, openings))
    await call.send(*(batch_part(lane, 0, 9) for lane in lanes))
    await call.send(*(batch_part(lane, 10, 10) for lane in lanes))
    await call.until(lambda: call.durable == dict.fromkeys(lanes, 10))
    assert call.opened == set(lanes)
    await call.send(*map(lane_end, lanes))
    await call.until(lambda: sorted(call.over) == list(lanes))
    assert not call.failed


async def test_a_lane_that_is_refused_leaves_the_others_alone(client: Client) -> None:
    good = await opening(client, SOURCES[1])
    unknown = v1.Frame()
    unknown.CopyFrom(good)
    unknown.open.information.source.topic = "nobody"
    call = Call(client)
    await call.send(part(1, unknown), part(2, good), part(3, v1.Frame(batch=batch(0, 0))))
    await call.send(batch_part(2, 0, 5), batch_part(1, 0, 5))
    await call.until(lambda: call.durable.get(2) == 5 and set(call.over) == {1, 3})
    assert isinstance(call.failed[1], NotRegistered)
    assert isinstance(call.failed[3], InvalidArgument)


async def test_frames_behind_the_end_of_a_lane_are_dropped(client: Client) -> None:
    call, first = Call(client), await opening(client, SOURCES[0])
    await call.send(part(1, first), batch_part(1, 0, 3), lane_end(1), batch_part(1, 4, 9))
    await call.until(lambda: call.over == [1])
    assert call.durable == {1: 3}
    await call.send(batch_part(1, 4, 9), lane_end(1), lane_end(7))
    second = await opening(client, SOURCES[1])
    await call.send(part(2, second), batch_part(2, 0, 3))
    await call.until(lambda: call.durable.get(2) == 3)
    assert call.over == [1]


async def test_a_client_opens_no_more_lanes_than_the_store_bears(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.STORE_LANES_LANES_MAX.replace(monkeypatch, 2)
    call = Call(client)
    openings = [await opening(client, source) for source in SOURCES[:3]]
    await call.send(*map(part, (1, 2, 3), openings))
    with pytest.raises(InvalidArgument, match="lanes"), errors_of(client.address):
        await call.until(lambda: False)


async def test_no_message_is_read_while_frames_of_too_many_wait(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a store is not the client's. What waits is taken once there is room."""
    seams.STORE_LANES_BUNDLES_MAX.replace(monkeypatch, 1)
    call, first = Call(client), await opening(client, SOURCES[0])
    await call.send(part(1, first))
    for number in range(50):
        await call.send(batch_part(1, number, number))
    await call.until(lambda: call.durable.get(1) == 49)


async def test_a_call_that_is_cut_off_ends_all_its_streams(client: Client) -> None:
    call = Call(client)
    openings = [await opening(client, source) for source in SOURCES[:3]]
    await call.send(*map(part, (1, 2, 3), openings))
    await call.until(lambda: call.opened == {1, 2, 3})
    call.call.cancel()
    for source in SOURCES[:3]:
        stream = await client.open(source=source)  # refused while the former stream is served
        assert stream.next_sequence == 0


async def test_a_store_that_stops_ends_each_stream_and_the_call(
    client: Client, node: StoreNode
) -> None:
    call = Call(client)
    await call.send(part(1, await opening(client, SOURCES[0])), batch_part(1, 0, 9))
    await call.until(lambda: call.durable.get(1) == 9)
    stopping = asyncio.create_task(node.stop())
    await call.until(lambda: call.over == [1])
    assert "stop" in str(call.failed[1])
    await stopping
