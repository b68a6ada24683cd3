"""The connections: one channel for each address, shared by all calls of a receiver to it.

What the calls say is not known here.
"""

from __future__ import annotations

from typing import Any

import grpc.aio

from quorate.transport.channels import open_channel
from quorate.v1.source_pb2_grpc import SourceStub
from quorate.v1.store_pb2_grpc import StoreStub

CALL_SECONDS = 3.0
"""The time, in seconds, that a call with one answer may take."""


class Peers:
    """The stores and sources with which a receiver speaks."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}

    def store(self, address: str) -> Any:
        """Return the stub of the store at this address."""
        return StoreStub(self._channel(address))

    def source(self, address: str) -> Any:
        """Return the stub of the source at this address."""
        return SourceStub(self._channel(address))

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = open_channel(address)
        return channel
