"""The network of the simulated world: calls and streams as gRPC gives them.

In order within a stream, in any order between calls and connections. What can not pass waits, as
in TCP, until the way is free again or the connection breaks. A call may fail before or after it
was served. Nothing here looks into what is carried.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from tests.simulation.world import Pending, Process, Wait, World

from quorate.protocol.errors import Closed, QuorateError, Unreachable

IN_FLIGHT_MAX = 6
"""Messages of a stream that may wait for their reader: gRPC's flow control."""
CALL_SECONDS = 2.0
TURN_RATE = 0.15
"""How likely it is that a name which leads to two leads to the other one this time."""

Handler = Callable[..., Coroutine[Wait, None, Any]]


class Network:
    """Who is reachable under which address, and what is on its way."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.failure_rate = 0.0
        """How likely it is that a message breaks its connection."""
        self.duplicate_rate = 0.0
        self.slow_rate = 0.0
        self._servers: dict[str, tuple[Process, Any]] = {}
        self._doubles: dict[str, str] = {}
        self._leads: dict[str, str] = {}
        """By name: under which name another process can be reached that has it, too."""
        self._led_to: dict[tuple[str, str], str] = {}
        self._blocked: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[tuple[str, str], list[tuple[Process | None, Callable[[], None]]]] = {}
        self._latest: dict[tuple[str, str], float] = {}
        """By way: when the last of what is on it arrives."""
        self._connections: dict[Connection, None] = {}

    def serve(self, process: Process, server: Any) -> None:
        """Requests to the process's name go to the methods of this server."""
        self._servers[process.name] = (process, server)

    # Faults.

    def block(self, ways: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Let nothing pass on these ways, until what is returned is called."""
        mine = list(ways)
        self._blocked.update(mine)

        def free() -> None:
            self._blocked.subtract(mine)
            self._let_pass(mine)

        return free

    def withhold(self, sender: str, recipient: str) -> Callable[[], None]:
        """Let what waits on this way now arrive only when what is returned is called."""
        late = self._waiting.pop((sender, recipient), [])

        def arrive() -> None:
            for process, callback in late:
                self.world.later(0.0, callback, process)

        return arrive

    def on_its_way(self, sender: str) -> Callable[[], bool]:
        """Whether something arrives yet of what this one has sent so far, whenever it is asked."""
        last = max((at for way, at in self._latest.items() if way[0] == sender), default=0.0)
        waits = [
            (way, one)
            for way, waiting in self._waiting.items()
            for one in waiting
            if way[0] == sender
        ]

        def is_any() -> bool:
            still = any(one in self._waiting.get(way, ()) for way, one in waits)
            return still or self.world.now < last

        return is_any

    def heal(self) -> None:
        """Every way is free again; what waited arrives now."""
        self._blocked.clear()
        self._let_pass(list(self._waiting))

    def _let_pass(self, ways: Iterable[tuple[str, str]]) -> None:
        for way in ways:
            if self._blocked[way] <= 0:
                for process, callback in self._waiting.pop(way, ()):
                    self.world.later(0.0, callback, process)

    def reset(self, one: str, other: str | None = None) -> None:
        """Break the connections of one process, or only those to the other."""
        for connection in list(self._connections):
            client, server = connection.client.process.name, connection.server.process.name
            if one in (client, server) and (other is None or other in (client, server)):
                connection.reset()
                self.forget(connection)

    # Two processes under one name.

    def double(self, name: str, other: str) -> None:
        """This name leads to another process as well, now to the one and now to the other."""
        self._doubles[name] = other

    def lead(self, name: str, process: str) -> None:
        """It leads to this one of the two, whoever calls."""
        self._leads[name] = process

    def undouble(self, name: str) -> None:
        """It leads to the one that has it."""
        del self._doubles[name]
        self._leads.pop(name, None)
        for way in [way for way in self._led_to if way[1] == name]:
            del self._led_to[way]

    def _resolved(self, client: Process, name: str) -> str:
        """Whom a client reaches under this name: mostly whom it has reached before."""
        if name not in self._doubles or name in self._leads:
            return self._leads.get(name, name)
        way, chooser = (client.name, name), self.world.chooser
        if way not in self._led_to or chooser.random() < TURN_RATE:
            self._led_to[way] = chooser.choice((name, self._doubles[name]))
        return self._led_to[way]

    # Calls.

    async def call(
        self, client: Process, server: str, method: str, request: Any, seconds: float = CALL_SECONDS
    ) -> Any:
        """Ask once; raises what the server raises, and Unreachable."""
        server = self._resolved(client, server)
        answer: Pending[Any] = Pending()
        client.later(seconds, lambda: answer.fail(Unreachable(server, "it did not answer in time")))
        chooser = self.world.chooser
        if chooser.random() < self.failure_rate:
            self.world.fault("call lost", "%s from %s to %s", method, client.name, server)
            lost = Unreachable(server, "the connection broke")
            client.later(self._delay(), lambda: answer.fail(lost))
            if chooser.random() < 0.5:
                return await answer
        times = 1
        if chooser.random() < self.duplicate_rate:
            self.world.fault("call duplicated", "%s from %s to %s", method, client.name, server)
            times = 2
        for _ in range(times):
            self._carry(
                client.name,
                server,
                lambda: self._serve(client, server, method, request, answer),
            )
        return await answer

    def _serve(
        self, client: Process, name: str, method: str, request: Any, answer: Pending[Any]
    ) -> None:
        process, server = self._servers.get(name, (None, None))
        if process is None or not process.alive:
            refused = Unreachable(name, "nobody listens")
            self._carry(name, client.name, lambda: answer.fail(refused), client)
            return
        handler: Handler = getattr(server, method)
        begun: Process = process

        def begin() -> None:
            begun.start(self._answer(begun, client, handler, request, answer))

        if process.paused:
            process.defer(begin)
        else:
            begin()

    async def _answer(
        self, server: Process, client: Process, handler: Handler, request: Any, answer: Pending[Any]
    ) -> None:
        try:
            value = await handler(request)
        except QuorateError as error:
            failure = error
            self._carry(server.name, client.name, lambda: answer.fail(failure), client)
            return
        self._carry(server.name, client.name, lambda: answer.set(value), client)

    # Streams.

    def carries(self, sender: str, recipient: str, item: Any) -> None:
        """A stream carries this; for who wants to tell of it."""

    def ends(self, sender: str, recipient: str, error: QuorateError) -> None:
        """A side ends its stream; for who wants to tell of it."""

    def connect(self, client: Process, server: str, method: str, request: Any = None) -> End:
        """Open a stream; returns the client's end. The server's method gets the other end."""
        server = self._resolved(client, server)
        process, handlers = self._servers.get(server, (None, None))
        if process is None or not process.alive:
            # Nobody reads it; the client hears so.
            end = End(self, client, server)
            client.later(self._delay(), lambda: end.broke(Unreachable(server, "nobody listens")))
            return end
        connection = Connection(self, client, process)
        self._connections[connection] = None
        handler: Handler = getattr(handlers, method)

        def begin() -> None:
            process.start(self._stream(handler, connection.server, request))

        connection.client.transmit(begin)
        return connection.client

    async def _stream(self, handler: Handler, end: End, request: Any) -> None:
        try:
            await handler(end, request)
        except QuorateError as error:
            end.close(error)
        else:
            end.close(Closed("The stream"))

    def forget(self, connection: Connection) -> None:
        """Nothing more is carried by it."""
        self._connections.pop(connection, None)

    def killed(self, process: Process) -> None:
        """The process is no more: its connections break."""
        for connection in list(self._connections):
            if process in (connection.client.process, connection.server.process):
                connection.reset()
                self.forget(connection)

    # The way.

    def _delay(self) -> float:
        random = self.world.chooser.random
        if self.slow_rate and random() < self.slow_rate:
            # Only counted, as what is overtaken: told of each, a story is of nothing else.
            self.world.faults["message delayed"] += 1
            return 0.01 + 0.4 * random()
        return 0.0001 + 0.0039 * random()

    def _carry(
        self,
        sender: str,
        recipient: str,
        arrive: Callable[[], None],
        process: Process | None = None,
    ) -> None:
        self.carry_in_order(sender, recipient, arrive, 0.0, process)

    def carry_in_order(
        self,
        sender: str,
        recipient: str,
        arrive: Callable[[], None],
        not_before: float,
        process: Process | None,
    ) -> float:
        """Have it arrive, not before that time; returns when, as far as that is known."""
        way = (sender, recipient)
        if self._blocked.get(way, 0) > 0:
            self._waiting.setdefault(way, []).append((process, arrive))
            return not_before
        at = max(self.world.now + self._delay(), not_before)
        if at < self._latest.get(way, 0.0):
            self.world.faults["message overtook others"] += 1
        else:
            self._latest[way] = at
        self.world.later(at - self.world.now, arrive, process)
        return at


class Connection:
    """A stream's two ends."""

    def __init__(self, network: Network, client: Process, server: Process) -> None:
        self.client = End(network, client, server.name)
        self.server = End(network, server, client.name)
        self.client.other, self.server.other = self.server, self.client
        self.client.connection = self.server.connection = self

    def reset(self) -> None:
        """Both sides lose what is on its way, each at its own time."""
        for end in (self.client, self.server):
            end.cut_off(Unreachable(end.peer, "the connection broke"))


class End:
    """One side of a stream."""

    def __init__(self, network: Network, process: Process, peer: str) -> None:
        self.process = process
        self.peer = peer
        self.other: End | None = None
        self.connection: Connection | None = None
        self.error: QuorateError | None = None
        """Why nothing more can be read or written."""
        self._network = network
        self._arrived: deque[Any] = deque()
        self._reader: Pending[None] | None = None
        self._in_flight = 0
        self._writer: Pending[None] | None = None
        self._not_before = 0.0
        self._cut = False
        self._queued: deque[Callable[[], None]] = deque()

    async def write(self, item: Any) -> None:
        """Send; waits while the peer does not read. Writing to a broken stream does nothing."""
        while self._in_flight >= IN_FLIGHT_MAX and self.error is None:
            self._writer = Pending()
            await self._writer
        self.send(item)

    def send(self, item: Any) -> None:
        """Send without waiting."""
        if self.error is None and self.other is not None:
            self._network.carries(self.process.name, self.peer, item)
            self._in_flight += 1
            other = self.other
            self.transmit(lambda: other.arrive(item))

    def transmit(self, arrive: Callable[[], None]) -> None:
        """Have this happen at the other end, after all that was sent before."""
        world, other = self._network.world, self.other
        assert other is not None
        rate = self._network.failure_rate
        if rate and world.chooser.random() < rate / 4:
            world.fault("stream broken", "between %s and %s", self.process.name, self.peer)
            self._network.reset(self.process.name, self.peer)
            return
        self._queued.append(arrive)
        self._not_before = self._network.carry_in_order(
            self.process.name, self.peer, self._deliver_next, self._not_before + 1e-9, other.process
        )

    def _deliver_next(self) -> None:
        # Whichever carrier comes first brings what was sent first.
        if self._queued and self.other is not None and not self.other.is_cut:
            self._queued.popleft()()

    @property
    def is_cut(self) -> bool:
        return self._cut

    def arrive(self, item: Any) -> None:
        self._arrived.append(item)
        self._wake_reader()

    async def read(self, seconds: float | None = None) -> Any:
        """The next item. Raises why there is none; Unreachable if none comes in time."""
        deadline = None if seconds is None else self._network.world.now + seconds
        while not self._arrived:
            if self.error is not None:
                raise self.error
            if deadline is not None and self._network.world.now >= deadline:
                raise Unreachable(self.peer, "no answer in time")
            await self._next_arrival(seconds)
        if self.other is not None:
            self.other.was_read()
        return self._arrived.popleft()

    async def _next_arrival(self, seconds: float | None) -> None:
        reader: Pending[None] = Pending()
        self._reader = reader
        if seconds is not None:
            self.process.later(seconds, lambda: reader.set(None))
        await reader

    def was_read(self) -> None:
        self._in_flight -= 1
        self._wake_writer()

    def close(self, error: QuorateError) -> None:
        """Nothing more comes from here; the peer hears why, after what was sent."""
        if self.error is not None:
            return
        self.error = error
        self._wake_writer()
        if self.other is not None and not self._cut:
            self._network.ends(self.process.name, self.peer, error)
            other = self.other
            self.transmit(lambda: other.broke(error))
            self._forget_if_over()

    def leave(self, error: QuorateError) -> None:
        """Nothing more is read here, not even what has arrived: its reader is told this."""
        self._arrived.clear()
        self.close(error)
        self._wake_reader()

    def _forget_if_over(self) -> None:
        if self.connection is not None and self.other is not None and self.other.error is not None:
            self._network.forget(self.connection)

    def broke(self, error: QuorateError) -> None:
        """The peer has closed."""
        if self.error is None:
            self.error = error
            self._forget_if_over()
        self._wake_reader()
        self._wake_writer()

    def cut_off(self, error: QuorateError) -> None:
        """The connection is no more."""
        self._cut = True
        delay = self._network.world.chooser.uniform(0.0, 0.01)
        self.process.later(delay, lambda: self.broke(error))

    def _wake_reader(self) -> None:
        if self._reader is not None:
            self._reader.set(None)

    def _wake_writer(self) -> None:
        if self._writer is not None:
            self._writer.set(None)
