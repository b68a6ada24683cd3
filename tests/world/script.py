"""A scripted world: stores and sources that run the code that ships, and no weather.

For what chance finds too seldom. A script waits for states, not for times, since delays differ by
seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.world.world import World

from quorate.client import connect
from quorate.errors import QuorateError
from quorate.source.receipts import Receipt
from quorate.source.source import Source

PAUSE_SECONDS = 0.05
"""The time between two messages of a source that sends on."""


@dataclass
class Instance:
    """An instance of the source, in a process of its own."""

    name: str = ""
    """The name of its process."""
    receipts: list[Receipt] = field(default_factory=list)
    error: QuorateError | None = None
    """Why it ended; None: it lives."""


class Script:
    """A calm world, in which nothing happens but what a test says."""

    def __init__(self, seed: int, directory: Path, stores: Sequence[str] = "abc") -> None:
        """Prepare stores with these names."""
        self.world = World(seed, directory)
        ports = {name: 100 + number for number, name in enumerate(stores, 1)}
        self.stores = ",".join(f"{name}=127.0.0.1:{port}" for name, port in ports.items())
        self.names = tuple(stores)
        self.instances: list[Instance] = []

    def __enter__(self) -> Self:
        self.world.__enter__()
        for name in self.names:
            self.world.start_store(name, self.stores)
        return self

    def __exit__(self, *raised: object) -> None:
        self.world.__exit__(*raised)

    def run(self, seconds: float) -> None:
        """Let some time pass."""
        self.world.run_for(seconds)

    def start_source(self) -> Instance:
        """Start another instance, which takes over."""
        instance = Instance()

        async def run() -> None:
            try:
                async with (
                    connect(self.stores) as client,
                    client.source("orders", session_id=1, take_over=True) as source,
                ):
                    await _send_on(instance, source)
            except QuorateError as error:
                instance.error = error

        self.instances.append(instance)
        instance.name = f"source {len(self.instances)}"
        self.world.start(instance.name, run)
        return instance

    def until(self, reached: Callable[[], object], seconds: float = 60.0) -> None:
        """Let time pass until something is so. Raises Stuck if it does not come."""
        self.world.run_until(lambda: bool(reached()), seconds)

    def cut(self, one: str, *others: str) -> Callable[[], None]:
        """Let nothing pass between these, either way, until the answer is called."""
        ways = [way for other in others for way in ((one, other), (other, one))]
        for way in ways:
            self.world.network.part(*way)
        return lambda: self.world.network.mend(ways)


async def _send_on(instance: Instance, source: Source) -> None:
    """Send one message after another."""
    while True:
        sent = b"%s, %d" % (instance.name.encode(), len(instance.receipts))
        instance.receipts.append(await source.publish(sent, wait_quorum=True))
        await asyncio.sleep(PAUSE_SECONDS)
