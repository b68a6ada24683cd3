"""A running store, spoken to over the wire."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from math import inf, nan
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc.aio
import pytest
from tests import seams
from tests.store.support import (
    ORDERS,
    TRADES,
    Client,
    LaneCall,
    Stream,
    batch,
    information,
    payload,
    running,
)

from quorate.protocol.errors import (
    ContentConflict,
    CorruptBatch,
    Fenced,
    InLimbo,
    InvalidArgument,
    NotRegistered,
    OutOfOrder,
    RegIdInUse,
    SourceActive,
    StorageFailed,
    StoreStopping,
    TakenForHung,
    TooManyRegistrations,
    TopicRefused,
    UnknownTopic,
    VersionMismatch,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.protocol.wire import begun_epoch, source_to_wire
from quorate.store.engine import Engine
from quorate.store.node import StoreNode
from quorate.store.rules.receivers import Receivers
from quorate.store.rules.source_state import (
    Change,
    SourceState,
)
from quorate.store.storage.reader import StoredBatch
from quorate.transport.failures import error_from_call, failure_from_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.peer_pb2 import BeatRequest
from quorate.v1.peer_pb2_grpc import PeerStub


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StoreNode]:
    async with running(tmp_path / "data", topics=("orders", "trades")) as node:
        yield node


@pytest.fixture
async def client(node: StoreNode) -> AsyncIterator[Client]:
    async with Client(node.address) as client:
        yield client


def messages(first: int, last: int) -> dict[int, bytes]:
    return {sequence: payload(sequence) for sequence in range(first, last + 1)}


async def test_a_source_registers_streams_and_reads_back(client: Client) -> None:
    promised = await client.promise()
    assert (promised.reg_id, promised.store_name, begun_epoch(promised.begun)) == (1, "s1", 0)
    assert len(promised.incarnation) == 16
    assert not promised.limbo
    assert (await client.begin()).set_aside == 0
    stream = await client.open()
    assert stream.next_sequence == 0
    await stream.append(0, 9)
    await stream.batch(batch(10, 19), stable_upto=9)
    await stream.durable(19)
    fetched = await client.fetch()
    assert fetched.messages == messages(0, 19)
    assert (fetched.missing, fetched.high, fetched.stable_upto) == ([], 19, 9)

    again = await client.promise(2)
    assert [(item.first, item.last, item.epoch) for item in again.held] == [(0, 19, 1)]
    assert (begun_epoch(again.begun), again.stable_upto) == (1, 9)
    assert [(term.epoch, term.first_sequence) for term in again.begun.lineage] == [(1, 0)]


async def test_acknowledgements_are_cumulative_and_fewer_than_batches(client: Client) -> None:
    stream = await client.stream()
    for sequence in range(500):
        await stream.batch(batch(sequence, sequence))
    responses: list[int] = []
    while not responses or responses[-1] < 499:
        responses.append((await stream.read()).durable.upto)
    assert responses == sorted(set(responses))
    assert len(responses) < 500
    status = await client.status()
    assert status.syncs < 500
    assert (status.messages, status.position) == (500, 500)


async def test_half_closing_acknowledges_everything_first(client: Client) -> None:
    stream = await client.stream()
    for first in range(0, 100, 10):
        await stream.batch(batch(first, first + 9))
    await stream.close()
    assert stream.acknowledged_upto == 99


async def test_errors_come_as_they_are(client: Client) -> None:
    with pytest.raises(NotRegistered):
        await client.open()
    with pytest.raises(UnknownTopic):
        await client.fetch()
    with pytest.raises(TopicRefused):
        await client.promise(source=SourceName("secrets", 1))
    stream = await client.stream()
    with pytest.raises(Fenced) as caught:
        await client.promise(1, b"b")
    assert caught.value.promised == 1
    with pytest.raises(SourceActive):
        await client.promise(2, b"b")
    with pytest.raises(RegIdInUse):
        await client.promise(1, source=TRADES, reg_id=1)
    with pytest.raises(InvalidArgument):
        await client.promise(2, b"")
    with pytest.raises(InvalidArgument):
        await client.promise(2, source=SourceName("orders", 0))
    request = store_v1.BeginRequest(
        source=source_to_wire(ORDERS),
        begin=v1.BeginRecord(
            lineage=[
                v1.LineageEntry(epoch=1, first_sequence=5),
                v1.LineageEntry(epoch=2, first_sequence=5),
            ]
        ),
        protocol_version=PROTOCOL_VERSION,
    )
    with pytest.raises(InvalidArgument, match="cannot follow"):
        await client.call("Begin", request)
    with pytest.raises(InvalidArgument, match="range"):
        await client.fetch(5, 4)
    await stream.append(0, 0)
    assert (await client.status()).rejected >= 9


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("Promise", store_v1.PromiseRequest(source=source_to_wire(ORDERS), epoch=1)),
        ("Begin", store_v1.BeginRequest(source=source_to_wire(ORDERS))),
        ("RegisterReceiver", store_v1.RegisterReceiverRequest(source=source_to_wire(ORDERS))),
    ],
)
async def test_another_protocol_version_is_refused(
    client: Client, method: str, request_: object
) -> None:
    with pytest.raises(VersionMismatch):
        await client.call(method, request_)


async def test_the_status_for_another_protocol_version_is_refused(client: Client) -> None:
    request = store_v1.StatusRequest(protocol_version=PROTOCOL_VERSION + 1)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.stub.Status(request).read()
    assert isinstance(error_from_call("", caught.value), VersionMismatch)


async def test_who_dealt_with_another_data_directory_is_refused(client: Client) -> None:
    await client.promise()
    with pytest.raises(NotRegistered, match="another incarnation"):
        await client.begin(incarnation=b"another")
    await client.begin()
    with pytest.raises(NotRegistered, match="another incarnation"):
        await client.open(incarnation=b"another")


async def test_a_stream_begins_with_its_opening(client: Client) -> None:
    stream = await client.stream()
    await stream.close()
    call = await client.open()
    await call.send(v1.Frame(open=v1.AppendOpen()))
    assert isinstance(await call.ended(), InvalidArgument)
    first = Stream(client.address, LaneCall(client.channel))
    await first.send(v1.Frame(batch=batch(0, 0)))
    assert isinstance(await first.ended(), InvalidArgument)


@pytest.mark.expects_log("is corrupt")
@pytest.mark.parametrize("flip", [2, 30, 60])
async def test_a_corrupt_batch_ends_the_stream_and_loses_nothing(client: Client, flip: int) -> None:
    stream = await client.stream()
    await stream.batch(batch(0, 9))
    frame = bytearray(batch(10, 19))
    frame[flip] ^= 1
    await stream.batch(bytes(frame))
    assert isinstance(await stream.ended(), CorruptBatch)
    stream = await client.open()
    assert stream.next_sequence == 10
    await stream.append(10, 19)
    assert (await client.fetch()).messages == messages(0, 19)


async def test_a_frame_that_is_no_frame_harms_only_its_client(client: Client) -> None:
    stream = await client.stream()
    await stream.append(0, 9)
    await stream.call.write(b"\xff\xff\xff\xff")
    await stream.ended()
    stream = await client.open()
    assert stream.next_sequence == 10
    await stream.append(10, 10)


@pytest.mark.expects_log("holds other content")
async def test_a_gap_and_other_content_end_the_stream(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    stream = await client.stream()
    await stream.append(0, 9)
    await stream.batch(batch(11, 12))
    gap = await stream.ended()
    assert isinstance(gap, OutOfOrder)
    assert (gap.expected, gap.first) == (10, 11)
    stream = await client.open()
    await stream.batch(batch(5, 12, salt="other "))
    conflict = await stream.ended()
    assert isinstance(conflict, ContentConflict)
    assert (conflict.first, conflict.last) == (5, 9)
    # Both sides report it, also if the source hangs up.
    assert "holds other content" in caplog.text
    stream.call.cancel()
    assert (await client.fetch()).messages == messages(0, 9)


@pytest.mark.expects_log("holds other content")
async def test_a_source_that_goes_on_writing_hears_why_its_stream_ended(client: Client) -> None:
    stream = await client.stream()
    await stream.append(0, 9)
    stream = await client.open()
    ended = asyncio.create_task(stream.ended())
    await stream.batch(batch(5, 12, salt="other "))
    # The store hangs up if this takes long.
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        for first in range(13, 413):
            await stream.batch(batch(first, first))
    assert isinstance(await ended, ContentConflict)
    assert (await client.fetch()).messages == messages(0, 9)


async def test_a_duplicate_is_acknowledged_again(client: Client) -> None:
    stream = await client.stream()
    await stream.append(0, 9)
    await stream.batch(batch(0, 9))
    await stream.batch(batch(5, 14))
    await stream.durable(14)
    assert (await client.fetch()).messages == messages(0, 14)


async def test_taking_over_fences_the_live_stream_at_once(client: Client) -> None:
    stream = await client.stream()
    await stream.batch(batch(0, 9))
    await client.promise(2, b"b", take_over=True)
    fenced = await stream.ended()
    assert isinstance(fenced, Fenced)
    assert (fenced.epoch, fenced.promised) == (1, 2)
    with pytest.raises(Fenced):
        await client.open(1)
    with pytest.raises(Fenced):
        await client.begin()


@pytest.mark.parametrize("seconds", [inf, nan, -1.0])
async def test_who_asks_for_impossible_lifetimes_leaves_no_stream(
    client: Client, seconds: float
) -> None:
    stream = await client.stream()
    with pytest.raises(InvalidArgument, match="lifetimes"):
        await client.open(lifetimes=v1.Lifetimes(activity_timeout_seconds=seconds))
    await stream.append(0, 9)  # nor does it end the one that is open
    await stream.close()
    with pytest.raises(InvalidArgument, match="lifetimes"):
        await client.open(lifetimes=v1.Lifetimes(state_lifetime_seconds=seconds))
    assert not (await client.status()).sources[0].live
    await client.promise(2, b"b")


async def test_a_stream_that_could_not_be_opened_is_over(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await client.stream()).close()
    with monkeypatch.context() as failing:
        seams.IDENTITIES_CAME.replace(failing, Mock(side_effect=StorageFailed("s1", "no space")))
        with pytest.raises(StorageFailed):
            await client.open()
    assert not (await client.status()).sources[0].live
    await client.promise(2, b"b")


async def test_an_identity_is_free_once_its_source_is_gone(client: Client) -> None:
    stream = await client.stream()
    stream.call.cancel()
    await promised_when_free(client)


async def promised_when_free(client: Client) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await client.promise(2, b"b")
                return
            except SourceActive:
                await asyncio.sleep(0.01)


@pytest.mark.expects_log("messages aside")
async def test_a_new_epoch_sets_the_tail_aside(client: Client) -> None:
    stream = await client.stream()
    await stream.append(0, 9)
    await client.promise(2)
    response = await client.begin(Lineage((Term(1, 0), Term(2, 6))))
    assert response.set_aside == 4
    fetched = await client.fetch()
    assert (fetched.messages, fetched.high) == (messages(0, 5), 5)
    stream = await client.open(2)
    assert stream.next_sequence == 6
    await stream.append(6, 8, epoch=2)
    status = await client.status()
    (source,) = status.sources
    assert [(item.first, item.last, item.epoch) for item in source.held] == [(0, 5, 1), (6, 8, 2)]
    assert (source.set_aside, begun_epoch(source.begun), source.promised_epoch) == (4, 2, 2)


async def test_holes_are_absent_and_what_is_above_is_not_reported(client: Client) -> None:
    stream = await client.stream()
    await stream.append(0, 9)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=19))
    await stream.send(v1.Frame(skip=v1.Skip(first=10, last=19), stable_upto=19))
    await stream.append(20, 29)
    fetched = await client.fetch(5, 100)
    assert fetched.messages == messages(5, 9) | messages(20, 29)
    assert fetched.missing == [(10, 19, v1.LOOKUP_ABSENT)]
    assert (fetched.high, fetched.stable_upto) == (29, 19)
    (source,) = (await client.status()).sources
    assert [(hole.first, hole.last) for hole in source.holes] == [(10, 19)]


async def test_what_fills_a_hole_during_a_fetch_is_not_taken_for_unreadable(
    node: StoreNode, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await client.stream()
    await stream.append(0, 9)
    await stream.send(v1.Frame(skip=v1.Skip(first=10, last=19), stable_upto=19))
    await stream.append(20, 29)
    engine = node._engine
    assert engine is not None
    written = threading.Event()

    read = seams.READ_IN_STORE_SERVICE.real()

    def first_filled(*arguments: Any) -> Any:
        seams.READ_IN_STORE_SERVICE.replace(monkeypatch, read)
        loop.call_soon_threadsafe(fill)
        filled.result(5)
        return read(*arguments)

    def fill() -> None:
        monkeypatch.setattr(engine.writer, "_check_room", written.wait)
        change = engine.core.streams.fill(engine.core.sources[ORDERS], batch(10, 19), Range(10, 19))
        engine.submit(engine.core.sources[ORDERS], change.writes)
        filled.set_result(None)

    loop = asyncio.get_running_loop()
    filled: Future[None] = Future()
    seams.READ_IN_STORE_SERVICE.replace(monkeypatch, first_filled)
    try:
        fetched = await client.fetch(0, 29)
        assert fetched.messages == messages(0, 9) | messages(20, 29)
        assert fetched.missing == [(10, 19, v1.LOOKUP_ABSENT)]
        assert not engine.core.sources[ORDERS].unreadable
    finally:
        written.set()
    assert (await client.fetch(0, 29)).messages == messages(0, 29)


async def test_a_fetch_waits_only_for_what_was_there_when_it_came(
    node: StoreNode, client: Client
) -> None:
    stream = await client.stream()
    await stream.append(0, 9)
    engine = node._engine
    assert engine is not None

    async def never_settle() -> None:
        while True:
            engine.submit(engine.core.sources[ORDERS], (engine.core.sources[ORDERS].held_row(),))
            await asyncio.sleep(0)

    load = asyncio.create_task(never_settle())
    try:
        async with asyncio.timeout(60):
            assert (await client.fetch(0, 9)).messages == messages(0, 9)
    finally:
        load.cancel()


async def test_fetch_clips_to_what_was_asked_for(client: Client) -> None:
    stream = await client.stream()
    for first in range(0, 200, 10):
        await stream.batch(batch(first, first + 9))
    await stream.durable(199)
    assert (await client.fetch(15, 87)).messages == messages(15, 87)
    assert (await client.fetch(199, 500)).messages == messages(199, 199)
    beyond = await client.fetch(200, 500)
    assert (beyond.messages, beyond.missing, beyond.high) == ({}, [], 199)


async def test_a_position_that_is_told_in_limbo_is_told_as_that(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves limbo while that is written, with positions that are not in the answer."""
    stream = await client.stream()
    await stream.append(0, 9)
    real = seams.STORE_ENGINE_MADE_DURABLE.real()

    async def leaves_limbo(self: Engine, state: SourceState, change: Change[Any]) -> Any:
        answer = await real(self, state, change)
        state.limbo = ""
        return answer

    seams.STORE_ENGINE_MADE_DURABLE.replace(monkeypatch, leaves_limbo)
    register = seams.RECEIVERS_REGISTER.real()

    def in_limbo(self: Receivers, source: SourceName, *args: Any, **more: Any) -> Any:
        self.source(source).limbo = "it was wiped"
        return register(self, source, *args, **more)

    seams.RECEIVERS_REGISTER.replace(monkeypatch, in_limbo)
    request = store_v1.RegisterReceiverRequest(
        source=source_to_wire(ORDERS),
        session_id=1,
        instance=b"r",
        epoch=1,
        protocol_version=PROTOCOL_VERSION,
    )
    response: store_v1.RegisterReceiverResponse = await client.call("RegisterReceiver", request)
    assert response.limbo


