"""The bundle of one connection: the small calls of all its users, over one stream to the store.

A call of gRPC costs several times what the work behind it costs. Calls that are made in the same
moment travel in one frame here. Each is answered, fails and times out by itself. The meaning of the
calls is no matter of this module. The other end is quorate.store.rpc.bundle.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc.aio

from quorate.protocol.errors import Closed, QuorateError, Unreachable
from quorate.protocol.limits import (
    BUNDLED_CALLS_MAX,
    GIVEN_UP_MAX,
    PROTOCOL_VERSION,
    RESPONSE_BYTES_TARGET,
)
from quorate.transport.failures import errors_of, failure_from_wire
from quorate.v1 import store_pb2 as v1

_LAST_WORD_SECONDS = 1.0
"""Seconds in which the reader of a stream that broke learns why."""


class BundledCall:
    """One call of a bundle, with the answers that were not read yet."""

    def __init__(self, request: v1.BundledCall, bundle: Bundle) -> None:
        """Begin unanswered. Callers use `Bundle`."""
        self.request = request
        self._bundle = bundle
        self._answers: deque[Any] = deque()
        self._error: QuorateError | None = None
        self._news = asyncio.Event()

    async def read(self) -> Any:
        """Wait for the next answer. Raises the error with which the call has ended."""
        while not self._answers:
            if self._error is not None:
                raise self._error
            self._news.clear()
            await self._news.wait()
        return self._answers.popleft()

    def end(self, error: QuorateError) -> None:
        """Give the call up. Its reader gets this error, behind the answers that have come."""
        self._bundle.give_up(self)
        self.ended(error)

    def answered(self, answer: Any) -> None:
        """Take an answer."""
        self._answers.append(answer)
        self._news.set()

    def ended(self, error: QuorateError) -> None:
        """Note that no answer follows, and why."""
        self._error = self._error or error
        self._news.set()


class Bundle:
    """The calls to one store that share a stream. The first one opens it, and it stays open."""

    def __init__(self, address: str, stub: Callable[[], Any], heard: Callable[[], None]) -> None:
        """Begin without a stream.

        - stub: returns the stub for the next stream.
        - heard: is called when the store has said something.
        """
        self._address = address
        self._stub = stub
        self._heard = heard
        self._calls: dict[int, BundledCall] = {}
        """The calls under way, by ID."""
        self._last_id = 0
        self._waiting: dict[int, BundledCall] = {}
        """The calls that were not sent yet."""
        self._given_up: deque[int] = deque()
        self._news = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def promise(self, request: v1.PromiseRequest, timeout: float) -> v1.PromiseResponse:
        """Call Promise. Raises its error, Unreachable, TimeoutError."""
        answer: v1.PromiseResponse = await self._answer(v1.BundledCall(promise=request), timeout)
        return answer

    async def begin(self, request: v1.BeginRequest, timeout: float) -> v1.BeginResponse:
        """Call Begin. Raises its error, Unreachable, TimeoutError."""
        answer: v1.BeginResponse = await self._answer(v1.BundledCall(begin=request), timeout)
        return answer

    async def register_receiver(
        self, request: v1.RegisterReceiverRequest, timeout: float
    ) -> v1.RegisterReceiverResponse:
        """Call RegisterReceiver. Raises its error, Unreachable, TimeoutError."""
        answer: v1.RegisterReceiverResponse = await self._answer(
            v1.BundledCall(register_receiver=request), timeout
        )
        return answer

    async def acknowledge(
        self, request: v1.AcknowledgeRequest, timeout: float
    ) -> v1.AcknowledgeResponse:
        """Call Acknowledge. Raises its error, Unreachable, TimeoutError."""
        answer: v1.AcknowledgeResponse = await self._answer(
            v1.BundledCall(acknowledge=request), timeout
        )
        return answer

    def watch(self, request: v1.WatchRequest) -> BundledCall:
        """Begin a call of Watch. The caller ends it."""
        return self._begin(v1.BundledCall(watch=request))

    def give_up(self, call: BundledCall) -> None:
        """Wait no longer for the answers of a call, and let the store know."""
        number = call.request.id
        if self._calls.pop(number, None) is None:
            return
        if self._waiting.pop(number, None) is None:
            self._given_up.append(number)
            self._news.set()

    async def close(self) -> None:
        """End the stream, and the calls on it."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    # Inside.

    async def _answer(self, request: v1.BundledCall, timeout: float) -> Any:
        call = self._begin(request)
        try:
            async with asyncio.timeout(timeout):
                return await call.read()
        finally:
            self.give_up(call)

    def _begin(self, request: v1.BundledCall) -> BundledCall:
        self._last_id += 1
        request.id = self._last_id
        call = BundledCall(request, self)
        self._calls[request.id] = self._waiting[request.id] = call
        self._news.set()
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        return call

    async def _run(self) -> None:
        """Keep up the stream until it ends. Then all calls on it fail, and the next call opens one
        anew."""
        error: QuorateError = Closed(f"The connection to {self._address}")
        try:
            with errors_of(self._address):
                await self._exchange()
        except QuorateError as why:
            error = why
        finally:
            self._running = None
            calls, self._calls = self._calls, {}
            self._waiting.clear()
            self._given_up.clear()
            for call in calls.values():
                call.ended(error)

    async def _exchange(self) -> None:
        """Send calls and take answers until the stream ends. Raise why."""
        stream = self._stub().Bundle()
        reading = asyncio.ensure_future(self._read(stream))
        writing = asyncio.ensure_future(self._write(stream))
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            # The reader learns a little later why the stream ended.
            await asyncio.wait({reading}, timeout=_LAST_WORD_SECONDS)
            if reading.done():
                reading.result()
            writing.result()
        finally:
            reading.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            stream.cancel()

    async def _read(self, stream: Any) -> None:
        while (response := await stream.read()) is not grpc.aio.EOF:
            self._heard()
            for answer in response.answers:
                self._take(answer)
        raise Unreachable(self._address, "it ended the stream of calls")

    def _take(self, answer: v1.BundledAnswer) -> None:
        kind = answer.WhichOneof("answer")
        call = self._calls.get(answer.id)
        if call is None or kind is None:
            return  # the call was given up
        if kind == "failure":
            del self._calls[answer.id]
            call.ended(failure_from_wire(answer.failure, self._address))
            return
        asked = call.request.WhichOneof("request")
        if kind != asked:
            call.end(Unreachable(self._address, f"it answered {kind} to {asked}"))
            return
        if kind != "watch":
            del self._calls[answer.id]
        call.answered(getattr(answer, kind))

    async def _write(self, stream: Any) -> None:
        version = PROTOCOL_VERSION
        try:
            while True:
                while self._waiting or self._given_up:
                    await stream.write(self._next_frame(version))
                    version = 0
                self._news.clear()
                await self._news.wait()
        except asyncio.InvalidStateError:
            raise Unreachable(self._address, "the stream of calls broke") from None

    def _next_frame(self, version: int) -> v1.BundleRequest:
        frame, size = v1.BundleRequest(protocol_version=version), 0
        while (
            self._waiting and len(frame.calls) < BUNDLED_CALLS_MAX and size < RESPONSE_BYTES_TARGET
        ):
            number, call = next(iter(self._waiting.items()))
            following = call.request.ByteSize()
            if size and size + following > RESPONSE_BYTES_TARGET:
                break  # A large request travels alone.
            size += following
            frame.calls.append(call.request)
            del self._waiting[number]
        while self._given_up and len(frame.given_up) < GIVEN_UP_MAX:
            frame.given_up.append(self._given_up.popleft())
        return frame
