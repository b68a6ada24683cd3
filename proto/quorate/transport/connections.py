"""The connections of one client: one for each address, shared by its sources and receivers.

What the calls on a connection say is not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

import grpc.aio

from quorate.protocol.application import UNNAMED, Application
from quorate.protocol.errors import Unreachable
from quorate.protocol.heartbeat import Heartbeat
from quorate.protocol.tls import Tls
from quorate.protocol.wire import application_to_wire
from quorate.transport.bundle import Bundle
from quorate.transport.channels import LastingChannel
from quorate.transport.heartbeat import Beating
from quorate.transport.lanes import Lanes
from quorate.transport.tracing import Tracing
from quorate.transport.turns import Beginnings
from quorate.v1.peer_pb2_grpc import PeerStub
from quorate.v1.source_pb2_grpc import SourceStub
from quorate.v1.store_pb2_grpc import StoreStub

OPENINGS_MAX = 32
"""The users of one connection that may open something at the peer at the same time."""

BEGINNINGS_MAX = 48
"""The sources and receivers of one client that begin at the same time."""

KEPT_SECONDS = 10.0
"""Seconds for which a connection is kept after a short call."""

FETCHES_MAX = 16
"""The fetches that one client has under way at one peer. More at once would only wait there, and
their peer would seem to be silent."""

Told = Callable[[Unreachable | None], None]
"""Gets the error of a peer that has become silent, and None once it is heard again."""


class Connection:
    """The connection to one address, as one of its users has it.

    All calls to the address share one TCP connection. The first call makes it. It ends when the
    last user has given the connection back.
    """

    def __init__(self, shared: _Shared, told: Told | None) -> None:
        """Add a user. Callers use `Connections.connect`."""
        self._shared = shared
        self._is_released = False
        shared.users[self] = told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel for the next call. It may be another one for the call after that."""
        return self._shared.stubs.channel

    @property
    def store(self) -> Any:
        """The stub for the next call to a store."""
        return self._shared.stubs.store

    @property
    def bundle(self) -> Bundle:
        """The bundle in which all users make their small calls to a store."""
        return self._shared.bundle

    @property
    def source(self) -> Any:
        """The stub for the next call to a source."""
        return self._shared.stubs.source

    @property
    def lanes(self) -> Lanes:
        """The streams of all users to a store. They are over when the store is silent."""
        return self._shared.lanes

    @property
    def openings(self) -> asyncio.Semaphore:
        """The places of all users that open something at the peer.

        A thousand users that begin at once would wait for each other until their time is over, and
        begin again. In turns, each is answered soon.
        """
        return self._shared.openings

    def heard(self) -> None:
        """Note that the peer said something, whatever it was: that is as good as a heartbeat."""
        self._shared.beating.heard()

    @property
    def is_heard(self) -> bool:
        """Whether the peer answers heartbeats just now."""
        return self._shared.beating.is_heard

    @property
    def fetches(self) -> asyncio.Semaphore:
        """The places of all the client's fetches from the peer."""
        return self._shared.fetches

    def release(self) -> None:
        """Give the connection back. This user makes no further calls; its calls have ended."""
        if not self._is_released:
            self._is_released = True
            self._shared.released(self)


class Connections:
    """The connections of one client, all used on one event loop."""

    def __init__(
        self,
        heartbeat: Heartbeat | None = None,
        tls: Tls | None = None,
        application: Application = UNNAMED,
        tracing: Tracing | None = None,
    ) -> None:
        """Begin without connections.

        - heartbeat: the pace of heartbeats; None: the usual one.
        - tls: None: the connections are not secure.
        - application: the one that stores are told of.
        - tracing: the traces of the client; None: it makes none.
        """
        self.tracing = tracing
        """The traces of the client; None: it makes none."""
        self.application = application_to_wire(application)
        """The client's application, as stores are told of it; None: they are told nothing."""
        self.beginnings = Beginnings(BEGINNINGS_MAX)
        """The places of all that begins. A thousand at once would leave no time to each."""
        self._heartbeat = heartbeat or Heartbeat()
        self._tls = tls
        self._by_address: dict[str, _Shared] = {}
        self._kept: dict[str, tuple[Connection, asyncio.TimerHandle]] = {}
        """The connections that stay for a while, each with what ends that."""
        self._closing: set[asyncio.Task[None]] = set()

    def connect(self, address: str, told: Told | None = None) -> Connection:
        """Return the connection to host:port. The caller releases it.

        told: hears of a peer that is silent, until the connection is released. Raises
        ConfigurationInvalid if the TLS files cannot be used.
        """
        shared = self._by_address.get(address)
        if shared is None:
            shared = _Shared(address, self._tls, self._heartbeat, self._unused)
            self._by_address[address] = shared
        return Connection(shared, told)

    def keep(self, address: str) -> None:
        """Keep the connection to host:port for a while, though nobody may use it.

        A user of short calls asks for this after each. So not every call makes a connection anew.
        """
        kept = self._kept.pop(address, None)
        if kept is not None:
            kept[1].cancel()
        connection = self.connect(address) if kept is None else kept[0]
        ends = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._keep_no_longer, address)
        self._kept[address] = connection, ends

    def _keep_no_longer(self, address: str) -> None:
        connection, ends = self._kept.pop(address)
        ends.cancel()
        connection.release()

    async def close(self) -> None:
        """Close every connection. Calls that are under way are cancelled."""
        for address in list(self._kept):
            self._keep_no_longer(address)
        for shared in list(self._by_address.values()):
            self._unused(shared)
        while self._closing:
            await asyncio.wait(self._closing)

    def _unused(self, shared: _Shared) -> None:
        if self._by_address.get(shared.address) is shared:
            del self._by_address[shared.address]
            closing = asyncio.get_running_loop().create_task(shared.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class _Stubs:
    """The stubs of one channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.store: Any = StoreStub(channel)
        self.source: Any = SourceStub(channel)
        self.peer: Any = PeerStub(channel)


class _Shared:
    """The one channel to an address, and its users."""

    def __init__(
        self,
        address: str,
        tls: Tls | None,
        heartbeat: Heartbeat,
        unused: Callable[[_Shared], None],
    ) -> None:
        """Begin without users. unused: is called when the last user has left."""
        self.address = address
        self.users: dict[Connection, Told | None] = {}
        self.openings = asyncio.Semaphore(OPENINGS_MAX)
        self.fetches = asyncio.Semaphore(FETCHES_MAX)
        self._lasting = LastingChannel(address, tls)
        self._stubs = _Stubs(self._lasting.channel)
        self.beating = Beating(address, lambda: self.stubs.peer, heartbeat, self._tell)
        self.lanes = Lanes(address, lambda: self.stubs.channel, self.beating.heard)
        self._beats = asyncio.get_running_loop().create_task(self.beating.run())
        self.bundle = Bundle(address, lambda: self.stubs.store, self.beating.heard)
        self._unused = unused

    def released(self, user: Connection) -> None:
        del self.users[user]
        if not self.users:
            self._unused(self)

    async def close(self) -> None:
        self._beats.cancel()
        await asyncio.gather(self._beats, return_exceptions=True)
        await self.lanes.close()
        await self.bundle.close()
        await self._lasting.close()

    @property
    def stubs(self) -> _Stubs:
        """The stubs for the next call."""
        channel = self._lasting.channel
        if channel is not self._stubs.channel:
            self._stubs = _Stubs(channel)
        return self._stubs

    def _tell(self, silence: Unreachable | None) -> None:
        if silence is not None:
            self.lanes.break_off(silence)
        for told in list(self.users.values()):
            if told is not None:
                told(silence)
