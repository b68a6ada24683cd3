"""The call Bundle: many calls of one client over one stream.

Each call in it is admitted, served and answered as if it were made by itself. The method of the
service that serves it alone does so here, too. No call waits for another one, except for its turn
to begin. The other end is quorate.transport.bundle.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any

import grpc.aio

from quorate.protocol.errors import InvalidArgument, LimitReached, QuorateError
from quorate.protocol.limits import BUNDLED_CALLS_MAX, GIVEN_UP_MAX, RESPONSE_BYTES_TARGET
from quorate.store.rpc.long_requests import in_time
from quorate.transport.failures import check_version, failure_of_abort, failure_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.rpc.bundle")

Context = grpc.aio.ServicerContext[Any, Any]

FIRST_REQUEST_SECONDS = 10.0
"""Seconds within which a stream must have its first request."""
BUNDLES_MAX = 4
"""The bundles of one connection. A client has one. An earlier one of it may still be ending."""
WATCHES_MAX = 8192
"""The watches of one bundle. With BUNDLES_MAX they bound those of a connection, as gRPC does for
calls of their own."""
ANSWERED_ONCE_MAX = 512
"""The other calls of one bundle that may be under way. The stream is not read while there are more.
"""
_BEGIN_AT_ONCE = 16
"""The calls that begin in one turn of the event loop."""
_LAST_WORD_SECONDS = 1.0
"""Seconds in which the calls under way may be answered when the store stops."""


class Bundles:
    """The bundles of all connections to a store."""

    def __init__(self) -> None:
        """Begin with none."""
        self._counts: Counter[str] = Counter()
        self._open: dict[Bundle, None] = {}

    async def serve(self, service: Any, context: Context, address: str) -> None:
        """Serve a bundle until it ends. Raises the error with which it must fail.

        - service: has the methods that serve its calls.
        - address: that of the store.
        """
        with self._counted(context.peer()):
            bundle = Bundle(service, context, address)
            self._open[bundle] = None
            try:
                await bundle.run()
            finally:
                self._open.pop(bundle, None)

    def end_all(self, reason: QuorateError) -> None:
        """End every bundle with this error, once its calls have ended if that is quick."""
        for bundle in self._open:
            bundle.end(reason)

    @contextmanager
    def _counted(self, connection: str) -> Iterator[None]:
        if self._counts[connection] >= BUNDLES_MAX:
            raise LimitReached(connection, "bundles", BUNDLES_MAX)
        self._counts[connection] += 1
        try:
            yield
        finally:
            self._counts[connection] -= 1
            if not self._counts[connection]:
                del self._counts[connection]


class Bundle:
    """One stream of calls, from its first request to its end."""

    def __init__(self, service: Any, context: Context, address: str) -> None:
        """Begin without calls. Callers use `Bundles`."""
        self._service = service
        self._context = context
        self._of_call = _ContextOfCall(context)
        self._address = address
        self._over: asyncio.Future[QuorateError] = asyncio.get_running_loop().create_future()
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._answered_once: dict[int, asyncio.Task[None]] = {}
        self._answers: deque[store_v1.BundledAnswer] = deque()
        self._bytes = 0
        """The bytes of the answers that wait to be written."""
        self._has_answers = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def end(self, reason: QuorateError) -> None:
        """End with this error, behind the answers of the calls that end soon."""
        if not self._over.done():
            self._over.set_result(reason)

    async def run(self) -> None:
        """Serve the stream. Raises the error with which it must fail."""
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        try:
            await asyncio.wait((reading, writing, self._over), return_when=asyncio.FIRST_COMPLETED)
            if self._over.done():
                await self._last_answers()
        finally:
            tasks = (reading, writing, *self._watches.values(), *self._answered_once.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._over.done():
            raise self._over.result()
        for task in (reading, writing):
            if not task.cancelled():
                task.result()

    async def _last_answers(self) -> None:
        """Wait until no call is under way and no answer waits, but not for long."""
        calls = [*self._watches.values(), *self._answered_once.values()]
        if calls:
            await asyncio.wait(calls, timeout=_LAST_WORD_SECONDS)
        try:
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                while self._bytes:
                    self._has_room.clear()
                    await self._has_room.wait()
        except TimeoutError:
            _log.debug("%s does not take the last answers", self._context.peer())

    async def _read(self) -> None:
        """Begin the calls that come, until the client sends no more."""
        request = await in_time(self._context.read(), FIRST_REQUEST_SECONDS, "Bundle")
        if request is grpc.aio.EOF:
            return
        check_version(self._address, request.protocol_version)
        while request is not grpc.aio.EOF:
            await self._take(request)
            request = await self._context.read()

    async def _take(self, request: store_v1.BundleRequest) -> None:
        _check_count("calls", len(request.calls), BUNDLED_CALLS_MAX)
        _check_count("given_up", len(request.given_up), GIVEN_UP_MAX)
        for begun, call in enumerate(request.calls, 1):
            await self._begin(call)
            if begun % _BEGIN_AT_ONCE == 0:
                await asyncio.sleep(0)
        for number in request.given_up:
            for calls in (self._watches, self._answered_once):
                if (task := calls.pop(number, None)) is not None:
                    task.cancel()

    async def _begin(self, call: store_v1.BundledCall) -> None:
        if call.id in self._watches or call.id in self._answered_once:
            raise InvalidArgument("id", f"{call.id} is that of a call that is under way")
        if call.WhichOneof("request") == "watch":
            if len(self._watches) >= WATCHES_MAX:
                refusal = LimitReached(self._context.peer(), "watches", WATCHES_MAX)
                self._put(_failed(call.id, failure_to_wire(refusal)))
                return
            kind, calls = self._watch(call), self._watches
        else:
            while len(self._answered_once) >= ANSWERED_ONCE_MAX:
                await asyncio.wait(
                    self._answered_once.values(), return_when=asyncio.FIRST_COMPLETED
                )
            kind, calls = self._answer(call), self._answered_once
        task = calls[call.id] = asyncio.create_task(kind)
        task.add_done_callback(partial(_forget, calls, call.id))

    async def _watch(self, call: store_v1.BundledCall) -> None:
        try:
            async with aclosing(self._service.Watch(call.watch, self._of_call)) as responses:
                async for response in responses:
                    self._put(store_v1.BundledAnswer(id=call.id, watch=response))
                    await self._room()
        except Exception as error:
            self._put(_failed(call.id, _failure_of(error)))

    async def _answer(self, call: store_v1.BundledCall) -> None:
        try:
            answer = await self._answer_of(call)
        except Exception as error:
            answer = _failed(call.id, _failure_of(error))
        self._put(answer)
        # It counts as under way until there is room for more.
        await self._room()

    async def _answer_of(self, call: store_v1.BundledCall) -> store_v1.BundledAnswer:
        service, context = self._service, self._of_call
        match call.WhichOneof("request"):
            case "register_receiver":
                registered = await service.RegisterReceiver(call.register_receiver, context)
                return store_v1.BundledAnswer(id=call.id, register_receiver=registered)
            case "promise":
                promised = await service.Promise(call.promise, context)
                return store_v1.BundledAnswer(id=call.id, promise=promised)
            case "begin":
                begun = await service.Begin(call.begin, context)
                return store_v1.BundledAnswer(id=call.id, begin=begun)
            case "acknowledge":
                taken = await service.Acknowledge(call.acknowledge, context)
                return store_v1.BundledAnswer(id=call.id, acknowledge=taken)
        why = InvalidArgument("request", "this store does not know the call")
        return _failed(call.id, failure_to_wire(why))

    def _put(self, answer: store_v1.BundledAnswer) -> None:
        self._answers.append(answer)
        self._bytes += answer.ByteSize()
        self._has_answers.set()

    async def _room(self) -> None:
        """Wait while the client does not take the answers that there are."""
        while self._bytes > RESPONSE_BYTES_TARGET:
            self._has_room.clear()
            await self._has_room.wait()

    async def _write(self) -> None:
        while True:
            await self._has_answers.wait()
            self._has_answers.clear()
            while self._answers:
                response, size = self._next_response()
                try:
                    await self._context.write(response)
                except grpc.aio.BaseError:
                    return  # The client has gone away.
                self._bytes -= size
                self._has_room.set()

    def _next_response(self) -> tuple[store_v1.BundleResponse, int]:
        """Return the next response and the bytes of its answers."""
        response, size = store_v1.BundleResponse(), 0
        while (
            self._answers
            and len(response.answers) < BUNDLED_CALLS_MAX
            and size < RESPONSE_BYTES_TARGET
        ):
            following = self._answers[0].ByteSize()
            if size and size + following > RESPONSE_BYTES_TARGET:
                break  # A large answer travels alone.
            size += following
            response.answers.append(self._answers.popleft())
        return response, size


class _Aborted(Exception):
    """A call of a bundle was ended with this failure."""

    def __init__(self, failure: v1.Failure) -> None:
        self.failure = failure


class _ContextOfCall:
    """The context of a bundle, as each call in it has it: an error ends that call alone."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        raise _Aborted(failure_of_abort(code, details, trailing_metadata))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _forget(calls: dict[int, asyncio.Task[None]], number: int, ended: asyncio.Task[None]) -> None:
    # A call that was given up may have left its ID to another one.
    if calls.get(number) is ended:
        del calls[number]


def _failed(number: int, failure: v1.Failure) -> store_v1.BundledAnswer:
    return store_v1.BundledAnswer(id=number, failure=failure)


def _failure_of(error: Exception) -> v1.Failure:
    if isinstance(error, _Aborted):
        return error.failure
    _log.error("a call failed unexpectedly", exc_info=error)
    return v1.Failure(message=f"unexpected {type(error).__name__}: {error}")


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise InvalidArgument(what, f"has {count:,} entries; {most:,} are the most in one request")
