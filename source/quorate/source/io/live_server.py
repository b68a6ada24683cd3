"""The servers on which the sources of one client serve their receivers: one for each address.

A server hands each call to the live stream of the source that the call names. It does not know what
is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from quorate.protocol.access import Verb
from quorate.protocol.errors import (
    AccessDenied,
    ConfigurationInvalid,
    InvalidArgument,
    QuorateError,
    UnknownTopic,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.tls import Tls
from quorate.protocol.wire import source_from_wire
from quorate.source.io.live_stream import Context, LiveStream
from quorate.transport.channels import frame_stream_handler, listen, new_server
from quorate.transport.failures import abort, check_version
from quorate.transport.heartbeat import Listening
from quorate.transport.identities import names_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1.source_pb2 import AttachRequest, ConfirmRequest, ConfirmResponse

_SERVICE = "quorate.v1.Source"
_LAST_STATUS_SECONDS = 0.5


class LiveServers:
    """The servers of one client, by the address that its sources ask to listen on."""

    def __init__(self, tls: Tls | None = None) -> None:
        """Begin without servers. tls: None: their connections are not secure."""
        self._tls = tls
        self._by_address: dict[str, LiveServer] = {}

    def at(self, address: str) -> LiveServer:
        """Return the server at this host:port. All sources that ask for port 0 share one port."""
        return self._by_address.setdefault(address, LiveServer(address, self._tls))


class LiveServer:
    """The gRPC service of the sources at one address. It listens while there are any."""

    def __init__(self, listen: str, tls: Tls | None) -> None:
        """Begin without sources. tls: None: connections are not secure."""
        self._listen = listen
        self._tls = tls
        self._server: grpc.aio.Server | None = None
        self._port = 0
        self._turn = asyncio.Lock()
        """Held while the server starts or stops."""
        self._listening = Listening()
        self._streams: dict[SourceName, list[LiveStream]] = {}
        """The live streams of each identity. An instance that was fenced may still be open."""

    async def add(self, stream: LiveStream, advertise: str | None) -> str:
        """Serve a source. Return the address for its receivers.

        advertise: the host or host:port that receivers are told; None: that of the server. Raises
        InvalidArgument if the address cannot be listened on, ConfigurationInvalid.
        """
        async with self._turn:
            if self._server is None:
                self._server = await self._start()
        self._streams.setdefault(stream.name, []).append(stream)
        address = advertise or self._host
        host, colon, given = address.rpartition(":")
        if colon and given.isdigit():
            return f"{host}:{int(given) or self._port}"
        return f"{address}:{self._port}"

    async def remove(self, stream: LiveStream, goodbye: bytes | None = None) -> None:
        """End the streams of a source; those of the other sources go on.

        goodbye: the last frame of each.
        """
        of_identity = self._streams.get(stream.name, [])
        if stream in of_identity:
            of_identity.remove(stream)
        if not of_identity:
            self._streams.pop(stream.name, None)
        await stream.end(goodbye)
        async with self._turn:
            server = self._server
            if server is not None and not self._streams:
                self._server = None
                await server.stop(_LAST_STATUS_SECONDS)

    @property
    def _host(self) -> str:
        return self._listen.rpartition(":")[0]

    async def _start(self) -> grpc.aio.Server:
        server = new_server()
        server.add_generic_rpc_handlers((self._listening.handler(), self._handler()))
        try:
            self._port = listen(server, self._listen, self._tls)
        except ConfigurationInvalid:
            await server.stop(None)
            raise
        except RuntimeError as error:
            await server.stop(None)
            detail = f"{self._listen} cannot be listened on: {error}"
            raise InvalidArgument("listen", detail) from error
        await server.start()
        return server

    def _handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "Attach": frame_stream_handler(self._attach, AttachRequest.FromString),
                "Fetch": grpc.unary_stream_rpc_method_handler(
                    self._fetch,
                    request_deserializer=v1.FetchRequest.FromString,
                    response_serializer=v1.FetchResponse.SerializeToString,
                ),
                "Confirm": grpc.unary_unary_rpc_method_handler(
                    self._confirm,
                    request_deserializer=ConfirmRequest.FromString,
                    response_serializer=ConfirmResponse.SerializeToString,
                ),
            },
        )

    # -- the service ------------------------------------------------------------------------

    async def _attach(self, request: AttachRequest, context: Context) -> None:
        try:
            stream = self._stream(request, context)
        except QuorateError as error:
            await abort(context, error)
        await stream.attach(request, context, self._listening)

    async def _fetch(
        self,
        request: v1.FetchRequest,
        context: grpc.aio.ServicerContext[v1.FetchRequest, v1.FetchResponse],
    ) -> AsyncIterator[v1.FetchResponse]:
        try:
            responses = self._stream(request, context).fetch(request)
        except QuorateError as error:
            await abort(context, error)
        for response in responses:
            yield response

    async def _confirm(
        self,
        request: ConfirmRequest,
        context: grpc.aio.ServicerContext[ConfirmRequest, ConfirmResponse],
    ) -> ConfirmResponse:
        try:
            self._stream(request, context).confirm(request)
        except QuorateError as error:
            await abort(context, error)
        return ConfirmResponse()

    def _stream(self, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> LiveStream:
        """Return the live stream of the source that a request names: of its newest instance.

        An instance that still registers counts only if there is no other. Raises UnknownTopic, or
        AccessDenied if the source does not serve the receiver.
        """
        self._check_receiver(request.source.topic, context)
        check_version(f"{self._host}:{self._port}", request.protocol_version)
        name = source_from_wire(request.source)
        streams = self._streams.get(name)
        if not streams:
            raise UnknownTopic(name.topic, ", ".join(sorted({one.topic for one in self._streams})))
        return next((stream for stream in reversed(streams) if stream.started), streams[-1])

    def _check_receiver(self, topic: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Raise AccessDenied unless the source serves the receiver that calls."""
        served = frozenset() if self._tls is None else self._tls.may_receive
        if served and served.isdisjoint(names := names_of(context, None)):
            raise AccessDenied(", ".join(sorted(names)), Verb.RECEIVE.value, topic)
