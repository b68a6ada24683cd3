"""Bundles at a client: calls share frames, and each is answered, fails and times out by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

from quorate.protocol.errors import (
    Closed,
    NotAStore,
    QuorateError,
    StoreStopping,
    UnknownTopic,
    Unreachable,
)
from quorate.protocol.limits import BUNDLED_CALLS_MAX
from quorate.transport.bundle import Bundle
from quorate.transport.channels import new_server, open_channel
from quorate.transport.failures import abort, errors_of, failure_to_wire
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreServicer, StoreStub, add_StoreServicer_to_server

HANGS = 666
"""The session ID whose registration gets no answer."""
UNKNOWN = 404
"""The session ID whose registration fails."""


class Store(StoreServicer):  # type: ignore[misc]
    """A store that keeps the frames it gets, and answers each frame with one."""

    def __init__(self) -> None:
        self.frames: list[store_v1.BundleRequest] = []
        self.streams: list[Any] = []
        self.ends_with: QuorateError | None = None
        self.heard = asyncio.Event()
        self.writing = asyncio.Lock()

    async def say(self, *answers: store_v1.BundledAnswer) -> None:
        """Write these answers on the first stream. gRPC takes one write at a time."""
        async with self.writing:
            await self.streams[0].write(store_v1.BundleResponse(answers=answers))

    async def Bundle(self, _: Any, context: Any) -> None:
        self.streams.append(context)
        while (frame := await context.read()) is not grpc.aio.EOF:
            self.frames.append(frame)
            self.heard.set()
            if self.ends_with is not None:
                await abort(context, self.ends_with)
            answers = [*filter(None, map(self.answer, frame.calls))]
            async with self.writing:
                await context.write(store_v1.BundleResponse(answers=answers))

    def answer(self, call: store_v1.BundledCall) -> store_v1.BundledAnswer | None:
        match call.WhichOneof("request"):
            case "register_receiver":
                session = call.register_receiver.session_id
                if session == HANGS:
                    return None
                if session == UNKNOWN:
                    failure = failure_to_wire(UnknownTopic("orders", ""))
                    return store_v1.BundledAnswer(id=call.id, failure=failure)
                registered = store_v1.RegisterReceiverResponse(reg_id=session)
                return store_v1.BundledAnswer(id=call.id, register_receiver=registered)
            case "acknowledge":
                return store_v1.BundledAnswer(
                    id=call.id, acknowledge=store_v1.AcknowledgeResponse()
                )
        end = store_v1.SnapshotEnd(topics=[call.watch.topic])
        watched = store_v1.WatchResponse(snapshot_end=end)
        return store_v1.BundledAnswer(id=call.id, watch=watched)

    async def given_up(self) -> list[int]:
        """Wait for the next frame that gives calls up."""
        async with asyncio.timeout(10):
            while not self.frames or not self.frames[-1].given_up:
                self.heard.clear()
                await self.heard.wait()
        return list(self.frames[-1].given_up)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def server(store: Store) -> AsyncIterator[str]:
    server = new_server()
    add_StoreServicer_to_server(store, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def bundle(server: str) -> AsyncIterator[Bundle]:
    async with open_channel(server) as channel:
        bundle = Bundle(server, lambda: StoreStub(channel), lambda: None)
        yield bundle
        await bundle.close()


async def register(bundle: Bundle, session: int, timeout: float = 10.0) -> int:
    request = store_v1.RegisterReceiverRequest(session_id=session)
    with errors_of("the store"):
        answer = await bundle.register_receiver(request, timeout)
    return answer.reg_id


async def test_calls_of_one_moment_share_a_frame(bundle: Bundle, store: Store) -> None:
    acknowledged = bundle.acknowledge(store_v1.AcknowledgeRequest(session_id=1), 10.0)
    watch = bundle.watch(store_v1.WatchRequest(topic="orders"))
    sessions, _, watched = await asyncio.gather(
        asyncio.gather(*(register(bundle, session) for session in range(1, 101))),
        acknowledged,
        watch.read(),
    )
    assert sessions == [*range(1, 101)]
    assert list(watched.snapshot_end.topics) == ["orders"]
    assert [len(frame.calls) for frame in store.frames] == [102]
    assert await register(bundle, 7) == 7
    assert len(store.streams) == 1
    watch.end(Closed("The watch"))


async def test_many_calls_go_in_frames_that_are_bounded(bundle: Bundle, store: Store) -> None:
    count = 2 * BUNDLED_CALLS_MAX + 1
    sessions = [1000 + number for number in range(count)]
    assert await asyncio.gather(*(register(bundle, each) for each in sessions)) == sessions
    assert [len(frame.calls) for frame in store.frames] == [BUNDLED_CALLS_MAX] * 2 + [1]


async def test_calls_that_are_large_go_in_frames_that_are_bounded(
    bundle: Bundle, store: Store
) -> None:
    large = store_v1.AcknowledgeRequest(
        acknowledgements=[store_v1.Acknowledgement(instance=bytes(100_000))]
    )
    await asyncio.gather(*(bundle.acknowledge(large, 10.0) for _ in range(9)))
    assert [len(frame.calls) for frame in store.frames] == [2, 2, 2, 2, 1]


async def test_a_call_that_fails_or_hangs_is_alone_with_that(bundle: Bundle, store: Store) -> None:
    lived, failed, hung = await asyncio.gather(
        register(bundle, 1),
        register(bundle, UNKNOWN),
        register(bundle, HANGS, timeout=0.05),
        return_exceptions=True,
    )
    assert lived == 1
    assert isinstance(failed, UnknownTopic)
    assert isinstance(hung, Unreachable)
    assert len(store.frames[0].calls) == 3
    assert await store.given_up() == [3], "the store need not go on with it"
    assert await register(bundle, 2) == 2


async def test_a_call_that_is_cancelled_before_it_is_sent_is_not_sent(
    bundle: Bundle, store: Store
) -> None:
    calls = [asyncio.create_task(register(bundle, session)) for session in (HANGS, 2)]
    await asyncio.sleep(0)
    calls[0].cancel()
    assert await calls[1] == 2
    assert [call.register_receiver.session_id for call in store.frames[0].calls] == [2]
    assert not store.frames[0].given_up


async def test_a_late_answer_to_a_call_that_was_given_up_is_dropped(
    bundle: Bundle, store: Store
) -> None:
    watch = bundle.watch(store_v1.WatchRequest(topic="orders"))
    await watch.read()
    watch.end(Unreachable("the store", "it is silent"))
    with pytest.raises(Unreachable, match="silent"):
        await watch.read()
    assert await store.given_up() == [1]
    late = store_v1.BundledAnswer(id=1, watch=store_v1.WatchResponse())
    await store.say(late)
    assert await register(bundle, 1) == 1
    with pytest.raises(Unreachable, match="silent"):
        await watch.read()


async def test_all_calls_hear_why_the_stream_ended_and_the_next_one_opens_another(
    bundle: Bundle, store: Store
) -> None:
    watch = bundle.watch(store_v1.WatchRequest(topic="orders"))
    await watch.read()
    store.ends_with = StoreStopping("a")
    failed = await asyncio.gather(
        *(register(bundle, session) for session in (1, HANGS)), return_exceptions=True
    )
    assert [type(each) for each in failed] == [StoreStopping, StoreStopping]
    with pytest.raises(StoreStopping):
        await watch.read()
    store.ends_with = None
    assert await register(bundle, 3) == 3
    assert len(store.streams) == 2


async def test_an_answer_without_an_id_or_a_content_does_no_harm(
    bundle: Bundle, store: Store
) -> None:
    assert await register(bundle, 1) == 1
    nothing = [store_v1.BundledAnswer(), store_v1.BundledAnswer(id=2), store_v1.BundledAnswer(id=9)]
    await store.say(*nothing)
    assert await register(bundle, 2) == 2


async def test_an_answer_to_another_request_ends_only_its_call(
    bundle: Bundle, store: Store
) -> None:
    call = asyncio.create_task(register(bundle, HANGS))
    assert await register(bundle, 1) == 1
    await store.say(store_v1.BundledAnswer(id=2, watch=store_v1.WatchResponse()))
    with pytest.raises(Unreachable, match="it answered watch to register_receiver"):
        await call
    assert await register(bundle, 2) == 2


async def test_a_closed_bundle_ends_its_calls(bundle: Bundle) -> None:
    call = asyncio.create_task(register(bundle, HANGS))
    assert await register(bundle, 1) == 1
    await bundle.close()
    with pytest.raises(Closed):
        await call


async def until_answered(bundle: Bundle) -> None:
    while True:
        with contextlib.suppress(Unreachable):
            await register(bundle, 1)
            return


async def test_a_peer_that_has_no_bundles_is_named() -> None:
    """If the refusal comes while gRPC writes, it says only that the call broke off."""
    server = new_server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with asyncio.timeout(60), open_channel(f"127.0.0.1:{port}") as channel:
            bundle = Bundle("the peer", lambda: StoreStub(channel), lambda: None)
            with pytest.raises(NotAStore):
                await until_answered(bundle)
    finally:
        await server.stop(None)


async def test_a_store_that_is_away_is_unreachable() -> None:
    async with open_channel("127.0.0.1:1") as channel:
        bundle = Bundle("127.0.0.1:1", lambda: StoreStub(channel), lambda: None)
        failed = await asyncio.gather(
            *(register(bundle, each) for each in (1, 2)), return_exceptions=True
        )
    assert [type(each) for each in failed] == [Unreachable, Unreachable]
