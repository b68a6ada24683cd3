"""Three real stores of one group, each started, stopped, wiped and copied on its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.store.support import Client, configuration, free_addresses, vouches

from quorate.store.node import StoreNode
from quorate.store.rules.store_identity import is_one_run
from quorate.store.tasks.peer_polling import Peers

NAMES = ("a", "b", "c")


class Group:
    """The stores, by name."""

    def __init__(self, directory: Path, names: Sequence[str] = NAMES) -> None:
        self.directory = directory
        self.addresses = dict(zip(names, free_addresses(len(names)), strict=True))
        self.overrides: dict[str, dict[str, Any]] = {}
        """What differs in the configuration of a store from now on."""
        self.nodes: dict[str, StoreNode] = {}

    def node(self, name: str, directory: Path, listen: str) -> StoreNode:
        """A store of that name, not started."""
        peers = tuple(address for other, address in self.addresses.items() if other != name)
        values = {"listen": listen, "peers": peers} | self.overrides.get(name, {})
        return StoreNode(configuration(directory, name, **values))

    async def start(self, *names: str) -> None:
        for name in names:
            node = self.node(name, self.directory / name, self.addresses[name])
            await node.start()
            self.nodes[name] = node

    async def found(self) -> None:
        """Start all, which are blank, and return when they have founded a group."""
        await self.start(*self.addresses)
        await self.vouching(*self.addresses)

    async def stop(self, *names: str) -> None:
        for name in names:
            await self.nodes.pop(name).stop()

    async def wipe(self, *names: str) -> None:
        """Stop these, and remove what they have."""
        await self.stop(*names)
        for name in names:
            shutil.rmtree(self.directory / name)

    async def copy(self, name: str) -> Path:
        """A copy of a store's directory, as kill -9 would leave it if the store runs."""
        node = self.nodes.get(name)
        if node is not None and (engine := node._engine) is not None:
            # So that no file of the copy knows of a commit that another one lacks.
            await engine.writer.durable(engine.writer.submit(()))
        copy = self.directory / f"copy of {name}"
        shutil.copytree(self.directory / name, copy)
        return copy

    async def copied(self, name: str) -> Path:
        """A copy of a store's directory, made while it is stopped; it runs again."""
        await self.stop(name)
        copy = await self.copy(name)
        await self.start(name)
        return copy

    async def put_back(self, name: str, copy: Path) -> None:
        """Stop a store, and have it find that copy when it starts."""
        await self.stop(name)
        await asyncio.to_thread(shutil.rmtree, self.directory / name)
        await asyncio.to_thread(copy.rename, self.directory / name)

    def client(self, name: str) -> Client:
        return Client(self.addresses[name])

    def peers(self, name: str) -> Peers:
        peers = self.nodes[name].peers
        assert peers is not None
        return peers

    async def rounds(self, name: str, count: int) -> None:
        """Have a store ask its peers so many times, at once."""
        await rounds(self.nodes[name], count)

    async def greeted(self, name: str, by: str) -> None:
        """Return when one store has heard of another all that there is to say."""
        mine = self.nodes[by]._greeting()
        engine = self.nodes[name]._engine
        assert engine is not None
        async with asyncio.timeout(60):
            while (known := engine.core.standing.peers.get(by)) is None or (
                not is_one_run(known, mine) or known.commits < mine.commits
            ):
                await self.rounds(by, 1)

    async def vouching(self, *names: str) -> None:
        """Return when these vouch for what they lack."""
        for name in names:
            await vouches(self.nodes[name])


async def rounds(node: StoreNode, count: int) -> None:
    """Have a store ask its peers so many times, at once."""
    assert node.peers is not None
    async with asyncio.timeout(60):
        for _ in range(count):
            node.peers.hurry()
            await node.peers.next_round()
