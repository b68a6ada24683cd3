"""The scripted group that the receiver is tested against."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.receiver.fakes import Group


@pytest.fixture
async def group() -> AsyncIterator[Group]:
    group = Group()
    await group.start()
    yield group
    await group.stop()
