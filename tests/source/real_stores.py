"""Real stores in this process, by name: stopped, started again, and asked what they have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from quorate.protocol.answers import Piece, joined
from quorate.protocol.attributes import Attributes
from quorate.protocol.errors import QuorateError
from quorate.protocol.framing import read_contents
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.ranges import Range
from quorate.source import Event, Layout, Source, SourceOptions
from quorate.store.configuration import StoreConfiguration
from quorate.store.node import StoreNode
from quorate.transport.channels import open_channel
from quorate.transport.fetch import fetch
from quorate.v1 import messages_pb2 as m
from quorate.v1.store_pb2_grpc import StoreStub

SESSION = 0x10
ORDERS = SourceName("orders", SESSION)
HURRIED = SourceOptions(registration_interval=0.3, retention_bytes_max=0, backup_after=0.5)
"""Keeps nothing that is stable, so that stores have to get it from each other."""


def numbered(first: int, last: int) -> dict[int, bytes]:
    return {number: b"%d" % number for number in range(first, last + 1)}


async def answers(call: AsyncIterable[m.FetchResponse]) -> AsyncIterator[m.FetchAnswer]:
    """Of a fetch, one by one."""
    async for response in call:
        for answer in response.answers:
            yield answer


class RealStores:
    """Stores by name; each keeps its address and its data over restarts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._nodes: dict[str, StoreNode] = {}
        self._listen: dict[str, str] = {}
        self.state_only: set[str] = set()
        """Those that take no messages, from their next start on."""
        self.settings: dict[str, dict[str, Any]] = {}
        """What differs in the configuration of a store, from its next start on."""

    async def start(self, names: Iterable[str]) -> None:
        """Start these, new or again."""
        for name in names:
            node = StoreNode(
                StoreConfiguration(
                    name=name,
                    data_directory=self._path / name,
                    listen=self._listen.get(name, "127.0.0.1:0"),
                    durability="state-only" if name in self.state_only else "fsync",
                    **({"peers": ()} | self.settings.get(name, {})),
                )
            )
            await node.start()
            self._nodes[name] = node
            self._listen[name] = node.address

    async def stop(self, names: Iterable[str]) -> None:
        await asyncio.gather(*(self._nodes.pop(name).stop() for name in names))

    async def stop_all(self) -> None:
        await self.stop(list(self._nodes))

    def node(self, name: str) -> StoreNode:
        """A store that runs."""
        return self._nodes[name]

    def address(self, name: str) -> str:
        return self._listen[name]

    def named(self, names: Iterable[str]) -> str:
        """As Source.open takes them."""
        return ",".join(f"{name}={self._listen[name]}" for name in names)

    def addresses(self, names: Iterable[str]) -> list[StoreAddress]:
        return [StoreAddress(name, self._listen[name]) for name in names]

    async def open(self, names: str | Layout, **changes: Any) -> Source:
        """A source of `orders` on stores by their names, or on a layout."""
        stores = self.named(names) if isinstance(names, str) else names
        settings: dict[str, Any] = {"session_id": SESSION, "options": HURRIED, "timeout": 60.0}
        return await Source.open("orders", stores=stores, **(settings | changes))

    async def held(self, name: str, of: SourceName = ORDERS) -> dict[int, bytes]:
        """The payloads that this store serves of the stream."""
        contents = await self.contents(name, of)
        return {number: payload for number, (payload, _) in contents.items()}

    async def contents(
        self, name: str, of: SourceName = ORDERS
    ) -> dict[int, tuple[bytes, Attributes]]:
        """What this store serves of the stream: payloads and attributes."""
        messages: dict[int, tuple[bytes, Attributes]] = {}
        address = self._listen[name]
        async with open_channel(address) as channel:
            call = fetch(StoreStub(channel), address, of, Range(0, 2**62), 30.0)
            try:
                while not call.is_over:
                    for answer in map(joined, await call.answers()):
                        if isinstance(answer, Piece):
                            first, last = answer.first, answer.last
                            part = read_contents(answer.frame, answer.header, first, last)
                            messages |= dict(enumerate(part, first))
            except QuorateError:
                pass
        return messages

    async def until_held(self, names: Iterable[str], messages: dict[int, bytes]) -> None:
        """Until each of these stores has exactly this."""
        async with asyncio.timeout(60):
            for name in names:
                while (await self.held(name)) != messages:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.05)


class Crash:
    """Ends a source without a word when an event comes that is waited for."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self._news = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        self._news.set()

    async def until(self, kind: type[Event], nth: int) -> None:
        """Until so many events of the kind have come."""
        while sum(isinstance(event, kind) for event in self.seen) < nth:
            self._news.clear()
            await self._news.wait()


async def crash(source: Source) -> None:
    """What a killed process leaves: connections that break, and nothing said."""
    engine = source._engine
    engine.stop_ticking()
    tasks = [*engine._running.values(), engine._loader]
    for task in tasks:
        if task is not None:
            task.cancel()
    await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
    await engine.live_server.remove(engine.live)
