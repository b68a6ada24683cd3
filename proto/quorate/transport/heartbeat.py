"""Heartbeats over a connection: `Beating` at the client, `Listening` at the server.

A connection has one heartbeat at a time, whatever else it carries. When a silence counts is decided
in quorate.protocol.heartbeat; what follows from it is the callers' own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from quorate.protocol.delays import HOPELESS_SECONDS, RECONNECT, with_longest
from quorate.protocol.errors import InvalidArgument, QuorateError, Unreachable
from quorate.protocol.heartbeat import Hearing, Heartbeat
from quorate.transport.delays import delay
from quorate.transport.failures import abort, errors_of
from quorate.v1 import peer_pb2 as v1

_log = logging.getLogger("quorate.transport")
_SERVICE = "quorate.v1.Peer"
_REMEMBERED_MAX = 4096
"""The most connections of which a server remembers the heartbeat before it listens to them."""

Silenced = Callable[[str], None]
"""Is told that a client is silent, in words."""


class Beating:
    """The heartbeats to one peer, from the end that has made the connection."""

    def __init__(
        self,
        address: str,
        stub: Callable[[], Any],
        heartbeat: Heartbeat,
        tell: Callable[[Unreachable | None], None],
    ) -> None:
        """Begin unheard.

        - stub: returns the stub for the next call.
        - tell: gets the error of a peer that has become silent, and None once it is heard again.
        """
        self._address = address
        self._stub = stub
        self._heartbeat = heartbeat
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._hearing = Hearing(heartbeat, self._loop.time())
        self._is_answered = False

    @property
    def is_heard(self) -> bool:
        """Whether the last heartbeat was answered, and the next one is not overdue."""
        return self._is_answered and not self._hearing.is_silent

    async def run(self) -> None:
        """Send heartbeats until cancelled. A call that breaks off is made again.

        A broken connection needs no report: each call on it fails by itself.
        """
        failures = 0
        while True:
            self._is_answered = False
            delays = RECONNECT
            try:
                with errors_of(self._address):
                    await self._beat()
            except QuorateError as error:
                _log.debug("no heartbeats with %s: %s", self._address, error)
                if not error.retryable:
                    delays = with_longest(RECONNECT, HOPELESS_SECONDS)
            failures = 1 if self._is_answered else failures + 1
            self._is_answered = False
            await asyncio.sleep(delay(delays, failures))

    def heard(self) -> None:
        """Note a sign of life of the peer."""
        if self._hearing.heard(self._loop.time()):
            self._tell(None)

    async def _beat(self) -> None:
        """Send heartbeats one after the other, until one fails. Raise why."""
        heartbeat, loop = self._heartbeat, self._loop
        if not self._hearing.is_silent:
            self._hearing = Hearing(heartbeat, loop.time())
        request = v1.BeatRequest(
            interval_seconds=heartbeat.interval, timeout_seconds=heartbeat.timeout
        )
        while True:
            beat_at = loop.time() + heartbeat.interval
            await self._answered(request)
            self._is_answered = True
            self.heard()
            await self._look_until(beat_at)

    async def _answered(self, request: v1.BeatRequest) -> None:
        """Send a heartbeat and wait for the answer, for as long as it takes. Raise its failure."""
        beat, answered = self._stub().Beat(request), asyncio.Event()
        beat.add_done_callback(lambda _: answered.set())
        try:
            while not answered.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(self._hearing.look_at):
                        await answered.wait()
                self._look()
            await beat
        finally:
            beat.cancel()
            # A connection lasts as long as one of its calls is referred to.
            del beat

    async def _look_until(self, time: float) -> None:
        while self._loop.time() < time:
            await asyncio.sleep(min(time, self._hearing.look_at) - self._loop.time())
            self._look()

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._hearing.look_at and self._hearing.look(now):
            self._tell(Unreachable(self._address, self._heartbeat.silence))


class Listening:
    """The clients of one server, by connection, and who is to hear of their silence."""

    def __init__(self) -> None:
        """Begin without clients."""
        self._clients: dict[str, Client] = {}
        self._heartbeats: dict[str, Heartbeat] = {}
        """The last heartbeat on each connection, the newest last. A connection begins with one, and
        the next may be far off when its client is first listened to."""

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the service Peer for the server."""
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "Beat": grpc.unary_unary_rpc_method_handler(
                    self._beat,
                    request_deserializer=v1.BeatRequest.FromString,
                    response_serializer=v1.BeatResponse.SerializeToString,
                )
            },
        )

    @contextmanager
    def to(self, peer: str, silenced: Silenced | None = None) -> Iterator[Client]:
        """Yield a client, and listen to it as long as the context is entered.

        - peer: names the connection, as gRPC does for each call on it.
        - silenced: is called when the client becomes silent.
        """
        client = self._clients.get(peer)
        if client is None:
            heartbeat = self._heartbeats.get(peer, Heartbeat())
            client = self._clients[peer] = Client(peer, heartbeat)
        key = object()
        client.listeners[key] = silenced
        try:
            yield client
        finally:
            del client.listeners[key]
            if not client.listeners:
                client.leave()
                self._clients.pop(peer, None)

    async def _beat(
        self,
        request: v1.BeatRequest,
        context: grpc.aio.ServicerContext[v1.BeatRequest, v1.BeatResponse],
    ) -> v1.BeatResponse:
        try:
            heartbeat = Heartbeat(
                interval=request.interval_seconds, timeout=request.timeout_seconds
            )
        except InvalidArgument as error:
            await abort(context, error)
        peer = context.peer()
        self._remember(peer, heartbeat)
        if (client := self._clients.get(peer)) is not None:
            client.beats(heartbeat)
        return v1.BeatResponse()

    def _remember(self, peer: str, heartbeat: Heartbeat) -> None:
        self._heartbeats.pop(peer, None)
        self._heartbeats[peer] = heartbeat
        if len(self._heartbeats) > _REMEMBERED_MAX:
            del self._heartbeats[next(iter(self._heartbeats))]


class Client:
    """One connection of a client, as the server hears it."""

    def __init__(self, peer: str, heartbeat: Heartbeat) -> None:
        """Begin as if the client was heard just now. Callers use `Listening.to`."""
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._hearing = Hearing(heartbeat, self._loop.time())
        self._look_soon()
        self.listeners: dict[object, Silenced | None] = {}

    def heard(self) -> None:
        """Note a sign of life."""
        if self._hearing.heard(self._loop.time()):
            _log.info("client %s is heard again", self._peer)

    def beats(self, heartbeat: Heartbeat) -> None:
        """Take a heartbeat."""
        self.heard()
        if heartbeat != self._hearing.heartbeat:
            self._hearing = Hearing(heartbeat, self._loop.time())
            self._look_at.cancel()
            self._look_soon()

    def leave(self) -> None:
        """Listen no longer."""
        self._look_at.cancel()

    def _look_soon(self) -> None:
        self._look_at = self._loop.call_at(self._hearing.look_at, self._look)

    def _look(self) -> None:
        if self._hearing.look(self._loop.time()):
            silence = self._hearing.heartbeat.silence
            _log.info("client %s is taken for hung: %s", self._peer, silence)
            for silenced in list(self.listeners.values()):
                if silenced is not None:
                    silenced(silence)
        self._look_soon()
