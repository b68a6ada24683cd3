"""Channels and servers as Quorate sets them up, secure or not, and streams of ready-made frames.

Nothing here knows the contents of a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from quorate.protocol.limits import FRAME_BYTES_MAX
from quorate.protocol.tls import Tls
from quorate.transport import forks
from quorate.transport.credentials import (
    KEPT,
    channel_credentials,
    paths_of,
    server_credentials,
)
from quorate.transport.server_limits import SERVER_LIMITS, quieten
from quorate.transport.watched_files import WatchedFiles

UNANSWERED_SECONDS_MAX = 10.0
"""The time, in seconds, in which a store answers a call.

A store whose disk hangs exceeds it, and beats all the same. Heartbeats find the stores that hang as
a whole (quorate.transport.heartbeat).
"""

_REQUEST_BYTES_MAX = FRAME_BYTES_MAX + 4096
_RESPONSE_BYTES_MAX = _REQUEST_BYTES_MAX + 4096
"""More than a request, so that a batch from the largest frame fits into a response."""

_CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", _REQUEST_BYTES_MAX),
    ("grpc.max_receive_message_length", _RESPONSE_BYTES_MAX),
    # Quorate paces reconnecting itself: gRPC's own back-off grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # In spite of its name this is how long one attempt to connect may take.
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # The name of a peer that was moved leads to another address. By default gRPC looks a name up
    # at most once in 30 seconds, and meanwhile tries the address where nobody is any more.
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    # One channel has one connection of its own. quorate.transport.connections says who shares it;
    # gRPC would share between channels by their arguments, unseen.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]

_SERVER_OPTIONS = [
    ("grpc.max_receive_message_length", _REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", _RESPONSE_BYTES_MAX),
    # A second server on a port must fail instead of sharing it.
    ("grpc.so_reuseport", 0),
    *SERVER_LIMITS,
]

OpenChannel = Callable[[str], grpc.aio.Channel]
"""Opens a channel to the host:port of a peer."""

_NOT_CONNECTED = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.TRANSIENT_FAILURE)


def open_channel(address: str, tls: Tls | None = None) -> grpc.aio.Channel:
    """Return a channel to host:port, which connects on first use.

    tls: None: the channel is not secure. Raises UsedBeforeFork, ConfigurationInvalid.
    """
    forks.use()
    if tls is None:
        return grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS)
    return grpc.aio.secure_channel(address, channel_credentials(tls), options=_CHANNEL_OPTIONS)


def open_blocking_channel(address: str, tls: Tls | None = None) -> grpc.Channel:
    """Return a channel to host:port for code without asyncio, which connects on first use.

    tls: None: the channel is not secure. Raises UsedBeforeFork, ConfigurationInvalid.
    """
    forks.use()
    if tls is None:
        return grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
    return grpc.secure_channel(address, channel_credentials(tls), options=_CHANNEL_OPTIONS)


class LastingChannel:
    """A channel to one address that outlives its TLS files: each connection uses the newest."""

    def __init__(self, address: str, tls: Tls | None) -> None:
        """Open the channel. Raises UsedBeforeFork, ConfigurationInvalid."""
        self._newest = WatchedFiles(paths_of(tls), lambda: open_channel(address, tls), KEPT)
        self._channel = self._newest.content
        self._is_secure = tls is not None
        self._earlier: list[grpc.aio.Channel] = []

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel for the next call."""
        if self._is_secure and self._channel.get_state() in _NOT_CONNECTED:
            self._use(self._newest.content)
        return self._channel

    async def close(self) -> None:
        """Close the channel. Calls that are under way are cancelled."""
        for channel in (*self._earlier, self._channel):
            await channel.close()

    def _use(self, newest: grpc.aio.Channel) -> None:
        """Use another channel if the files were replaced: a channel of gRPC keeps those it has."""
        if newest is not self._channel:
            # A call may have begun on it a moment ago. Closing would cancel the call.
            self._earlier.append(self._channel)
            self._channel = newest


def new_server(connections_max: int = 0) -> grpc.aio.Server:
    """Return a server without services and ports. Raises UsedBeforeFork.

    connections_max: beyond it gRPC closes a new connection before its handshakes; 0: no such bound.
    """
    forks.use()
    quieten()
    bound = [("grpc.max_allowed_incoming_connections", connections_max)] if connections_max else []
    return grpc.aio.server(options=[*_SERVER_OPTIONS, *bound])


def listen(
    server: grpc.aio.Server, address: str, tls: Tls | None = None, *, mutual: bool = True
) -> int:
    """Let a server listen on host:port, and return the port.

    - tls: None: connections are not secure.
    - mutual: clients must have a certificate, too.

    Raises RuntimeError if the address cannot be listened on; ConfigurationInvalid.
    """
    if tls is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, server_credentials(tls, mutual=mutual))


def _as_it_is(frame: bytes) -> bytes:
    return frame


def frames_to(
    channel: grpc.aio.Channel, method: str, parse_response: Callable[[bytes], Any]
) -> grpc.aio.StreamStreamCall[bytes, Any]:
    """Call a bidirectional method with frames that are serialized already.

    A source serializes a frame once, and writes its bytes to all its stores and receivers.
    """
    return channel.stream_stream(
        method, request_serializer=_as_it_is, response_deserializer=parse_response
    )()


def frame_stream_handler(
    behaviour: Callable[[Any, grpc.aio.ServicerContext[Any, bytes]], Any],
    parse_request: Callable[[bytes], Any],
) -> grpc.RpcMethodHandler[Any, bytes]:
    """Return the handler of a server-streaming method whose responses are serialized already."""
    return grpc.unary_stream_rpc_method_handler(
        behaviour, request_deserializer=parse_request, response_serializer=_as_it_is
    )
