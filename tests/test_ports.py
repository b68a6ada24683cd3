"""A port that a stopped server had is given to nobody who asks for any."""

from __future__ import annotations

import socket
from contextlib import closing

import grpc.aio
import pytest


async def test_a_stopped_server_keeps_its_port_and_may_have_it_again() -> None:
    first = grpc.aio.server()
    port = first.add_insecure_port("127.0.0.1:0")
    await first.start()
    await first.stop(None)
    with closing(socket.socket()) as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    second = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    assert second.add_insecure_port(f"127.0.0.1:{port}") == port
    await second.start()
    await second.stop(None)
