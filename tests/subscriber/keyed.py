"""Real stores whose topics have keys, with a client and a source: fixtures of several modules."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores

from quorate.client import Client, connect
from quorate.protocol.bookmarks import Bookmark
from quorate.source import Source, SourceOptions

QUICK = SourceOptions(registration_interval=0.3)
TOPICS = (
    {"pattern": "orders", "keys": "$key"},
    {"pattern": "accounts", "keys": ["id", "region"]},
)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    made.settings = {name: {"topic": TOPICS} for name in "abc"}
    await made.start("abc")
    yield made
    await made.stop_all()


@pytest.fixture
async def client(stores: RealStores) -> AsyncIterator[Client]:
    async with connect(stores.named("abc"), timeout=20) as made:
        yield made


@pytest.fixture
async def source(client: Client) -> AsyncIterator[Source]:
    async with client.source("orders", session_id=1, options=QUICK) as made:
        yield made


async def published(source: Source, key: str, **fields: object) -> Bookmark:
    """Publish fields under a key, and return where the message is."""
    receipt = await source.publish(json.dumps(fields).encode(), key=key.encode())
    return Bookmark(source.name, receipt.epoch, receipt.sequence)
