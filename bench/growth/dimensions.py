"""The dimensions: each makes a group larger step by step, and says how to publish to it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.growth.cost import Publish
from bench.recovery import named
from quorate.client import Client, Receiver, Subscriber, connect
from quorate.client.replay import Bookmark
from quorate.console.group.children import StoreChild
from quorate.source import Outgoing, Source
from quorate.subscriber import NOW

PAYLOAD = bytes(100)
FILLING = bytes(10_000)
"""A message that makes the journal larger."""
CHUNK = 100
SLICE = 200
"""The sources that are opened at the same time."""
GB = 10**9
KEYED = "keyed"
TOPICS = f'[[topic]]\npattern = "{KEYED}"\nkeys = "$key"\n'
_STRIDE = 7919
DISK_SHARE_MAX = 0.25
"""The most of the free disk that the journals of all stores may take."""


@dataclass
class Group:
    """Three stores that run, and the clients of this process."""

    directory: Path
    stores: list[StoreChild]
    stack: AsyncExitStack

    async def client(self) -> Client:
        """Return a further client, which is closed with the group."""
        return await self.stack.enter_async_context(connect(named(self.stores), timeout=None))

    async def source(self, client: Client, topic: str) -> Source:
        """Return a source, which is closed with the group."""
        opened = await client.source(topic, session_id=1)
        self.stack.push_async_callback(opened.close)
        return opened

    def read(self, reader: Receiver | Subscriber) -> None:
        """Take all that comes, until the group is closed."""
        self.stack.push_async_callback(reader.close)
        self.stack.callback(asyncio.create_task(_take_all(reader)).cancel)


Steps = AsyncIterator[tuple[float, Publish]]


async def sources(group: Group, sizes: Sequence[float]) -> Steps:
    """Open sources of one client, each of a topic of its own, and publish with each in turn."""
    client, opened = await group.client(), list[Source]()

    for size in sizes:
        while len(opened) < size:
            numbers = range(len(opened), min(len(opened) + SLICE, int(size)))
            opened += await asyncio.gather(*(group.source(client, f"growth.{n}") for n in numbers))
        yield size, partial(_publish_in_turn, opened)


def receivers(group: Group, sizes: Sequence[float]) -> Steps:
    """Open receivers of one topic, each of a client of its own, and publish with one source."""

    async def read(client: Client) -> Receiver:
        return await client.receiver("growth", start="latest", delivery="live")

    return _readers(group, sizes, read)


def subscriptions(group: Group, sizes: Sequence[float]) -> Steps:
    """Open subscribers of one topic, each of a client of its own, and publish with one source."""

    async def read(client: Client) -> Subscriber:
        return await client.subscriber("growth", begin=NOW)

    return _readers(group, sizes, read)


async def _readers(
    group: Group, sizes: Sequence[float], read: Callable[[Client], Awaitable[Receiver | Subscriber]]
) -> Steps:
    source, opened = await group.source(await group.client(), "growth"), 0

    for size in sizes:
        while opened < size:
            group.read(await read(await group.client()))
            opened += 1
        yield size, partial(_publish, source)


async def keys(group: Group, sizes: Sequence[float]) -> Steps:
    """Publish messages without a key, and then over so many keys, each of which has a row."""
    client, filled = await group.client(), 0
    plain, keyed = await group.source(client, "plain"), await group.source(client, KEYED)

    for size in sizes:
        while filled < size:
            count = min(CHUNK, int(size) - filled)
            await keyed.send_many([Outgoing(PAYLOAD, _key(filled + at)) for at in range(count)])
            filled += count
        await keyed.flush()
        if filled:
            last = Bookmark(keyed.name, keyed.epoch, keyed.stable_upto)
            await client.state(KEYED).get(_key(filled - 1), at_least=last)
        yield size, partial(_publish_keyed, keyed, filled) if filled else partial(_publish, plain)


async def journal(group: Group, sizes: Sequence[float]) -> Steps:
    """Fill the journal up to so many GB in each store, and publish with another source."""
    client, filled = await group.client(), 0
    filling, source = await group.source(client, "filling"), await group.source(client, "growth")
    free = shutil.disk_usage(group.directory).free

    for size in sizes:
        if size * GB * len(group.stores) > DISK_SHARE_MAX * free:
            return
        while filled < size * GB:
            await filling.send_many([FILLING] * CHUNK)
            filled += CHUNK * len(FILLING)
        await filling.flush()
        yield size, partial(_publish, source)


def _key(number: int) -> bytes:
    return b"k%d" % number


async def _publish(source: Source, _: int) -> None:
    await source.publish(PAYLOAD)


async def _publish_in_turn(sources: Sequence[Source], number: int) -> None:
    await sources[number % len(sources)].publish(PAYLOAD)


async def _publish_keyed(source: Source, keys: int, number: int) -> None:
    """Publish with one of so many keys. Keys that follow each other are far apart."""
    await source.publish(PAYLOAD, _key(number * _STRIDE % keys))


async def _take_all(reader: Receiver | Subscriber) -> None:
    async for _ in reader:
        pass


@dataclass(frozen=True)
class Dimension:
    """A way in which a group grows, and the sizes to measure."""

    name: str
    title: str
    steps: Callable[[Group, Sequence[float]], Steps]
    rate: float
    """Messages a second."""
    sizes: Sequence[float]
    quick: Sequence[float]
    """The sizes of a quick run."""


DIMENSIONS = (
    Dimension(
        "journal", "GB of journal in each store", journal, 500.0, (0, 0.1, 1, 4), (0, 0.02, 0.1)
    ),
    Dimension(
        "sources", "sources of one client", sources, 500.0, (1, 10, 100, 1000, 10_000), (1, 10, 100)
    ),
    Dimension(
        "receivers", "receivers, a client each", receivers, 100.0, (1, 3, 10, 30, 100), (1, 3, 10)
    ),
    Dimension(
        "keys", "keys with a row", keys, 500.0, (0, 1, 1000, 100_000, 1_000_000), (0, 1, 1000)
    ),
    Dimension(
        "subscriptions",
        "subscribers that follow, a client each",
        subscriptions,
        100.0,
        (0, 1, 10, 100),
        (0, 1, 10),
    ),
)
