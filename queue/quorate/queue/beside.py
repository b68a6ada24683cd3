"""The queues of one store: their dispatchers and their service, to run beside the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor

from quorate.client import Tls, connect
from quorate.client.settings import read_layout
from quorate.protocol.queues import QueueSettings
from quorate.queue.io.dispatcher import Dispatcher
from quorate.queue.io.rivals import Rivals
from quorate.queue.io.service import QueueService
from quorate.transport.connections import Connections
from quorate.v1 import queue_pb2 as v1
from quorate.v1.queue_pb2_grpc import add_QueueServicer_to_server


class Queues:
    """The queues of one store."""

    descriptor: ServiceDescriptor = v1.DESCRIPTOR.services_by_name["Queue"]
    """The service that they have."""

    def __init__(
        self, queues: Sequence[QueueSettings], stores: str, store: str, tls: Tls | None
    ) -> None:
        """Prepare the dispatchers; they begin with `run`.

        - stores: those of the group, as clients name them.
        - store: the name of the store that they run beside.
        - tls: the files with which they connect; None: connections are not secure.

        Raises InvalidArgument, ConfigurationInvalid.
        """
        # A dispatcher waits for its stores for as long as it takes.
        self._client = connect(stores, tls=tls, timeout=None)
        self._connections = Connections(tls=tls)
        others = [each for each in read_layout(stores).stores if each.name != store]
        self._rivals = Rivals(others, self._connections)
        self._dispatchers = {
            each.name: Dispatcher(each, self._client, store, self._rivals) for each in queues
        }
        self.service = QueueService(self._dispatchers, store)
        """The service."""

    def add_to(self, server: grpc.aio.Server, service: Any) -> None:
        """Add the service to a server. service: it, or what guards it."""
        add_QueueServicer_to_server(service, server)

    def queues(self) -> Iterable[v1.QueueStatus]:
        """Return the state of each queue, as this store knows it."""
        return [each.status() for each in self._dispatchers.values()]

    async def run(self) -> None:
        """Run the dispatchers until cancelled."""
        try:
            async with self._client:
                await asyncio.gather(*(each.run() for each in self._dispatchers.values()))
        finally:
            await self._rivals.close()
            await self._connections.close()
