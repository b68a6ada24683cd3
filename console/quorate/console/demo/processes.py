"""The demo's processes, and the files of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from quorate.console.group.children import Child, StoreChild, others
from quorate.console.group.ports import free_addresses
from quorate.protocol.tls import environment_of

SOURCE_SESSION_ID = 0x5EED
_FIRST_RECEIVER_SESSION_ID = 0xCAFE
STORES = ("store-1", "store-2", "store-3")
RECEIVERS = ("receiver-1", "receiver-2")
ALL_TOPICS = ".*"


class SourceChild(Child):
    """The process of the sources, one a topic."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            "source", ("quorate.console.demo.source_process",), directory / "logs" / "source.log"
        )
        self._directory = directory
        self.run = 0

    async def start(
        self, stores: str, input_path: str | None, rate: float | None, share_max: float
    ) -> None:
        """Start its next life. It publishes up to this share of the messages."""
        self.run += 1
        orders = {
            "directory": str(self._directory),
            "session_id": SOURCE_SESSION_ID,
            "stores": stores,
            "input": input_path,
            "rate": rate,
            "share_max": share_max,
        }
        await self.spawn(json.dumps(orders))

    def publish_to(self, share_max: float) -> None:
        """Let it publish up to this share of the messages, if it runs."""
        self.order({"share_max": share_max})


class ReceiverChild(Child):
    """The process of a receiver of all topics."""

    def __init__(self, name: str, session_id: int, directory: Path) -> None:
        super().__init__(
            name,
            ("quorate.console.demo.receiver_process",),
            directory.parent / "logs" / f"{name}.log",
        )
        self.session_id = session_id
        self._directory = directory
        self.run = 0

    async def start(self, stores: str) -> None:
        """Start its next life, with a file of records of its own."""
        self.run += 1
        orders = {
            "name": self.name,
            "run": self.run,
            "directory": str(self._directory),
            "session_id": self.session_id,
            "stores": stores,
            "pattern": ALL_TOPICS,
        }
        await self.spawn(json.dumps(orders))


class Processes:
    """All processes of a run."""

    def __init__(self, directory: Path) -> None:
        for part in ("stores", "receivers", "logs", "publish"):
            (directory / part).mkdir(parents=True)
        os.environ.update(environment_of(None))
        addresses = free_addresses(len(STORES))
        self.stores = {
            name: StoreChild(name, directory / "stores" / name, address, others(addresses, address))
            for name, address in zip(STORES, addresses, strict=True)
        }
        self.receivers = {
            name: ReceiverChild(name, _FIRST_RECEIVER_SESSION_ID + number, directory / "receivers")
            for number, name in enumerate(RECEIVERS)
        }
        self.source = SourceChild(directory)

    def __iter__(self) -> Iterator[Child]:
        """Yield the processes in the order in which they are stopped."""
        yield self.source
        yield from self.receivers.values()
        yield from self.stores.values()

    @property
    def addresses(self) -> str:
        """The stores' addresses, as the SDKs take them."""
        return ",".join(f"{store.name}={store.address}" for store in self.stores.values())
