"""A source serves its receivers the live stream, and the messages that it retains."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import grpc.aio
import pytest
from tests import seams
from tests.source.fake_store import FakeStore
from tests.source.io.live_receiver import SILENCE, Client, batches
from tests.source.support import event_of, open_source

from quorate.protocol.errors import Closed, InvalidArgument, UnknownTopic, VersionMismatch
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.source import (
    ReceiverAttached,
    ReceiverDetached,
    ReceiverOverrun,
    SourceOptions,
)
from quorate.transport.failures import error_from_call
from quorate.v1 import messages_pb2 as m
from quorate.v1 import source_pb2 as v1

Stores = list[FakeStore]


async def test_a_receiver_gets_what_is_sent_from_then_on(stores: Stores) -> None:
    async with await open_source(stores) as source, Client(source) as client:
        await source.publish(b"0")
        call = client.attach()
        attached = (await call.read()).attached
        assert attached.next_sequence == 1
        assert attached.information == source._core.information()
        await source.send(b"1")
        assert await anext(batches(call)) == (1, 1, [b"1"])
        came = await event_of(source, ReceiverAttached)
        assert came == ReceiverAttached(0x20, came.address)
        assert re.fullmatch(r"ipv4:127\.0\.0\.1:\d+", came.address)
        call.cancel()
        left = await event_of(source, ReceiverDetached)
        assert left == ReceiverDetached(0x20, came.address, "it left, or its connection broke")


async def test_a_receiver_that_hangs_is_reported_and_its_stream_ends(stores: Stores) -> None:
    async with await open_source(stores) as source, Client(source) as client:
        call = client.attach()
        await call.read()
        await client.beat_once()
        detached = await event_of(source, ReceiverDetached)
        assert (detached.session_id, detached.reason) == (0x20, SILENCE)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()
        error = error_from_call("source", raised.value)
        assert isinstance(error, Closed)
        assert SILENCE in str(error)


async def test_a_receiver_that_hangs_is_reported_while_a_frame_waits_for_it(
    stores: Stores,
) -> None:
    async with await open_source(stores) as source, Client(source) as client:
        call = client.attach()
        await call.read()
        await client.may_stay_silent()
        # More than the windows of the connection hold: the receiver does not read.
        for _ in range(40):
            await source.send_many([b"x" * 10_000] * 100)
        await source.flush(60)
        await client.beat_once()
        assert (await event_of(source, ReceiverDetached)).reason == SILENCE
        async with Client(source) as other:
            assert (await other.attach().read()).WhichOneof("kind") == "attached"
        call.cancel()


async def test_a_receiver_of_a_source_that_is_closed_is_told_of_as_such(stores: Stores) -> None:
    source = await open_source(stores)
    async with Client(source) as client:
        await client.attach().read()
        await source.close()
    assert (await event_of(source, ReceiverDetached)).reason == "the source was closed"


async def test_live_does_not_wait_for_stable_and_stable_is_told_at_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SOURCE_ENGINE_STABLE_NEWS_SECONDS.replace(monkeypatch, 1e6)
    for store in stores:
        store.acknowledging.clear()
    async with await open_source(stores) as source, Client(source) as client:
        call = client.attach(v1.DELIVERY_LEVEL_STABLE)
        await call.read()
        await source.send(b"0")
        frames = [await call.read()]
        while frames[-1].WhichOneof("kind") != "batch":
            frames.append(await call.read())
        assert frames[-1].stable_upto == -1
        for store in stores:
            await store.until_held(0)
            store.acknowledge_again()
        async with asyncio.timeout(60):
            while (await call.read()).stable_upto < 0:
                pass


async def test_what_a_batch_says_to_be_stable_is_not_said_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SOURCE_ENGINE_STABLE_NEWS_SECONDS.replace(monkeypatch, 1e6)
    seams.SOURCE_BATCHER_PATIENCE_SECONDS.replace(monkeypatch, 1e6)
    for store in stores:
        store.acknowledges_upto = -1
    async with await open_source(stores) as source, Client(source) as client:
        call = client.attach(v1.DELIVERY_LEVEL_STABLE)
        await call.read()
        await source.send(b"0")
        assert await anext(batches(call)) == (0, 0, [b"0"])
        await source.send(b"1")
        for upto in range(2):
            for store in stores:
                await store.until_held(upto)
                store.acknowledge_upto(upto)
            async with asyncio.timeout(60):
                frame = await call.read()
            kind = "keepalive" if upto else "batch"
            assert (frame.WhichOneof("kind"), frame.stable_upto) == (kind, upto)


async def test_what_is_stable_is_told_while_more_gathers(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait until the stores that are busy with the next batch have it."""
    seams.SOURCE_ENGINE_STABLE_NEWS_SECONDS.replace(monkeypatch, 1e6)
    for store in stores:
        store.acknowledges_upto = -1
    async with await open_source(stores) as source, Client(source) as client:
        call = client.attach(v1.DELIVERY_LEVEL_STABLE)
        await call.read()
        for number in range(2):
            await source.send(b"%d" % number)
            assert (await anext(batches(call)))[:2] == (number, number)
        seams.SOURCE_BATCHER_PATIENCE_SECONDS.replace(monkeypatch, 1e6)
        seams.LIVE_STREAM_KEEPALIVES_DUE.replace(monkeypatch, lambda _: None)
        await source.send(b"2")
        for store in stores:
            await store.until_held(1)
            store.acknowledge_upto(0)
        async with asyncio.timeout(60):
            frame = await call.read()
        assert (frame.WhichOneof("kind"), frame.stable_upto) == ("keepalive", 0)
        for store in stores:
            store.acknowledge_upto(10)


