"""Servers and their calls in a simulated world, in the place of those of `grpc.aio`.

A call behaves as one of `grpc.aio`, as far as Quorate uses it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
from grpc.aio import EOF, AbortError
from tests.world.channel import Call
from tests.world.loop import ProcessLoop
from tests.world.network import UNAVAILABLE, Network


class Server:
    """A server as `grpc.aio.server` makes it."""

    def __init__(self, network: Network, loop: ProcessLoop) -> None:
        self._network = network
        self.loop = loop
        self._handlers: list[Any] = []
        self._calls: dict[ServerCall, None] = {}
        self.serves = False

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Take them as add_generic_rpc_handlers does, which generated code calls, too."""

    def add_insecure_port(self, address: str) -> int:
        return self._network.listens(address, self)

    async def start(self) -> None:
        self.serves = True

    async def stop(self, grace: float | None) -> None:
        self.serves = False
        self._network.leaves(self)
        if self._calls and grace:
            await asyncio.wait({call.task for call in self._calls}, timeout=grace)
        for call in list(self._calls):
            call.cancel()
            call.call.finish(UNAVAILABLE, "Server is stopped", ())
        if self._calls:
            await asyncio.wait({call.task for call in self._calls})

    def begin(self, call: Call, method: str) -> ServerCall | None:
        details = SimpleNamespace(method=method, invocation_metadata=())
        for generic in self._handlers:
            handler = generic.service(details)
            if handler is not None:
                begun = ServerCall(call, handler, self.loop)
                self._calls[begun] = None
                begun.task.add_done_callback(partial(self._ended, begun))
                return begun
        call.finish(grpc.StatusCode.UNIMPLEMENTED, "Method not found!", ())
        return None

    def _ended(self, call: ServerCall, _: object) -> None:
        self._calls.pop(call, None)


class ServerCall:
    """A call as its server has it, which is the context of its handler, too."""

    def __init__(self, call: Call, handler: Any, loop: ProcessLoop) -> None:
        self.call = call
        self._handler = handler
        self._inbox: deque[bytes | None] = deque()
        self._news = asyncio.Event()
        self._trailing: Any = ()
        self._callbacks: list[Callable[[Any], None]] = []
        self.task = loop.create_task(self._run())

    def came(self, message: bytes | None) -> None:
        self._inbox.append(message)
        self._news.set()

    def cancel(self) -> None:
        self.task.cancel()

    async def _run(self) -> None:
        ok, code, details = grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN, ""
        try:
            await self._handle()
            code = ok
        except AbortError as aborted:
            code, details, self._trailing = aborted.args
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
        except Exception as error:
            details = f"Unexpected {type(error)}: {error}"
        finally:
            # The call is its connection's until the status has come, or the connection breaks.
            self.call.finish(code, details, self._trailing)
            for callback in self._callbacks:
                callback(self)

    async def _handle(self) -> None:
        handler = self._handler
        if handler.request_streaming:
            behaviour = handler.stream_stream or handler.stream_unary
            argument: Any = self._requests()
        else:
            behaviour = handler.unary_stream or handler.unary_unary
            argument = await self.read()
            if argument is EOF:
                return
        answer = behaviour(argument, self)
        if inspect.isasyncgen(answer):
            async for response in answer:
                await self.write(response)
            return
        response = await answer
        if not handler.response_streaming:
            await self.write(response)

    async def _requests(self) -> Any:
        while (request := await self.read()) is not EOF:
            yield request

    # As in grpc.aio.

    async def read(self) -> Any:
        while not self._inbox:
            self._news.clear()
            await self._news.wait()
        message = self._inbox[0]
        if message is None:
            return EOF
        self._inbox.popleft()
        parse = self._handler.request_deserializer
        return parse(message) if parse else message

    async def write(self, message: Any) -> None:
        serialize = self._handler.response_serializer
        self.call.down(serialize(message) if serialize else message)
        await asyncio.sleep(0)

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        raise AbortError(code, details, trailing_metadata)

    def peer(self) -> str:
        return self.call.connection.peer

    def invocation_metadata(self) -> Any:
        return ()

    def auth_context(self) -> Any:
        return {}

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    async def send_initial_metadata(self, _: Any) -> None:
        pass

    def set_trailing_metadata(self, metadata: Any) -> None:
        self._trailing = metadata

    def cancelled(self) -> bool:
        return self.task.cancelled()

    def done(self) -> bool:
        return self.task.done()
