"""The status of a store, read part by part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from quorate.transport.status import read_status
from quorate.v1.store_pb2 import SourceStatus, StatusResponse


async def parts(count: int, seconds: float) -> AsyncIterator[StatusResponse]:
    """Yield the parts of a store that takes its time for each."""
    for number in range(count):
        await asyncio.sleep(seconds)
        yield StatusResponse(sources=[SourceStatus(reg_id=number)])


async def test_a_long_answer_is_no_silence() -> None:
    whole = await read_status(parts(40, 0.05), 1.0)
    assert [each.reg_id for each in whole.sources] == list(range(40))


async def test_a_store_that_says_nothing_more_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        await read_status(parts(2, 60.0), 0.05)
