"""No request of a client holds up a store's event loop for more than 10 ms of its own work.

The clients run in threads of their own, without asyncio, so that only the store's work is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.store.support import MEMBERSHIP, Client, running
from tests.store.watchdog import longest_turn

from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import ACKNOWLEDGEMENTS_MAX, LINEAGE_TERMS_MAX, RANGES_MAX
from quorate.protocol.patterns import PATTERN_LENGTH_MAX, UNICODE_CLASSES_MAX
from quorate.protocol.wire import source_to_wire
from quorate.store.node import StoreNode
from quorate.transport.channels import open_blocking_channel
from quorate.transport.failures import error_from_blocking_call
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

TURN_SECONDS_MAX = 0.010
SOURCES = 1500
AT_ONCE = 300
HOSTILE = SourceName("hostile", 1)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StoreNode]:
    async with running(tmp_path, durability="os") as node:
        yield node


def named(number: int) -> v1.SourceName:
    return v1.SourceName(topic=f"topic.{number}", session_id=number + 1)


class Hostile:
    """A client in a thread. It sends what it likes, and takes every refusal."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel = open_blocking_channel(address)
        self.stub: Any = StoreStub(self._channel)
        self.refused: list[QuorateError] = []

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def calls(self, method: str, requests: list[Any]) -> list[Any]:
        """Send the requests, many at once, and return the answers there are."""
        answers = []
        for at in range(0, len(requests), AT_ONCE):
            part = requests[at : at + AT_ONCE]
            futures = [getattr(self.stub, method).future(request) for request in part]
            answers += [self._taken(each.result) for each in futures]
        return [answer for answer in answers if answer is not None]

    def call(self, method: str, request: Any) -> None:
        self.calls(method, [request])

    def read(self, method: str, request: Any, responses: int = 1_000_000) -> None:
        """Make a call with many responses, and take so many of them."""
        call = getattr(self.stub, method)(request)
        for _ in range(responses):
            if self._taken(lambda: next(call, None)) is None:
                return
        call.cancel()

    def _taken(self, take: Callable[[], Any]) -> Any:
        try:
            return take()
        except grpc.RpcError as error:
            self.refused.append(error_from_blocking_call(self._address, error))
            return None


def promise(source: v1.SourceName, epoch: int = 1) -> store_v1.PromiseRequest:
    return store_v1.PromiseRequest(source=source, epoch=epoch, instance=b"a", protocol_version=1)


def registers_many(client: Hostile) -> None:
    """Register many sources at once, and begin them."""
    sources = [named(number) for number in range(SOURCES)]
    answers = client.calls("Promise", [promise(source) for source in sources])
    assert len(answers) == SOURCES, client.refused
    begins = [
        store_v1.BeginRequest(
            source=source,
            epoch=1,
            lineage=[v1.LineageEntry(epoch=1, first_sequence=0)],
            membership=MEMBERSHIP,
            instance=b"a",
            incarnation=answers[0].incarnation,
            protocol_version=1,
        )
        for source in sources
    ]
    assert len(client.calls("Begin", begins)) == SOURCES, client.refused