async def test_a_receiver_registers_and_acknowledges(client: Client) -> None:
    stream = await client.stream()
    await stream.append(0, 9)

    async def register(epoch: int) -> store_v1.RegisterReceiverResponse:
        request = store_v1.RegisterReceiverRequest(
            source=source_to_wire(ORDERS),
            session_id=0x20,
            instance=b"r",
            epoch=epoch,
            protocol_version=PROTOCOL_VERSION,
        )
        response: store_v1.RegisterReceiverResponse = await client.call("RegisterReceiver", request)
        return response

    response = await register(1)
    assert (response.low, response.high, response.acknowledged_upto) == (0, 9, NOTHING)
    assert (response.reg_id, response.source_reg_id, response.known) == (2, 1, False)
    answer: store_v1.AcknowledgeResponse = await client.call(
        "Acknowledge",
        store_v1.AcknowledgeRequest(
            session_id=0x20,
            acknowledgements=[
                store_v1.Acknowledgement(
                    source=source_to_wire(ORDERS), instance=b"r", epoch=1, upto=7
                ),
                store_v1.Acknowledgement(
                    source=source_to_wire(TRADES), instance=b"r", epoch=1, upto=7
                ),
            ],
        ),
    )
    (refused,) = answer.refused
    assert refused.source.topic == "trades"
    assert isinstance(failure_from_wire(refused.failure, ""), UnknownTopic)
    assert not answer.shortened
    answer = await client.call(
        "Acknowledge",
        store_v1.AcknowledgeRequest(
            session_id=0x20,
            acknowledgements=[
                # Counted in an epoch that this store has not begun, and of which it knows nothing.
                store_v1.Acknowledgement(
                    source=source_to_wire(ORDERS), instance=b"r", epoch=1, upto=9, source_epoch=5
                ),
            ],
        ),
    )
    assert [(one.source.topic, one.upto) for one in answer.shortened] == [("orders", 7)]
    response = await register(2)
    assert (response.acknowledged_upto, response.known) == (7, True)
    with pytest.raises(Fenced):
        await register(1)
    (source,) = (await client.status()).sources
    assert [(item.session_id, item.acknowledged_upto) for item in source.receivers] == [(0x20, 7)]


