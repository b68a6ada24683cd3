"""The network of a simulated world: which process listens where, and what is under way.

A connection keeps order and loses nothing while it lasts, as TCP does. It breaks when an end
crashes. Between two processes that are parted, messages wait until the world heals. The meaning of
the messages is not known here. `channel` has the client's end of a call, and `server` the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

import grpc
from tests.world.loop import Clock, ProcessLoop

if TYPE_CHECKING:
    from tests.world.channel import Call
    from tests.world.server import Server

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class Tap:
    """Hears what clients and servers say, in the moment that it arrives. This one does nothing."""

    def asked(self, call: Call, message: bytes) -> None:
        """Hear a message that a server got."""

    def answered(self, call: Call, message: bytes) -> None:
        """Hear a message that a client got."""

    def ended(self, call: Call, code: grpc.StatusCode, trailing: Any) -> None:
        """Hear the status with which a server ended a call. trailing: its metadata."""


class Network:
    """All servers and connections of a world."""

    def __init__(self, clock: Clock, random: Random) -> None:
        """Begin without servers."""
        self._clock = clock
        self._random = random
        self._servers: dict[str, Server] = {}
        self._connections: list[Connection] = []
        self._parted: set[tuple[str, str]] = set()
        self._last_port = 20_000
        self.is_over = False
        """Whether nothing gets anywhere any more, because the world ends."""
        self.messages = 0
        """The messages that were delivered."""
        self.tap = Tap()

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

    def mend(self, ways: Iterable[tuple[str, str]]) -> None:
        """End these partitions. Messages that waited go on."""
        self._parted.difference_update(ways)
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

    def reset(self, loop: ProcessLoop) -> None:
        """Break all connections of a process. Both ends hear of it."""
        for connection in list(self._connections):
            if loop in (connection.up.sender, connection.up.taker):
                connection.broken()

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
        self.tap = network.tap
        self.server = server
        self.peer = network.next_peer()
        self.up = _Way(network, client, server.loop)
        self.down = _Way(network, server.loop, client)
        self.is_broken = False
        self.calls: dict[Call, None] = {}
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
                call.client.finished(UNAVAILABLE, "recvmsg:Connection reset by peer", ())
            if at is None or at is self.up.taker:
                call.cancel_server()
