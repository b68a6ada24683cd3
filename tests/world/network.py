"""The network of a simulated world: channels and servers in the place of those of `grpc.aio`.

A connection keeps order and loses nothing while it lasts, as TCP does. It breaks when an end
crashes. Between two processes that are parted, messages wait until the world heals. A call behaves
as one of `grpc.aio`, as far as Quorate uses it. The meaning of the messages is not known here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
from grpc.aio import EOF, AbortError, AioRpcError, Metadata
from tests.world.loop import Clock, ProcessLoop

WINDOW = 64
"""Messages of one direction of a call that may be under way before a write waits."""
CONNECT_SECONDS_MAX = 2.0
"""The time in seconds after which an attempt to connect to a parted process fails."""
_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class Network:
    """All servers and connections of a world."""

    def __init__(self, clock: Clock, random: Random, current: Callable[[], ProcessLoop]) -> None:
        """Begin without servers. current: returns the process whose turn it is."""
        self._clock = clock
        self._random = random
        self._current = current
        self._servers: dict[str, Server] = {}
        self._connections: list[Connection] = []
        self._parted: set[tuple[str, str]] = set()
        self._last_port = 20_000
        self.is_over = False
        """Whether nothing gets anywhere any more, because the world ends."""
        self.messages = 0
        """The messages that were delivered."""

    # In the place of grpc.aio's functions.

    def channel(self, address: str, **_: Any) -> Channel:
        """Return a channel of the process whose turn it is."""
        return Channel(self, self._current(), address)

    def server(self, **_: Any) -> Server:
        """Return a server of the process whose turn it is."""
        return Server(self, self._current())

    # Weather.

    def delay(self) -> float:
        """Return the seconds that a message is under way."""
        if self._random.random() < 0.01:
            return self._random.uniform(0.01, 0.2)
        return self._random.uniform(0.0001, 0.002)

    def part(self, one: str, other: str) -> None:
        """Let nothing get from one process to the other."""
        self._parted.add((one, other))

    def heal(self) -> None:
        """End all partitions. Messages that waited go on."""
        self._parted.clear()
        for connection in list(self._connections):
            connection.healed()

    def is_parted(self, one: str, other: str) -> bool:
        """Return whether nothing gets from one to the other."""
        return (one, other) in self._parted

    def crashed(self, loop: ProcessLoop) -> None:
        """Break all that the process had open. It says nothing more."""
        for address in [at for at, server in self._servers.items() if server.loop is loop]:
            del self._servers[address]
        for connection in list(self._connections):
            connection.end_crashed(loop)

    # For the parts.

    def listens(self, address: str, server: Server) -> int:
        host, _, port = address.rpartition(":")
        if port == "0":
            self._last_port += 1
            port = str(self._last_port)
        at = f"{host}:{port}"
        if at in self._servers:
            raise RuntimeError(f"{at} is in use")
        self._servers[at] = server
        return int(port)

    def leaves(self, server: Server) -> None:
        for at in [at for at, other in self._servers.items() if other is server]:
            del self._servers[at]

    def server_at(self, address: str) -> Server | None:
        server = None if self.is_over else self._servers.get(address)
        return server if server is not None and server.serves else None

    def connected(self, connection: Connection) -> None:
        self._connections.append(connection)

    def broken(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)

    def next_peer(self) -> str:
        self._last_port += 1
        return f"ipv4:127.0.0.1:{self._last_port}"

    @property
    def now(self) -> float:
        return self._clock.now


class _Way:
    """One direction of a connection."""

    def __init__(self, network: Network, sender: ProcessLoop, taker: ProcessLoop) -> None:
        self._network = network
        self.sender = sender
        self.taker = taker
        self._last = 0.0
        self._held: deque[Callable[[], None]] = deque()
        self.ended = False

    def send(self, deliver: Callable[[], None]) -> None:
        """Deliver in the taker's process, after all that was sent before."""
        if self._network.is_over or self.taker.crashed or self.sender.crashed:
            return
        # Later than the one before: a loop does not keep the order of what is due at one time.
        self._last = max(self._last + 1e-6, self._network.now + self._network.delay())
        self.taker.call_at(self._last, self._arrive, deliver)

    def _arrive(self, deliver: Callable[[], None]) -> None:
        if self.ended:
            return
        if self._held or self._network.is_parted(self.sender.name, self.taker.name):
            self._held.append(deliver)
            return
        self._network.messages += 1
        deliver()

    def healed(self) -> None:
        held, self._held = self._held, deque()
        for deliver in held:
            self.send(deliver)


class Connection:
    """A connection between a client's and a server's process."""

    def __init__(self, network: Network, client: ProcessLoop, server: Server) -> None:
        self._network = network
        self.server = server
        self.peer = network.next_peer()
        self.up = _Way(network, client, server.loop)
        self.down = _Way(network, server.loop, client)
        self.is_broken = False
        self.calls: dict[_Call, None] = {}
        network.connected(self)

    def healed(self) -> None:
        self.up.healed()
        self.down.healed()

    def end_crashed(self, loop: ProcessLoop) -> None:
        """Tell the other end a little later, if it is an end of this connection that crashed."""
        if loop not in (self.up.sender, self.up.taker):
            return
        other, way = (
            (self.up.taker, self.up) if loop is self.up.sender else (self.up.sender, self.down)
        )
        way.ended = True
        if other.crashed:
            self._network.broken(self)
            return

        def reset() -> None:
            if self._network.is_parted(loop.name, other.name):
                other.call_later(0.5, reset)  # TCP asks again.
                return
            self.broken(other)

        other.call_later(self._network.delay(), reset)

    def broken(self, at: ProcessLoop | None = None) -> None:
        """End all calls, as this end sees them. at: the process; None: both."""
        self.is_broken = True
        self.up.ended = self.down.ended = True
        self._network.broken(self)
        for call in list(self.calls):
            if at is None or at is self.up.sender:
                call.client.finished(_UNAVAILABLE, "recvmsg:Connection reset by peer", ())
            if at is None or at is self.up.taker:
                call.cancel_server()


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
        self._call: _Call | None = None
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
                _UNAVAILABLE,
                "failed to connect to all addresses",
            )
            return
        connection = self._channel.connection()
        if connection is None:
            self._loop.call_later(
                self._channel.network.delay(),
                self._give_up,
                _UNAVAILABLE,
                "failed to connect to all addresses; last error: Connection refused",
            )
            return
        self._call = _Call(self, connection, self._method)

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


class _Call:
    """A call on a connection."""

    def __init__(self, client: ClientCall, connection: Connection, method: str) -> None:
        self.client = client
        self.connection = connection
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
        self.connection.down.send(lambda: self.client.came(message))

    def finish(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        """Send the status to the client."""
        self.connection.down.send(lambda: self.client.finished(code, details, trailing))


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
            call.call.finish(_UNAVAILABLE, "Server is stopped", ())
        if self._calls:
            await asyncio.wait({call.task for call in self._calls})

    def begin(self, call: _Call, method: str) -> ServerCall | None:
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

    def __init__(self, call: _Call, handler: Any, loop: ProcessLoop) -> None:
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
            self.call.connection.calls.pop(self.call, None)
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
