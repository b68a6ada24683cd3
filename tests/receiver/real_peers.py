"""Real stores in this process, and what tests of the receiver with them share."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from quorate.protocol.errors import NotRegistered
from quorate.receiver import Receiver, ReceiverOptions
from quorate.receiver.io.channels import Peers
from quorate.source import Source
from quorate.store.configuration import StoreConfiguration
from quorate.store.node import StoreNode
from quorate.transport.status import read_status, status_request

QUICK = ReceiverOptions(registration_interval=3.0, acknowledge_interval=0.02)


class Stores:
    """Three real stores in this process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._addresses: dict[str, str] = {}
        self.nodes: dict[str, StoreNode] = {}

    async def start(self, name: str, peers: tuple[str, ...] = (), **configuration: Any) -> None:
        node = StoreNode(
            StoreConfiguration(
                name=name,
                data_directory=self._directory / name,
                listen=self._addresses.get(name, "127.0.0.1:0"),
                peers=peers,
                **configuration,
            )
        )
        await node.start()
        self.nodes[name] = node
        self._addresses[name] = node.address

    async def stop(self, name: str) -> None:
        await self.nodes.pop(name).stop()

    async def move(self, name: str) -> None:
        """Stop the store, and start it at another address with its data."""
        await self.stop(name)
        del self._addresses[name]
        await self.start(name)

    async def wipe(self, name: str, *, knows_its_peers: bool = False) -> None:
        """The store comes back without its data. One that knows its peers does so in limbo; another
        takes itself for new."""
        if name in self.nodes:
            await self.stop(name)
        shutil.rmtree(self._directory / name)
        others = tuple(address for other, address in self._addresses.items() if other != name)
        await self.start(name, others if knows_its_peers else ())

    async def positions(self, session_id: int = 0x20) -> dict[str, int]:
        """Of a receiver, at each store that knows it."""
        peers, found = Peers(None, lambda *_: None), {}
        for name in self.nodes:
            store = peers.store(self._addresses[name])
            status = await read_status(store.Status(status_request()))
            for known in status.sources:
                for one in known.receivers:
                    if one.session_id == session_id:
                        found[name] = one.acknowledged_upto
        await peers.close()
        return found

    async def until_positions(self, session_id: int = 0x20, /, **expected: int) -> None:
        """Wait until the stores have these positions of the receiver."""
        async with asyncio.timeout(60):
            while await self.positions(session_id) != expected:  # noqa: ASYNC110, stores tell nobody
                await asyncio.sleep(0.05)

    @property
    def addresses(self) -> str:
        return self.named("".join(self._addresses))

    def named(self, names: str) -> str:
        """The addresses of these stores, each named by a letter."""
        return ",".join(f"{name}={self._addresses[name]}" for name in names)


async def source(stores: Stores, /, **arguments: Any) -> Source:
    arguments.setdefault("stores", stores.addresses)
    return await Source.open("orders", session_id=0x10, **arguments)


async def receiver(stores: Stores, /, **arguments: Any) -> Receiver:
    arguments.setdefault("options", QUICK)
    arguments.setdefault("stores", stores.addresses)
    arguments.setdefault("session_id", 0x20)
    return await Receiver.open("orders", **arguments)


async def take(one: Receiver, count: int) -> list[tuple[int, bytes]]:
    got: list[tuple[int, bytes]] = []
    async with asyncio.timeout(60):
        async for message in one:
            got.append((message.sequence, message.payload))
            if len(got) == count:
                return got
    raise AssertionError(f"ended after {got}")


def numbered(first: int, last: int) -> list[tuple[int, bytes]]:
    return [(n, b"%d" % n) for n in range(first, last + 1)]


async def send(one: Source, first: int, last: int) -> None:
    while first <= last:
        try:
            first = (await one.send_many([b"%d" % n for n in range(first, last + 1)])).stop
        except NotRegistered:
            await asyncio.sleep(0.02)
            first = one.next_sequence
