"""Connections: one channel for each address, shared by all that a receiver has to say there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc.aio

from quorate.protocol.errors import Unreachable
from quorate.transport.channels import open_channel
from quorate.transport.failures import error_from_call
from quorate.v1.source_pb2_grpc import SourceStub
from quorate.v1.store_pb2_grpc import StoreStub

CALL_SECONDS = 3.0
"""How long a call with one answer may take."""


class Peers:
    """The stores and sources that a receiver speaks with."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}

    def store(self, address: str) -> Any:
        """The store's stub."""
        return StoreStub(self._channel(address))

    def source(self, address: str) -> Any:
        """The source's stub."""
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


@contextmanager
def errors_of(address: str) -> Iterator[None]:
    """Raise what a failed call to this address means as one of Quorate's errors."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise error_from_call(address, error) from None
    except TimeoutError:
        raise Unreachable(address, "it did not answer in time") from None
