"""Bundles of calls at a store: each call is served by itself, whatever the client sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests import seams
from tests.store.support import ORDERS, TRADES, Client, configuration, running

from quorate.protocol.errors import (
    Closed,
    InvalidArgument,
    LimitReached,
    NotRegistered,
    QuorateError,
    StoreStopping,
    TooManyRegistrations,
    UnknownTopic,
    VersionMismatch,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import BUNDLED_CALLS_MAX, GIVEN_UP_MAX, PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.store.node import StoreNode
from quorate.store.rpc.bundle import BUNDLES_MAX, Bundle
from quorate.transport.failures import errors_of, failure_from_wire
from quorate.v1 import store_pb2 as store_v1


class Stream:
    """A bundle as a client has it, without the client's own care."""

    def __init__(self, client: Client) -> None:
        self._address = client.address
        self._call = client.stub.Bundle()

    async def send(self, *calls: store_v1.BundledCall, given_up: Sequence[int] = ()) -> None:
        await self._call.write(
            store_v1.BundleRequest(
                calls=calls, given_up=given_up, protocol_version=PROTOCOL_VERSION
            )
        )

    async def send_as_it_is(self, request: store_v1.BundleRequest) -> None:
        await self._call.write(request)

    async def answers(self, count: int) -> dict[int, store_v1.BundledAnswer]:
        """Return so many answers, by the ID of their call. Raises the error of the stream."""
        found: dict[int, store_v1.BundledAnswer] = {}
        with errors_of(self._address):
            async with asyncio.timeout(10):
                while len(found) < count:
                    response = await self._call.read()
                    assert response is not grpc.aio.EOF
                    found |= {answer.id: answer for answer in response.answers}
        return found


def registers(
    number: int, source: SourceName = ORDERS, session: int = 1, **fields: Any
) -> store_v1.BundledCall:
    request = store_v1.RegisterReceiverRequest(
        source=source_to_wire(source),
        session_id=session,
        epoch=1,
        instance=b"i",
        protocol_version=PROTOCOL_VERSION,
        **fields,
    )
    return store_v1.BundledCall(id=number, register_receiver=request)


def acknowledges(number: int, source: SourceName = ORDERS) -> store_v1.BundledCall:
    position = store_v1.Acknowledgement(
        source=source_to_wire(source), epoch=1, upto=-1, source_epoch=1, instance=b"i"
    )
    request = store_v1.AcknowledgeRequest(session_id=1, acknowledgements=[position])
    return store_v1.BundledCall(id=number, acknowledge=request)


def watches(number: int, topic: str = ORDERS.topic) -> store_v1.BundledCall:
    request = store_v1.WatchRequest(topic=topic, protocol_version=PROTOCOL_VERSION)
    return store_v1.BundledCall(id=number, watch=request)


def error_in(answer: store_v1.BundledAnswer) -> QuorateError:
    assert answer.WhichOneof("answer") == "failure"
    return failure_from_wire(answer.failure, "the store")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StoreNode]:
    async with running(tmp_path) as node:
        yield node


@pytest.fixture
async def client(node: StoreNode) -> AsyncIterator[Client]:
    """A client of a store that has one source."""
    async with Client(node.address) as client:
        await client.promise()
        await client.begin()
        yield client


async def test_each_call_is_answered_by_itself(client: Client) -> None:
    stream = Stream(client)
    await stream.send(registers(1), registers(2, TRADES), watches(3))
    answers = await stream.answers(3)
    assert answers[1].register_receiver.reg_id
    assert isinstance(error_in(answers[2]), UnknownTopic)
    assert answers[3].WhichOneof("answer") == "watch"
    await stream.send(acknowledges(4), acknowledges(5, TRADES))
    answers = await stream.answers(2)
    assert not answers[4].acknowledge.refused
    (refused,) = answers[5].acknowledge.refused
    assert isinstance(failure_from_wire(refused.failure, ""), UnknownTopic | NotRegistered)


async def test_a_call_of_a_kind_that_the_store_does_not_know_fails_alone(client: Client) -> None:
    stream = Stream(client)
    await stream.send(store_v1.BundledCall(id=1), registers(2))
    answers = await stream.answers(2)
    assert isinstance(error_in(answers[1]), InvalidArgument)
    assert answers[2].register_receiver.reg_id