async def test_receivers_are_told_which_incarnations_a_store_knows(
    node: StoreNode, client: Client
) -> None:
    await client.stream()
    assert node._engine is not None
    standing = node._engine.core.standing
    standing.heard_of(store_v1.Greeting(store_name="s2", incarnation=b"new", former=[b"old"]))
    registered: store_v1.RegisterReceiverResponse = await client.call(
        "RegisterReceiver",
        store_v1.RegisterReceiverRequest(
            source=source_to_wire(ORDERS),
            session_id=1,
            instance=b"r",
            epoch=1,
            protocol_version=PROTOCOL_VERSION,
        ),
    )
    ended: store_v1.DeregisterResponse = await client.call(
        "Deregister",
        store_v1.DeregisterRequest(
            source=source_to_wire(ORDERS),
            receiver_session_id=1,
            epoch=1,
            protocol_version=PROTOCOL_VERSION,
        ),
    )
    for answer in (registered, ended):
        assert answer.incarnation == standing.record.incarnation
        own, other = answer.known_stores
        assert (own.store_name, own.incarnation) == ("s1", b"")
        assert (other.store_name, other.incarnation, [*other.former]) == ("s2", b"new", [b"old"])


async def test_watch_says_what_there_is_and_what_changes(client: Client) -> None:
    stream = await client.stream()
    watch = client.stub.Watch(
        store_v1.WatchRequest(topic_pattern="or.*", protocol_version=PROTOCOL_VERSION)
    )
    entry = (await watch.read()).entry
    assert (entry.information, entry.live) == (information(), True)
    assert list((await watch.read()).snapshot_end.topics) == ["orders"]
    await client.stream(source=TRADES)
    await stream.send(v1.Frame(information=information(version=2), stable_upto=NOTHING))
    entry = (await watch.read()).entry
    assert (entry.information.version, entry.live) == (2, True)
    await stream.send(v1.Frame(goodbye=v1.Goodbye(last_sequence=NOTHING), stable_upto=NOTHING))
    await stream.close()
    while (await watch.read()).entry.live:
        pass
    watch.cancel()


