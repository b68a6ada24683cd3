"""The scripted group that the receiver is tested against."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.receiver.fakes import Group
from tests.receiver.real_peers import Stores


@pytest.fixture
async def group() -> AsyncIterator[Group]:
    group = Group()
    await group.start()
    yield group
    await group.stop()


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = Stores(tmp_path)
    for name in "abc":
        await stores.start(name)
    yield stores
    for name in tuple(stores.nodes):
        await stores.stop(name)
