"""Channels and servers as Quorate sets them up, and the streams that carry ready-made frames.

Nothing here knows the contents of a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from quorate.protocol.limits import FRAME_BYTES_MAX
from quorate.transport import forks

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
]


def open_channel(address: str) -> grpc.aio.Channel:
    """Return a channel to host:port, which connects on first use. Raises UsedBeforeFork."""
    forks.use()
    return grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS)


def open_blocking_channel(address: str) -> grpc.Channel:
    """Return a channel to host:port for code without asyncio, which connects on first use.

    Raises UsedBeforeFork.
    """
    forks.use()
    return grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)


def new_server() -> grpc.aio.Server:
    """Return a server without services and ports. Raises UsedBeforeFork."""
    forks.use()
    return grpc.aio.server(options=_SERVER_OPTIONS)


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