async def test_a_quiet_stream_says_how_far_it_is_stable(stores: Stores) -> None:
    async with await open_source(stores) as source, Client(source) as client:
        call = client.attach()
        await call.read()
        await source.publish(b"0")
        assert (await call.read()).WhichOneof("kind") == "batch"
        keepalive = await call.read()
        assert (keepalive.WhichOneof("kind"), keepalive.stable_upto) == ("keepalive", 0)


async def test_a_receiver_that_is_too_slow_sees_a_jump_and_slows_nobody(stores: Stores) -> None:
    options = SourceOptions(receiver_queue_bytes=2_000_000)
    async with await open_source(stores, options=options) as source, Client(source) as client:
        slow = client.attach()
        await slow.read()
        await client.may_stay_silent()
        async with Client(source) as other:
            quick = other.attach(session_id=0x21)
            await quick.read()
            await other.may_stay_silent()
            collected = asyncio.create_task(numbers_upto(quick, 20 * 100 - 1))
            for _ in range(20):
                await source.send_many([b"x" * 1000] * 100)
                await source.flush(60)
            assert await collected == list(range(2000))
            # Far more than the receiver's queue and the connection's windows can hold.
            for _ in range(40):
                await source.send_many([b"y" * 10_000] * 100)
            await source.flush(60)
        overruns = [
            event.session_id
            for event in source._engine.log.kept()
            if isinstance(event, ReceiverOverrun)
        ]
        assert 0x20 in overruns
        expected = 0
        jumps = 0
        async for first, last, _ in batches(slow):
            assert first >= expected
            jumps += first > expected
            expected = last + 1
            if last == source.next_sequence - 1:
                break
        assert jumps > 0


async def test_what_is_dropped_for_a_receiver_that_is_too_slow_is_counted(stores: Stores) -> None:
    options = SourceOptions(receiver_queue_bytes=2_000_000)
    async with await open_source(stores, options=options) as source, Client(source) as client:
        call = client.attach()
        await call.read()
        frame = m.Frame(batch=b"x" * 900_000).SerializeToString()
        # At once: nothing is sent between them.
        for _ in range(6):
            source._engine.live.publish(frame)
        for nth in (1, 2):
            assert await event_of(source, ReceiverOverrun, nth) == ReceiverOverrun(0x20, 2)
        call.cancel()


async def numbers_upto(call: Any, upto: int) -> list[int]:
    """All numbers that come over the call, up to this one."""
    seen: list[int] = []
    async for first, last, _ in batches(call):
        seen += range(first, last + 1)
        if last >= upto:
            return seen
    return seen


