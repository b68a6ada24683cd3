"""Three real stores, on the test's loop or on the background loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.receiver.real_peers import Stores

from quorate.transport.blocking import run_blocking


async def started(directory: Path) -> Stores:
    stores = Stores(directory)
    for name in "abc":
        await stores.start(name)
    return stores


async def stopped(stores: Stores) -> None:
    for name in list(stores.nodes):
        await stores.stop(name)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    """Three stores on the test's loop."""
    made = await started(tmp_path)
    yield made
    await stopped(made)


@pytest.fixture
def stores_aside(tmp_path: Path) -> Iterator[Stores]:
    """Three stores on the background loop, for tests without asyncio."""
    made = run_blocking(started(tmp_path))
    yield made
    run_blocking(stopped(made))
