"""A service that runs beside a store, on the store's server and by the store's rules of access.

The metrics show its queues. Nothing else of it is known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor

from quorate.v1.queue_pb2 import QueueStatus


class Beside(Protocol):
    """A service beside a store."""

    descriptor: ServiceDescriptor
    """The service, as its contract describes it."""
    service: Any
    """Serves its calls."""

    def add_to(self, server: grpc.aio.Server, service: Any) -> None:
        """Add the service to a server. service: it, or what guards it."""
        ...

    def queues(self) -> Iterable[QueueStatus]:
        """Return the state of each of its queues, for the metrics."""
        ...

    async def run(self) -> None:
        """Do what it does beside its calls, until cancelled."""
        ...
