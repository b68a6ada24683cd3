"""Ports that no other process of the test run is given.

A server that a test stops lets go of its port. Another process of the run may be given the same
port at once, and clients of the stopped server would talk to a stranger. So a socket that never
listens stays bound to the port of each server in this process. Linux gives such a port to nobody
who asks for any port; a server that asks for this very one gets it.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from grpc.aio._server import Server

LOOPBACK = "127.0.0.1"
KEPT_PORTS = 200
"""The ports of the latest servers; older ones belong to tests that are over."""

_kept: deque[socket.socket] = deque()


def keep(port: int = 0) -> int:
    """Return the port, or a free one for 0, after keeping it for this process."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((LOOPBACK, port))
    _kept.append(kept)
    if len(_kept) > KEPT_PORTS:
        _kept.popleft().close()
    return int(kept.getsockname()[1])


def install() -> None:
    """Let each server of gRPC that asks for any port of loopback be given one that is kept."""
    for name in ("add_insecure_port", "add_secure_port"):
        setattr(Server, name, _keeping(getattr(Server, name)))


def _keeping(add: Callable[..., int]) -> Callable[..., int]:
    def add_port(server: Server, address: str, *credentials: Any) -> int:
        if address == f"{LOOPBACK}:0":
            address = f"{LOOPBACK}:{keep()}"
        return add(server, address, *credentials)

    return add_port
