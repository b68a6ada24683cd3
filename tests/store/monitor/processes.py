"""Three stores in processes of their own, each with a monitor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from quorate.console.group.children import StoreChild, founded, free_addresses, others

NAMES = "abc"


class Group:
    """The stores, by name, and the addresses of their monitors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        addresses, self.pages = free_addresses(3), dict(zip(NAMES, free_addresses(3), strict=True))
        self.stores = {
            name: StoreChild(
                name, path / name, address, others(addresses, address),
                f"--monitor={self.pages[name]}",
            )
            for name, address in zip(NAMES, addresses, strict=True)
        }  # fmt: skip

    @property
    def named(self) -> str:
        return ",".join(f"{name}={child.address}" for name, child in self.stores.items())


@asynccontextmanager
async def started(path: Path) -> AsyncIterator[Group]:
    """Start a group, and stop it at the end."""
    made = Group(path)
    try:
        await asyncio.gather(*(child.start() for child in made.stores.values()))
        await founded(list(made.stores.values()))
        yield made
    finally:
        await asyncio.gather(*(child.stop() for child in made.stores.values()))