def asks_for_everything(client: Hostile) -> None:
    """Ask for all sources, by patterns as long and as slow as the store takes them."""
    slow = "|".join([r"\pL"] * UNICODE_CLASSES_MAX)
    for pattern in (".*", "(a|b|.)*" * (PATTERN_LENGTH_MAX // 9), slow):
        client.read("Status", store_v1.StatusRequest(topic_pattern=pattern, protocol_version=1))
        request = store_v1.WatchRequest(topic_pattern=pattern, protocol_version=1)
        client.read("Watch", request, 1)
    client.read("Inventory", store_v1.InventoryRequest(protocol_version=1))
    unknown = v1.SourceName(topic="unknown", session_id=1)
    fetch = v1.FetchRequest(source=unknown, first=0, last=2**62, protocol_version=1)
    for _ in range(20):
        client.read("Fetch", fetch)


def begins_with(client: Hostile, *, terms: int = 1, losses: int = 0) -> None:
    """Begin with a long lineage, or with many accepted losses."""
    source = source_to_wire(HOSTILE)
    epoch = 2 * LINEAGE_TERMS_MAX
    answer = client.calls("Promise", [promise(source, epoch)])
    request = store_v1.BeginRequest(
        source=source,
        epoch=epoch,
        lineage=[
            v1.LineageEntry(epoch=epoch - terms + 1 + at, first_sequence=at) for at in range(terms)
        ],
        membership=MEMBERSHIP,
        instance=b"a",
        incarnation=answer[0].incarnation if answer else b"",
        accepted_losses=[v1.HeldRange(first=2 * at, last=2 * at) for at in range(losses)],
        protocol_version=1,
    )
    client.call("Begin", request)


def begins_with_too_much(client: Hostile) -> None:
    """Send a lineage, losses and policies without end."""
    begins_with(client, terms=2 * LINEAGE_TERMS_MAX)
    begins_with(client, losses=2 * RANGES_MAX)
    endless = v1.Membership(stores=[v1.StoreEntry(name=f"s{at}") for at in range(20_000)])
    request = store_v1.BeginRequest(source=source_to_wire(HOSTILE), epoch=1, protocol_version=1)
    request.lineage.add(epoch=1)
    request.membership.CopyFrom(endless)
    client.call("Begin", request)
    assert [type(each) for each in client.refused] == [InvalidArgument] * 3


def begins_with_as_much_as_it_may(client: Hostile) -> None:
    """Send the longest lineage and the most losses that a store takes."""
    begins_with(client, losses=RANGES_MAX)
    begins_with(client, terms=LINEAGE_TERMS_MAX // 4)


def acknowledges_for_strangers(client: Hostile) -> None:
    """Acknowledge for very many sources in one call."""
    for count in (10 * ACKNOWLEDGEMENTS_MAX, ACKNOWLEDGEMENTS_MAX):
        request = store_v1.AcknowledgeRequest(session_id=5)
        for number in range(count):
            request.acknowledgements.add(source=named(number), epoch=1, upto=7)
        client.call("Acknowledge", request)
    assert [type(each) for each in client.refused] == [InvalidArgument]


async def held_up_by(node: StoreNode, *acts: Callable[[Hostile], None]) -> None:
    """Let a hostile client act, and check how long the store's turns were."""
    with Hostile(node.address) as client:
        # The first calls of all load modules.
        await asyncio.to_thread(client.read, "Status", store_v1.StatusRequest(protocol_version=1))
        for act in acts:
            client.refused.clear()
            with longest_turn() as longest:
                await asyncio.to_thread(act, client)
            text = f"{act.__name__}: {longest.seconds * 1000:.1f} ms in {longest.what}"
            assert longest.seconds < TURN_SECONDS_MAX, text


async def test_many_sources_hold_up_nobody(node: StoreNode) -> None:
    await held_up_by(node, registers_many, asks_for_everything, acknowledges_for_strangers)


async def test_long_requests_hold_up_nobody(node: StoreNode) -> None:
    await held_up_by(node, begins_with_too_much, begins_with_as_much_as_it_may)


@pytest.mark.expects_log("no peer could give it")
async def test_a_stream_full_of_holes_holds_up_nobody(node: StoreNode) -> None:
    async with Client(node.address) as client:
        stream = await client.stream()
        for number in range(0, 1200, 2):
            skip = v1.Skip(first=number, last=number)
            await stream.send(v1.Frame(skip=skip, stable_upto=number))
            await stream.append(number + 1, number + 1)
        await stream.close()

    def reads_the_holes(hostile: Hostile) -> None:
        source = v1.SourceName(topic="orders", session_id=0x10)
        fetch = v1.FetchRequest(source=source, first=0, last=2**62, protocol_version=1)
        hostile.read("Fetch", fetch)
        locate = store_v1.LocateRequest(source=source, time_ns=2**62, protocol_version=1)
        hostile.calls("Locate", [locate] * 20)
        hostile.calls("Promise", [promise(source, 2 + at) for at in range(5)])

    await held_up_by(node, reads_the_holes)
