"""Stores in processes of their own, each with a monitor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from quorate.console.group.children import StoreChild, founded, others
from quorate.console.group.ports import free_addresses

NAMES = "abc"


class Group:
    """The stores, by name, and the addresses of their monitors."""

    def __init__(self, path: Path, names: str, *options: str) -> None:
        """names: one letter for each store. options: further ones of `quorate store run`."""
        self.path, count = path, len(names)
        addresses = free_addresses(count)
        self.pages = dict(zip(names, free_addresses(count), strict=True))
        self.stores = {
            name: StoreChild(
                name, path / name, address, others(addresses, address),
                f"--monitor={self.pages[name]}", *options,
            )
            for name, address in zip(names, addresses, strict=True)
        }  # fmt: skip

    @property
    def named(self) -> str:
        return ",".join(f"{name}={child.address}" for name, child in self.stores.items())

    def running(self) -> dict[str, str]:
        """Return the addresses of the monitors of the stores that run, by name."""
        return {name: page for name, page in self.pages.items() if self.stores[name].running}


@asynccontextmanager
async def started(path: Path, *options: str, names: str = NAMES) -> AsyncIterator[Group]:
    """Start a group, and stop it at the end. options: further ones of `quorate store run`."""
    made = Group(path, names, *options)
    try:
        await asyncio.gather(*(child.start() for child in made.stores.values()))
        await founded(list(made.stores.values()))
        yield made
    finally:
        await asyncio.gather(*(child.stop() for child in made.stores.values()))
