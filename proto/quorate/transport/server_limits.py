"""The bounds that gRPC sets for strangers at every server of Quorate, each with its reason.

Each call bounds its own requests elsewhere. gRPC bounds pings, and what a compressed message
inflates to, by itself.
"""

from __future__ import annotations

import logging
import time

HANDSHAKE_SECONDS = 10
"""Seconds within which a new connection must have made its handshakes: those of TLS and HTTP/2.
They end when the client acknowledges the settings. Before that gRPC takes longer headers."""
IDLE_SECONDS = 300
"""Seconds after which a connection without calls is closed. Clients connect again when they need
to, and those of Quorate beat all the time."""
KEEPALIVE_SECONDS = 60
"""Seconds without traffic after which a connection is asked for a sign of life. A host that lost
its power would else keep its connections for hours."""
KEEPALIVE_ANSWER_SECONDS = 20
STREAMS_MAX = 32_768
"""Calls under way on one connection. All sources and receivers of a client share one connection."""
METADATA_BYTES_MAX = 16 * 1024
"""Bytes of the headers of one call. The longest one that Quorate sends is a bearer token."""
UNDECODED_LOG_SECONDS = 60.0
"""Seconds between two log lines about requests that cannot be decoded."""

SERVER_LIMITS = [
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1000),
    ("grpc.http2.settings_timeout", HANDSHAKE_SECONDS * 1000),
    ("grpc.max_connection_idle_ms", IDLE_SECONDS * 1000),
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_ANSWER_SECONDS * 1000),
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
]
"""The options of a server."""

_GRPC_LOG = "grpc._cython.cygrpc"


class _Undecoded(logging.Filter):
    """Keep gRPC from writing a traceback for each request that cannot be decoded."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if "[DecodeError]" not in record.getMessage():
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + UNDECODED_LOG_SECONDS
        record.exc_info, record.exc_text = None, None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def quieten() -> None:
    """Let strangers fill no log with what cannot be decoded. The calls fail all the same."""
    log = logging.getLogger(_GRPC_LOG)
    if not any(isinstance(each, _Undecoded) for each in log.filters):
        log.addFilter(_Undecoded())