async def test_watch_says_how_far_each_source_is_at_this_store(client: Client) -> None:
    await (await client.stream()).append(0, 9)
    await client.stream(source=TRADES)
    watch = client.stub.Watch(
        store_v1.WatchRequest(topic_pattern=".*", protocol_version=PROTOCOL_VERSION)
    )
    entries = [(await watch.read()).entry for _ in range(2)]
    far = {
        each.information.source.topic: (each.begun_epoch, each.next_sequence) for each in entries
    }
    assert far == {"orders": (1, 10), "trades": (1, 0)}
    watch.cancel()


async def test_watch_with_a_bad_pattern(client: Client) -> None:
    call = client.stub.Watch(
        store_v1.WatchRequest(topic_pattern="(", protocol_version=PROTOCOL_VERSION)
    )
    with pytest.raises(grpc.aio.AioRpcError, match="not a regular expression"):
        await call.read()


async def test_the_streams_of_a_silent_client_are_ended(client: Client) -> None:
    streams = [await client.stream(source=source) for source in (ORDERS, TRADES)]
    beat = BeatRequest(interval_seconds=0.05, timeout_seconds=0.1)
    await PeerStub(client.channel).Beat(beat)
    for source, stream in zip((ORDERS, TRADES), streams, strict=True):
        error = await stream.ended()
        assert isinstance(error, TakenForHung)
        assert (error.who, error.silence) == (str(source), "it said nothing for 0.1 s")
        assert f"no longer heard source {source}, and ended its stream: it said" in str(error)


