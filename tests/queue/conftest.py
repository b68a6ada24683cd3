"""Three real stores in this process, with the dispatchers of a queue beside each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.client import Client, connect
from quorate.console.group.children import others
from quorate.console.group.ports import free_addresses
from quorate.queue.beside import Queues
from quorate.store.configuration import MonitorConfiguration, QueueConfiguration, StoreConfiguration
from quorate.store.node import StoreNode

CHANGES_OF_DISPATCHER = (
    "does not take|in limbo|lost its quorum|is fenced|waits for another instance"
)
"""The complaints of a dispatcher when a store starts, stops, or is slow to answer."""

QUEUE = {"name": "work", "topics": ["orders"], "dead_letters": "orders.dead"}


class QueueStores:
    """The stores."""

    def __init__(self, directory: Path, queue: dict[str, Any], *, monitor: bool = False) -> None:
        self._directory = directory
        self._monitor = MonitorConfiguration(listen="127.0.0.1:0") if monitor else None
        self._queue = {**QUEUE, **queue}
        self.addresses = dict(zip("abc", free_addresses(3), strict=True))
        self.named = ",".join(f"{name}={address}" for name, address in self.addresses.items())
        self.nodes: dict[str, StoreNode] = {}
        self.queues: dict[str, Queues] = {}

    async def start(self, name: str, *, has_queue: bool = True) -> None:
        address = self.addresses[name]
        configuration = StoreConfiguration(
            name=name,
            data_directory=self._directory / name,
            listen=address,
            peers=tuple(others(list(self.addresses.values()), address)),
            stores=self.named,
            monitor=self._monitor,
            queue=(QueueConfiguration(**self._queue),) if has_queue else (),
        )
        queues = Queues([each.settings for each in configuration.queue], self.named, name, None)
        node = self.nodes[name] = StoreNode(configuration, queues if has_queue else None)
        await node.start()
        if has_queue:
            self.queues[name] = queues

    async def stop(self, name: str) -> None:
        await self.nodes.pop(name).stop()
        self.queues.pop(name, None)

    @property
    def dispatching(self) -> list[str]:
        """The stores that dispatch now."""
        return [
            name
            for name, queues in self.queues.items()
            if all(each.status().dispatches for each in queues.service._dispatchers.values())
        ]

    async def stop_dispatching(self) -> str:
        """Stop the store that dispatches, and return its name."""
        [name] = self.dispatching
        await self.stop(name)
        return name

    def connect(self) -> Client:
        return connect(self.named)


Start = Callable[..., Awaitable[QueueStores]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start the stores, with settings of the queue. without: those that dispatch no queue."""
    made: list[QueueStores] = []

    async def started(*, monitor: bool = False, without: str = "", **queue: Any) -> QueueStores:
        stores = QueueStores(tmp_path, queue, monitor=monitor)
        made.append(stores)
        for name in stores.addresses:
            await stores.start(name, has_queue=name not in without)
        return stores

    yield started
    for stores in made:
        for name in list(stores.nodes):
            await stores.stop(name)
