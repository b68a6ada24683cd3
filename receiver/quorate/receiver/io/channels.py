"""The peers of a receiver by address, over the connections that the receiver shares with others.

What the calls say is not known here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.tls import Tls
from quorate.transport.application import this_application
from quorate.transport.bundle import Bundle
from quorate.transport.connections import Connection, Connections
from quorate.transport.turns import Turn
from quorate.v1.messages_pb2 import Application

log = logging.getLogger("quorate.receiver")

CALL_SECONDS = 3.0
"""The time, in seconds, that a call with one answer may take."""


class Peers:
    """The stores and sources with which a receiver speaks."""

    def __init__(
        self,
        connections: Connections | None,
        told: Callable[[str, Unreachable | None], None],
        tls: Tls | None = None,
    ) -> None:
        """Begin without connections.

        - connections: those of the client; None: the receiver has its own.
        - told: gets the address of a peer that has become silent, with the error, and again, with
          None, once it is heard.
        - tls: the TLS files of connections of its own; None: they are not secure.
        """
        self._told = told
        self._connections = connections or Connections(tls=tls, application=this_application())
        self._are_own = connections is None
        self._by_address: dict[str, Connection] = {}
        self._uses: Counter[str] = Counter()
        self._failing: set[str] = set()
        """The peers whose failure was logged, and that have answered nothing since."""

    @property
    def application(self) -> Application | None:
        """The application, as stores are told of it; None: they are told nothing."""
        return self._connections.application

    def store(self, address: str) -> Any:
        """Return the stub of the store at this address."""
        return self._at(address).store

    def bundle(self, address: str) -> Bundle:
        """Return the bundle for small calls to the store at this address."""
        return self._at(address).bundle

    def source(self, address: str) -> Any:
        """Return the stub of the source at this address."""
        return self._at(address).source

    def use(self, address: str) -> None:
        """Keep the connection to this address until `leave` is called as often as this."""
        self._uses[address] += 1

    def leave(self, address: str) -> None:
        """End one use of an address. After the last one its connection is given back.

        No call to it is under way then.
        """
        self._uses[address] -= 1
        if not self._uses[address]:
            del self._uses[address]
            self._failing.discard(address)
            if (connection := self._by_address.pop(address, None)) is not None:
                connection.release()

    def heard(self, address: str) -> None:
        """Note that the peer at this address said something."""
        self._at(address).heard()

    def beginning(self, until: float) -> AbstractAsyncContextManager[bool]:
        """Wait for a turn among all that begins at this client, as `Beginnings.turn` does."""
        return self._connections.beginnings.turn(until)

    def fetch_turn(self, address: str) -> Turn:
        """Return a turn to fetch from the peer at this address, which is not taken yet."""
        return Turn(lambda: self._at(address).fetches)

    def answered(self, address: str) -> None:
        """Note that the peer at this address has answered a call."""
        self._failing.discard(address)

    def failed(self, address: str, what: str, error: QuorateError, *, again: bool) -> None:
        """Log that a call to this address failed; at level DEBUG if that is no news.

        A peer that does not answer is news once, and not while its heartbeats are heard: then it
        is only slow.

        again: the same call failed before. Then a refusal is no news.
        """
        is_news = not again
        if isinstance(error, Unreachable):
            is_news = address not in self._failing and not self._at(address).is_heard
            if is_news:
                self._failing.add(address)
        log.log(logging.INFO if is_news else logging.DEBUG, "%s: %s", what, error)

    async def close(self) -> None:
        """Give all connections back. Close them if they are the receiver's own."""
        connected, self._by_address = self._by_address, {}
        for connection in connected.values():
            connection.release()
        if self._are_own:
            await self._connections.close()

    def _at(self, address: str) -> Connection:
        connection = self._by_address.get(address)
        if connection is None:
            connection = self._by_address[address] = self._connections.connect(
                address, partial(self._told, address)
            )
        return connection