async def test_a_source_that_never_reads_is_served_all_the_same(client: Client) -> None:
    stream = await client.stream()
    for sequence in range(3000):
        await stream.batch(batch(sequence, sequence))
    await stream.call.done_writing()
    # The stream is over when all was taken: the identity is free for another instance.
    await promised_when_free(client)
    assert (await client.fetch(2999)).high == 2999


async def test_calls_end_when_the_store_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By themselves: none is cut off at the end of the time that they have for it."""
    seams.STORE_NODE_GRACE_SECONDS.replace(monkeypatch, 100.0)
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await stream.batch(batch(0, 9))
        watch = client.stub.Watch(
            store_v1.WatchRequest(topic="orders", protocol_version=PROTOCOL_VERSION)
        )
        for _ in range(2):
            await watch.read()
        async with asyncio.timeout(30):
            await node.stop()
        assert isinstance(await stream.ended(), StoreStopping)
    async with running(tmp_path) as node, Client(node.address) as client:
        held = (await client.promise(2)).held
        # What was taken was acknowledged; what was not read may be gone.
        assert (held[-1].last if held else NOTHING) == stream.acknowledged_upto


async def test_a_client_that_never_reads_a_fetch_costs_little(
    node: StoreNode, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await client.stream()
    salt = "x" * 100_000
    for sequence in range(400):
        await stream.batch(batch(sequence, sequence, salt=salt))
    await stream.durable(399)
    read_bytes = 0

    read = seams.READ_IN_STORE_SERVICE.real()

    def counted(*arguments: Any) -> list[StoredBatch]:
        nonlocal read_bytes
        stored: list[StoredBatch] = read(*arguments)
        read_bytes += sum(len(item.frame) for item in stored)
        return stored

    seams.READ_IN_STORE_SERVICE.replace(monkeypatch, counted)
    request = v1.FetchRequest(
        source=source_to_wire(ORDERS), first=0, last=399, protocol_version=PROTOCOL_VERSION
    )
    calls = [client.stub.Fetch(request) for _ in range(2)]
    for call in calls:
        await call.read()
    before = -1
    while before != read_bytes:
        before = read_bytes
        await asyncio.sleep(0.3)
    assert read_bytes < 2 * 16_000_000, "of 2 * 40,000,000"
    # Others are served meanwhile.
    async with Client(node.address) as other:
        assert len((await other.fetch(0, 399)).messages) == 400
    for call in calls:
        call.cancel()


async def test_what_is_asked_over_and_over_does_not_flood_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(tmp_path, peers=("127.0.0.1:1",)) as node, Client(node.address) as client:
        for _ in range(3):
            with pytest.raises(InLimbo):
                await client.begin()
    async with running(tmp_path / "other") as node, Client(node.address) as client:
        await client.promise(3)
        with pytest.raises(Fenced):
            await client.promise(2, b"other")
        with pytest.raises(InvalidArgument):
            await client.promise(0)
        async with Client(node.address) as again:  # from another port
            with pytest.raises(InvalidArgument):
                await again.promise(0)
    ours = [record for record in caplog.records if record.name == "quorate.store.rpc.service"]
    refused = [record.message for record in ours if record.message.startswith("refused")]
    assert len(refused) == 1
    assert "InvalidArgument" in refused[0]


async def test_a_flood_of_new_identities_is_refused_and_known_ones_come_back(
    tmp_path: Path,
) -> None:
    async with (
        running(tmp_path, new_identities_per_second=0.01) as node,
        Client(node.address) as client,
    ):
        await client.promise(1, source=SourceName("orders", 1))
        with pytest.raises(TooManyRegistrations) as caught:
            await client.promise(1, source=SourceName("orders", 2))
        assert caught.value.client == "ipv4:127.0.0.1"
        await client.promise(2, source=SourceName("orders", 1))
        question = store_v1.RegisterReceiverRequest(
            source=source_to_wire(SourceName("orders", 1)),
            session_id=1,
            instance=b"r",
            protocol_version=PROTOCOL_VERSION,
            asks_only=True,
        )
        await client.call("RegisterReceiver", question)