@pytest.mark.parametrize("first", [1, 3])
async def test_two_calls_of_one_id_end_the_stream(client: Client, first: int) -> None:
    stream = Stream(client)
    await stream.send(watches(1), watches(2))
    await stream.answers(2)
    await stream.send(watches(first), watches(first))
    with pytest.raises(InvalidArgument, match="under way"):
        await stream.answers(9)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (
            store_v1.BundleRequest(
                calls=[registers(number) for number in range(1, BUNDLED_CALLS_MAX + 2)]
            ),
            "calls: has 257",
        ),
        (store_v1.BundleRequest(given_up=range(GIVEN_UP_MAX + 1)), "given_up: has 1,025"),
    ],
)
async def test_a_request_that_is_too_long_ends_the_stream(
    client: Client, request_: store_v1.BundleRequest, says: str
) -> None:
    stream = Stream(client)
    request_.protocol_version = PROTOCOL_VERSION
    await stream.send_as_it_is(request_)
    with pytest.raises(InvalidArgument, match=says):
        await stream.answers(1)


async def test_a_stream_of_another_version_is_refused(client: Client) -> None:
    stream = Stream(client)
    await stream.send_as_it_is(store_v1.BundleRequest(protocol_version=99))
    with pytest.raises(VersionMismatch):
        await stream.answers(1)


