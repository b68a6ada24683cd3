"""Stores for tests of the source."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.source.fake_store import FakeStore


@pytest.fixture
async def stores() -> AsyncIterator[list[FakeStore]]:
    """Three stores that run."""
    made = [FakeStore() for _ in range(3)]
    for store in made:
        await store.start()
    yield made
    for store in made:
        await store.stop()