async def test_a_clean_end_says_goodbye(stores: Stores) -> None:
    source = await open_source(stores)
    async with Client(source) as client:
        call = client.attach()
        await call.read()
        await source.send(b"0")
        closing = asyncio.create_task(source.close())
        kinds = []
        while isinstance(frame := await call.read(), m.Frame):
            kinds.append(frame.WhichOneof("kind"))
        await closing
        assert kinds[-1] == "goodbye"
        assert "batch" in kinds


async def test_nothing_follows_a_goodbye(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    seams.SOURCE_ENGINE_STABLE_NEWS_SECONDS.replace(monkeypatch, 0.0)
    source = await open_source(stores)
    async with Client(source) as client:
        call = client.attach()
        await call.read()
        await source.publish(b"0")
        # It holds up the end, so that keepalives become due on the way.
        stores[2].reading.clear()
        closing = asyncio.create_task(source.close())
        kinds = []
        while isinstance(frame := await call.read(), m.Frame):
            kinds.append(frame.WhichOneof("kind"))
        await closing
        assert set(kinds[:-1]) == {"batch", "keepalive"}
        assert kinds[-1] == "goodbye"


async def test_many_small_batches_that_are_retained_come_in_few_responses(stores: Stores) -> None:
    stores[2].acknowledging.clear()
    async with await open_source(stores) as source, Client(source) as client:
        for number in range(200):
            await source.publish(b"%d" % number)
        responses = await client.fetch_responses(0, 199)
        *fetched, end = (answer for response in responses for answer in response.answers)
        assert [answer.fetched.first for answer in fetched] == [*range(200)]
        assert end.end.high == 199
        assert len(responses) <= 5, "of 201 answers"
        stores[2].acknowledge_again()


async def test_a_range_that_is_none_is_refused(stores: Stores) -> None:
    async with await open_source(stores) as source, Client(source) as client:
        for first, last in ((-1, 5), (5, 4)):
            with pytest.raises(grpc.aio.AioRpcError, match="range"):
                await client.fetch(first, last)


async def test_what_is_retained_can_be_fetched(stores: Stores) -> None:
    stores[2].acknowledging.clear()
    options = SourceOptions(retention_bytes_max=1000)
    async with await open_source(stores, options=options) as source, Client(source) as client:
        for number in range(10):
            await source.publish(b"%d" % number)
        kept = source._core.retention.first
        assert 0 < kept < 9
        missing, *fetched, end = await client.fetch(0, 100)
        assert (missing.missing.first, missing.missing.last) == (0, kept - 1)
        assert missing.missing.why == m.LOOKUP_ABSENT
        numbers = [(item.fetched.first, item.fetched.last) for item in fetched]
        assert numbers == [(number, number) for number in range(kept, 10)]
        assert (end.end.high, end.end.stable_upto) == (9, 9)
        assert [term.epoch for term in end.end.lineage] == [1]
        (only,) = await client.fetch(50, 60)
        assert only.HasField("end")
        stores[2].acknowledge_again()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"source": m.SourceName(topic="other", session_id=0x10)}, UnknownTopic),
        ({"source": m.SourceName(topic="", session_id=0x10)}, InvalidArgument),
        ({"protocol_version": PROTOCOL_VERSION + 1}, VersionMismatch),
    ],
)
async def test_wrong_callers_are_told_why(
    stores: Stores, changes: dict[str, Any], error: type[Exception]
) -> None:
    async with await open_source(stores) as source, Client(source) as client:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await client.fetch(0, 1, **changes)
        assert isinstance(error_from_call("source", raised.value), error)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            async for _ in client.attach(**changes):
                pass
        assert isinstance(error_from_call("source", raised.value), error)


async def test_the_address_that_is_told_may_be_another(stores: Stores) -> None:
    options = SourceOptions(listen="0.0.0.0:0", advertise="127.0.0.1")
    async with await open_source(stores, options=options) as source:
        host, _, port = source._core.information().address.rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
    options = SourceOptions(advertise="proxy.example:9000")
    async with await open_source(stores, options=options) as source:
        assert source._core.information().address == "proxy.example:9000"
