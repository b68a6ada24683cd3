"""The calls about the state of the world, on the wire: digests of a group, and bad requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests.store.group import Group
from tests.store.support import Client, running

from quorate.client import SourceOptions, connect
from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import (
    InvalidArgument,
    InvalidFilter,
    StateUnavailable,
    TopicHasNoKeys,
    VersionMismatch,
)
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import position_to_wire
from quorate.transport.failures import error_from_call
from quorate.v1 import store_pb2 as store_v1

KEYED = ({"pattern": "orders", "keys": "$key"}, {"pattern": "pairs", "keys": ["a", "b"]})


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    made.overrides = {name: {"topic": KEYED} for name in made.addresses}
    await made.found()
    yield made
    await made.stop(*made.nodes)


async def digest(client: Client, at_least: Position, wait: float = 20.0) -> Any:
    request = store_v1.DigestStateRequest(
        protocol_version=PROTOCOL_VERSION,
        topic="orders",
        at_least=position_to_wire(at_least),
        wait_seconds=wait,
    )
    return await client.call("DigestState", request)


async def query(client: Client, **fields: Any) -> list[store_v1.QueryStateResponse]:
    given: dict[str, Any] = {"protocol_version": PROTOCOL_VERSION, "topic": "orders"} | fields
    try:
        async with asyncio.timeout(20):
            call = client.stub.QueryState(store_v1.QueryStateRequest(**given))
            return [response async for response in call]
    except grpc.aio.AioRpcError as error:
        raise error_from_call(client.address, error) from error


async def published(group: Group, session: int, count: int, prefix: bytes = b"k") -> Bookmark:
    """A source sends several keys, again and again."""
    named = ",".join(f"{name}={address}" for name, address in group.addresses.items())
    quick = SourceOptions(registration_interval=0.3)
    async with (
        connect(named) as client,
        client.source("orders", session_id=session, options=quick) as source,
    ):
        for number in range(count):
            await source.send(b"%d" % number, key=prefix + b"%d" % (number % 7))
        receipt = await source.publish(b"last", key=b"last")
        return Bookmark(source.name, receipt.epoch, receipt.sequence)


async def digests(group: Group, at_least: Position) -> set[tuple[bytes, int]]:
    found = set()
    for name in group.addresses:
        async with group.client(name) as client:
            answer = await digest(client, at_least)
            found.add((answer.digest, answer.count))
    return found


@pytest.mark.expects_log("is in limbo")
async def test_all_stores_have_the_same_rows_also_one_that_was_wiped(group: Group) -> None:
    first = await published(group, 1, 100)
    second = await published(group, 2, 100)
    position = Position.of([first, second])
    before = await digests(group, position)
    assert len(before) == 1
    assert {count for _, count in before} == {8}
    await group.wipe("b")
    await group.start("b")
    await group.vouching("b")
    assert await digests(group, position) == before
    await group.stop("b")
    await group.start("b")
    assert await digests(group, position) == before


@pytest.mark.expects_log("is in limbo")
async def test_a_wiped_store_has_the_rows_of_messages_that_have_left_the_journal(
    group: Group,
) -> None:
    topic = ({"pattern": "orders", "keys": "$key", "retention_messages": 10},)
    await group.stop(*group.addresses)
    group.overrides = {name: {"topic": topic} for name in group.addresses}
    await group.start(*group.addresses)
    last = await published(group, 1, 8, b"old")
    last = await published(group, 1, 5_000)
    position = Position.of([last])
    before = await digests(group, position)
    assert len(before) == 1
    assert {count for _, count in before} == {15}
    async with asyncio.timeout(60):
        for name in group.addresses:
            engine = group.nodes[name]._engine
            assert engine is not None
            while engine.core.sources[last.source].held.retained_from < 8:
                await asyncio.wait_for(engine.writer.durable(engine.writer.submit(())), 10)
                await asyncio.sleep(0.1)  # retention works by the clock
    await group.wipe("b")
    await group.start("b")
    await group.vouching("b")
    assert await digests(group, position) == before


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_version": 99}, VersionMismatch),
        ({"topic": ""}, InvalidArgument),
        ({"topic": "trades"}, TopicHasNoKeys),
        ({"where": "a ="}, InvalidFilter),
        ({"select": "a, -b"}, InvalidArgument),
        ({"order_by": ["a +"]}, InvalidArgument),
        ({"order_by": ["a"] * 17}, InvalidArgument),
        ({"keys": [store_v1.StateKey()]}, InvalidArgument),
        ({"keys": [store_v1.StateKey(values="{}")]}, InvalidArgument),
        ({"keys": [store_v1.StateKey(values="[" * 100_000)]}, InvalidArgument),
        ({"keys": [store_v1.StateKey(values='["a", 1]')]}, InvalidArgument),
        ({"keys": [store_v1.StateKey(raw=b"k" * 70_000)]}, InvalidArgument),
        ({"keys": [store_v1.StateKey(raw=b"k")] * 1025}, InvalidArgument),
        ({"topic": "pairs", "keys": [store_v1.StateKey(raw=b"k")]}, InvalidArgument),
        ({"at_least": {"places": [{"epoch": 1}]}}, InvalidArgument),
        (
            {
                "at_least": {
                    "places": [{"source": {"topic": "orders", "session_id": 9}, "epoch": 1}]
                }
            },
            StateUnavailable,
        ),
    ],
)
async def test_requests_that_cannot_be_answered(
    tmp_path: Path, fields: dict[str, Any], error: type[Exception]
) -> None:
    async with running(tmp_path, topic=KEYED) as node, Client(node.address) as client:
        with pytest.raises(error):
            await query(client, **fields)
        answers = await query(client, wait_seconds=float("nan"))
        assert answers[-1].HasField("end"), "the store goes on"
