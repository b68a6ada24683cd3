"""A stranger at the port of a store: it speaks HTTP/2, and may break every rule of gRPC."""

from __future__ import annotations

import socket
import struct
import time
import zlib
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    Event,
    ResponseReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
)

_MIB = 1024 * 1024
SECONDS = 10.0
"""Seconds for which a stranger waits at most."""


class Stranger:
    """One connection of a stranger. Its calls block: use it on a thread."""

    def __init__(self, address: str) -> None:
        """Connect to host:port."""
        host, _, port = address.rpartition(":")
        self._address = address
        self._socket = socket.create_connection((host, int(port)), timeout=SECONDS)
        self.http = H2Connection(H2Configuration(client_side=True))
        self.http.initiate_connection()
        self.flush()
        while not any(isinstance(each, SettingsAcknowledged) for each in self._received()):
            pass
        self.flush()

    def _received(self) -> list[Event]:
        return self.http.receive_data(self._socket.recv(_MIB))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def flush(self) -> None:
        """Send what was said."""
        self._socket.sendall(self.http.data_to_send())

    def call(self, stream: int, method: str, more: Iterable[tuple[str, str]] = ()) -> None:
        """Begin a call of a store."""
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", f"/quorate.v1.Store/{method}"),
            (":authority", self._address),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *more,
        ]
        self.http.send_headers(stream, headers)
        self.flush()

    def send(self, stream: int, message: bytes, *, compressed: bool = False) -> None:
        """Send a message, and nothing after it."""
        data = struct.pack(">?I", compressed, len(message)) + message
        while data:
            room = min(
                self.http.local_flow_control_window(stream), self.http.max_outbound_frame_size
            )
            if not room:
                self._received()
                continue
            part, data = data[:room], data[room:]
            self.http.send_data(stream, part, end_stream=not data)
            self.flush()

    def events(self) -> list[Event]:
        """Return what comes, up to the end of a call or of the connection."""
        found: list[Event] = []
        end = time.monotonic() + SECONDS
        ends = (StreamEnded, StreamReset, ConnectionTerminated)
        while time.monotonic() < end and not any(isinstance(each, ends) for each in found):
            try:
                data = self._socket.recv(_MIB)
            except OSError:
                break
            if not data:
                break
            found += self.http.receive_data(data)
        return found

    def status(self) -> str:
        """Return gRPC's status of the call that ends next, with its text."""
        headers = [
            (name.decode(), value.decode())
            for each in self.events()
            if isinstance(each, ResponseReceived)
            for name, value in each.headers or ()
        ]
        said = dict(headers)
        return f"{said.get('grpc-status')} {said.get('grpc-message', '')}"


def silent_seconds(address: str, greeting: bytes) -> float:
    """Connect, say no more than this, and return the seconds until the other end hangs up."""
    host, _, port = address.rpartition(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        connection.sendall(greeting)
        while connection.recv(_MIB):
            pass
    return time.monotonic() - began


def bomb(megabytes: int) -> bytes:
    """Return so many MiB of a text field, compressed by gzip to a thousandth."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    field = packing.compress(b"\x12" + _varint(megabytes * _MIB))
    return (
        field + b"".join(packing.compress(bytes(_MIB)) for _ in range(megabytes)) + packing.flush()
    )


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes((number & 127 | 128,))
        number >>= 7
    return found + bytes((number,))
