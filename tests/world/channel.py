"""Channels and calls of clients in a simulated world, in the place of those of `grpc.aio`.

A call behaves as one of `grpc.aio`, as far as Quorate uses it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from grpc.aio import EOF, AioRpcError, Metadata
from tests.world.loop import ProcessLoop
from tests.world.network import UNAVAILABLE, Connection, Network

if TYPE_CHECKING:
    from tests.world.server import ServerCall

WINDOW = 64
"""Messages of one direction of a call that may be under way before a write waits."""
CONNECT_SECONDS_MAX = 2.0
"""The time in seconds after which an attempt to connect to a parted process fails."""


class Channel:
    """A channel as `grpc.aio.insecure_channel` makes it."""

    def __init__(self, network: Network, loop: ProcessLoop, address: str) -> None:
        self.network = network
        self.loop = loop
        self._address = address
        self._connection: Connection | None = None
        self._calls: dict[ClientCall, None] = {}
        self._is_closed = False

    def _method(self, streams_requests: bool) -> Callable[..., Callable[..., ClientCall]]:
        def method(
            name: str,
            request_serializer: Callable[[Any], bytes],
            response_deserializer: Callable[[bytes], Any],
            **_: Any,
        ) -> Callable[..., ClientCall]:
            def begin(request: Any = None, timeout: float | None = None, **_: Any) -> ClientCall:
                if self._is_closed:
                    raise grpc.aio.UsageError("Channel is closed.")
                call = ClientCall(self, name, request_serializer, response_deserializer)
                self._calls[call] = None
                call.add_done_callback(lambda done: self._calls.pop(done, None))
                call.begin(timeout)
                if not streams_requests:
                    call.send_all(request)
                return call

            return begin

        return method

    @property
    def unary_unary(self) -> Any:
        return self._method(streams_requests=False)

    @property
    def unary_stream(self) -> Any:
        return self._method(streams_requests=False)

    @property
    def stream_unary(self) -> Any:
        return self._method(streams_requests=True)

    @property
    def stream_stream(self) -> Any:
        return self._method(streams_requests=True)

    def connection(self) -> Connection | None:
        """Return the connection, which is made if there is none. None: nobody listens."""
        if self._connection is None or self._connection.is_broken or self._goes():
            server = self.network.server_at(self._address)
            if server is None or server.loop.crashed:
                return None
            self._connection = Connection(self.network, self.loop, server)
        return self._connection

    def _goes(self) -> bool:
        assert self._connection is not None
        return not self._connection.server.serves

    def parted(self) -> bool:
        """Return whether no connection can be made, because one direction is cut."""
        if self._connection is not None and not self._connection.is_broken:
            return False
        server = self.network.server_at(self._address)
        if server is None:
            return False
        here, there = self.loop.name, server.loop.name
        return self.network.is_parted(here, there) or self.network.is_parted(there, here)

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def get_state(self, **_: Any) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    async def close(self, _: float | None = None) -> None:
        self._is_closed = True
        for call in list(self._calls):
            call.cancel()
        if self._connection is not None and not self._connection.is_broken:
            connection = self._connection
            connection.up.send(lambda: connection.broken(connection.up.taker))
            connection.broken(self.loop)
            connection.up.ended = False


class ClientCall:
    """A call as its client has it."""

    def __init__(
        self,
        channel: Channel,
        method: str,
        serialize: Callable[[Any], bytes],
        parse: Callable[[bytes], Any],
    ) -> None:
        self._channel = channel
        self._loop = channel.loop
        self._method = method
        self._serialize = serialize
        self._parse = parse
        self._call: Call | None = None
        self._inbox: deque[Any] = deque()
        self._news = asyncio.Event()
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._trailing: Any = Metadata()
        self._is_cancelled = False
        self._callbacks: list[Callable[[Any], None]] = []
        self._timer: asyncio.TimerHandle | None = None

    # What the channel does.

    def begin(self, timeout: float | None) -> None:
        if timeout is not None:
            self._timer = self._loop.call_later(
                timeout, self._give_up, grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"
            )
        if self._channel.parted():
            self._loop.call_later(
                CONNECT_SECONDS_MAX,
                self._give_up,
                UNAVAILABLE,
                "failed to connect to all addresses",
            )
            return
        connection = self._channel.connection()
        if connection is None:
            self._loop.call_later(
                self._channel.network.delay(),
                self._give_up,
                UNAVAILABLE,
                "failed to connect to all addresses; last error: Connection refused",
            )
            return
        self._call = Call(self, connection, self._method)

    def _give_up(self, code: grpc.StatusCode, details: str) -> None:
        if self._code is None:
            self._tell_server()
            self.finished(code, details, ())

    def send_all(self, request: Any) -> None:
        if self._call is not None:
            self._call.up(self._serialize(request))
            self._call.up(None)

    # What comes from the server.

    def came(self, message: bytes) -> None:
        if self._code is None:
            self._inbox.append(self._parse(message))
            self._news.set()

    def finished(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        if self._code is not None:
            return
        self._code, self._details, self._trailing = code, details, Metadata(*trailing)
        if self._timer is not None:
            self._timer.cancel()
        if self._call is not None:
            self._call.connection.calls.pop(self._call, None)
            self._call.room.set()
        self._news.set()
        for callback in self._callbacks:
            self._loop.call_soon(callback, self)

    # As in grpc.aio.

    async def read(self) -> Any:
        while not self._inbox:
            if self._code is not None:
                self.raise_failure()
                return EOF
            self._news.clear()
            await self._news.wait()
        return self._inbox.popleft()

    def raise_failure(self) -> None:
        """Raise why the call has ended, unless it ended well."""
        if self._is_cancelled:
            raise asyncio.CancelledError
        if self._code is not grpc.StatusCode.OK:
            assert self._code is not None
            raise AioRpcError(self._code, Metadata(), self._trailing, self._details)

    def __await__(self) -> Any:
        return self._response().__await__()

    async def _response(self) -> Any:
        message = await self.read()
        while self._code is None:
            self._news.clear()
            await self._news.wait()
        self.raise_failure()
        return message

    def __aiter__(self) -> Any:
        return self._all()

    async def _all(self) -> Any:
        while (message := await self.read()) is not EOF:
            yield message

    async def write(self, message: Any) -> None:
        if self._code is not None:
            raise asyncio.InvalidStateError("RPC already finished.")
        if self._call is None:
            await self._ended()
            self.raise_failure()
            return
        await self._call.up_in_turn(self._serialize(message))

    async def done_writing(self) -> None:
        if self._call is not None and self._code is None:
            self._call.up(None)

    def cancel(self) -> bool:
        if self._code is not None:
            return False
        self._is_cancelled = True
        self._tell_server()
        self.finished(grpc.StatusCode.CANCELLED, "Locally cancelled by application!", ())
        return True

    def _tell_server(self) -> None:
        if self._call is not None:
            self._call.cancelled_by_client()

    def done(self) -> bool:
        return self._code is not None

    def cancelled(self) -> bool:
        return self._is_cancelled

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        if self._code is not None:
            self._loop.call_soon(callback, self)
        else:
            self._callbacks.append(callback)

    async def code(self) -> grpc.StatusCode:
        await self._ended()
        assert self._code is not None
        return self._code

    async def details(self) -> str:
        await self._ended()
        return self._details

    async def trailing_metadata(self) -> Any:
        await self._ended()
        return self._trailing

    async def _ended(self) -> None:
        while self._code is None:
            self._news.clear()
            await self._news.wait()


class Call:
    """A call on a connection."""

    def __init__(self, client: ClientCall, connection: Connection, method: str) -> None:
        self.client = client
        self.connection = connection
        self.method = method
        self._server: ServerCall | None = None
        self._under_way = 0
        self.room = asyncio.Event()
        connection.calls[self] = None
        connection.up.send(lambda: self._begin(method))

    def _begin(self, method: str) -> None:
        self._server = self.connection.server.begin(self, method)

    def up(self, message: bytes | None) -> None:
        """Send a message to the server. None: no further one follows."""

        def deliver() -> None:
            self._under_way -= 1
            self.client._loop.call_soon(self.room.set)
            if message is not None:
                self.connection.tap.asked(self, message)
            if self._server is not None:
                self._server.came(message)

        self._under_way += 1
        self.connection.up.send(deliver)

    async def up_in_turn(self, message: bytes) -> None:
        while self._under_way >= WINDOW and not self.client.done():
            self.room.clear()
            await self.room.wait()
        if self.client.done():
            self.client.raise_failure()
        self.up(message)
        await asyncio.sleep(0)

    def cancelled_by_client(self) -> None:
        self.connection.up.send(self.cancel_server)

    def cancel_server(self) -> None:
        if self._server is not None:
            self._server.cancel()

    def down(self, message: bytes) -> None:
        """Send a message to the client."""

        def deliver() -> None:
            self.connection.tap.answered(self, message)
            self.client.came(message)

        self.connection.down.send(deliver)

    def finish(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        """Send the status to the client."""

        def deliver() -> None:
            self.connection.tap.ended(self, code, trailing)
            self.client.finished(code, details, trailing)

        self.connection.down.send(deliver)
