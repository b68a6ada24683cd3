"""What several tests of the source need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from tests.source.fake_store import FakeStore

from quorate.protocol.framing import read_contents, read_header
from quorate.source import Outgoing, Source, SourceOptions

T = TypeVar("T")

Stores = list[FakeStore]
QUICK = SourceOptions(registration_interval=0.3)
"""Does not wait long for stores that are down."""


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def addresses(stores: Sequence[FakeStore]) -> str:
    return ",".join(store.address for store in stores)


def contents(store: FakeStore) -> list[Outgoing]:
    """All messages that a store was sent, in order, each once."""
    found: dict[int, Outgoing] = {}
    for first, last, _, frame in store.batches:
        messages = read_contents(frame, read_header(frame), first, last)
        for number, (payload, attributes) in enumerate(messages, first):
            key, properties, deleted, _ = attributes
            found[number] = Outgoing(payload, key, properties, attributes.expires, deleted)
    return [found[number] for number in sorted(found)]


async def open_source(group: Sequence[FakeStore], **changes: Any) -> Source:
    """The source that most tests use."""
    settings: dict[str, Any] = {
        "session_id": 0x10,
        "stores": addresses(group),
        "options": QUICK,
        "timeout": 60.0,
    }
    return await Source.open("orders", **(settings | changes))


async def event_of(source: Source, kind: type[T], nth: int = 1) -> T:
    """The nth event of this kind since the source was opened; waits for it."""
    async with asyncio.timeout(60):
        async for event in source.events():
            if isinstance(event, kind):
                nth -= 1
                if nth == 0:
                    return event
    raise AssertionError(f"no {kind.__name__}")