async def test_a_stream_that_says_nothing_is_ended(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.BUNDLE_FIRST_REQUEST_SECONDS.replace(monkeypatch, 0.05)
    with pytest.raises(Closed, match="said nothing"):
        await Stream(client).answers(1)


async def test_the_bundles_of_a_connection_are_bounded(client: Client) -> None:
    streams = [Stream(client) for _ in range(BUNDLES_MAX)]
    for stream in streams:
        await stream.send(registers(1))
        await stream.answers(1)
    one_more = Stream(client)
    with pytest.raises(LimitReached, match="bundles"):
        await one_more.answers(1)
    async with Client(client.address) as other:
        stream = Stream(other)
        await stream.send(registers(1))
        await stream.answers(1)


async def test_the_watches_of_a_bundle_are_bounded(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.BUNDLE_WATCHES_MAX.replace(monkeypatch, 2)
    stream = Stream(client)
    await stream.send(watches(1), watches(2), watches(3), registers(4))
    answers = await stream.answers(4)
    assert isinstance(error_in(answers[3]), LimitReached)
    assert answers[4].register_receiver.reg_id
    await stream.send(given_up=[1])
    await stream.send(watches(5))
    assert (await stream.answers(1))[5].WhichOneof("answer") == "watch"


async def test_a_call_that_is_given_up_leaves_nothing_behind(
    node: StoreNode, client: Client
) -> None:
    engine = node._engine
    assert engine is not None
    stream = Stream(client)
    await stream.send(watches(1), watches(2))
    await stream.answers(2)
    await stream.send(given_up=[1, 2, 3])
    await stream.send(registers(4))
    await stream.answers(1)
    assert not engine.directory._of_topics, "no watcher is left"


async def test_new_identities_in_a_bundle_count_for_floods(tmp_path: Path) -> None:
    async with (
        running(tmp_path, new_identities_per_second=0.2) as node,
        Client(node.address) as client,
    ):
        await client.promise()
        await client.begin()
        stream = Stream(client)
        await stream.send(*(registers(number, session=number) for number in range(1, 4)))
        answers = await stream.answers(3)
        refused = [each for each in answers.values() if each.WhichOneof("answer") == "failure"]
        # The source was the first of two that may come at once.
        assert [type(error_in(each)) for each in refused] == [TooManyRegistrations] * 2


async def test_a_store_that_stops_answers_what_it_has_taken_and_says_why(tmp_path: Path) -> None:
    node = StoreNode(configuration(tmp_path))
    await node.start()
    async with Client(node.address) as client:
        await client.promise()
        await client.begin()
        stream = Stream(client)
        await stream.send(watches(1), registers(2))
        await stream.answers(2)
        stopping = asyncio.create_task(node.stop())
        assert isinstance(error_in((await stream.answers(1))[1]), StoreStopping)
        with pytest.raises(StoreStopping):
            await stream.answers(1)
        async with asyncio.timeout(10):
            await stopping


# With doubles of the service and of gRPC.


class Hanging:
    """A service whose registrations hang, but for those of session 1."""

    def __init__(self) -> None:
        self.under_way = 0
        self.begun = asyncio.Event()

    async def RegisterReceiver(self, request: Any, _: Any) -> store_v1.RegisterReceiverResponse:
        if request.session_id != 1:
            self.under_way += 1
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.under_way -= 1
        return store_v1.RegisterReceiverResponse(reg_id=1, incarnation=bytes(100_000))

    async def Watch(self, request: Any, _: Any) -> AsyncIterator[store_v1.WatchResponse]:  # noqa: ARG002
        yield store_v1.WatchResponse(snapshot_end=store_v1.SnapshotEnd())
        raise ZeroDivisionError


class Wire:
    """The context of a stream whose client sends these requests, and reads only if it may."""

    def __init__(self, *requests: store_v1.BundleRequest) -> None:
        self._requests = list(requests)
        self.may_read = asyncio.Event()
        self.responses: list[store_v1.BundleResponse] = []
        self.all_read = asyncio.Event()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def read(self) -> Any:
        if not self._requests:
            self.all_read.set()
            await asyncio.Event().wait()
        return self._requests.pop(0)

    async def write(self, response: store_v1.BundleResponse) -> None:
        await self.may_read.wait()
        self.responses.append(response)

    @property
    def answers(self) -> dict[int, str | None]:
        return {
            answer.id: answer.WhichOneof("answer")
            for response in self.responses
            for answer in response.answers
        }


def request_of(*calls: store_v1.BundledCall) -> store_v1.BundleRequest:
    return store_v1.BundleRequest(protocol_version=PROTOCOL_VERSION, calls=calls)


async def settled(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_calls_that_hang_hold_up_no_other() -> None:
    service = Hanging()
    wire: Any = Wire(request_of(registers(1, session=2), registers(2)), request_of(registers(3)))
    wire.may_read.set()
    serving = asyncio.create_task(Bundle(service, wire, "here:1").run())
    await settled(lambda: wire.answers.keys() == {2, 3})
    assert service.under_way == 1
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert service.under_way == 0, "the calls end with the stream"


@pytest.mark.expects_log("a call failed unexpectedly")
async def test_a_call_that_breaks_unexpectedly_fails_alone() -> None:
    wire: Any = Wire(request_of(watches(1), registers(2)))
    wire.may_read.set()
    serving = asyncio.create_task(Bundle(Hanging(), wire, "here:1").run())
    await settled(lambda: wire.answers == {1: "failure", 2: "register_receiver"})
    serving.cancel()


async def test_calls_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.BUNDLE_ANSWERED_ONCE_MAX.replace(monkeypatch, 3)
    service = Hanging()
    wire: Any = Wire(request_of(*(registers(number, session=2) for number in range(1, 6))))
    bundle = Bundle(service, wire, "here:1")
    serving = asyncio.create_task(bundle.run())
    await settled(lambda: service.under_way == 3)
    for _ in range(20):
        await asyncio.sleep(0)
    assert service.under_way == 3
    assert not wire.all_read.is_set()
    serving.cancel()


async def test_a_client_that_does_not_read_costs_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seams.BUNDLE_ANSWERED_ONCE_MAX.replace(monkeypatch, 8)
    frames = [
        request_of(*(registers(100 * frame + number) for number in range(1, 21)))
        for frame in range(10)
    ]
    wire: Any = Wire(*frames)
    bundle = Bundle(Hanging(), wire, "here:1")
    serving = asyncio.create_task(bundle.run())
    for _ in range(500):
        await asyncio.sleep(0)
    assert bundle._bytes < (8 + 4) * 100_200, "those under way, and a frame"
    assert not wire.all_read.is_set()
    wire.may_read.set()
    await wire.all_read.wait()
    await settled(lambda: len(wire.answers) == 200)
    serving.cancel()


async def test_a_frame_of_answers_is_bounded() -> None:
    wire: Any = Wire(request_of(*(registers(number) for number in range(1, 21))))
    serving = asyncio.create_task(Bundle(Hanging(), wire, "here:1").run())
    wire.may_read.set()
    await settled(lambda: len(wire.answers) == 20)
    assert max(response.ByteSize() for response in wire.responses) < 400_000
    serving.cancel()
