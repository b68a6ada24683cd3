"""How fast the scrub reads: at a bounded rate, and fast enough to end before the next is due."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.store.support import ORDERS, Client, batch, running

from quorate.store.engine import Engine
from quorate.store.storage.maintenance_records import ScrubRecord
from quorate.store.tasks.scrub import (
    BYTES_PER_SECOND_MAX,
    BYTES_PER_SECOND_MIN,
    Scrub,
)

MESSAGES = 400


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """Of a store with forty batches that does not scrub by itself."""
    async with (
        running(tmp_path, scrub_interval_seconds=0.0) as node,
        Client(node.address) as client,
    ):
        stream = await client.stream()
        for first in range(0, MESSAGES, 10):
            await stream.batch(batch(first, first + 9))
        await stream.durable(MESSAGES - 1)
        assert node._engine is not None
        yield node._engine


class Paced:
    """A scrub in whose world time passes only while it rests, or reads."""

    def __init__(self, engine: Engine, interval: float, chunk_seconds: float = 0.0) -> None:
        """chunk_seconds: how long the disk takes for a chunk."""
        self.now = 0.0
        self.rests: list[float] = []
        self._chunk_seconds = chunk_seconds
        self._over = asyncio.Event()
        self.scrub = Scrub(
            engine,
            self._read,
            ScrubRecord(),
            interval,
            lambda: self.now,
            lambda: self.now,
            self._sleep,
        )

    async def _read(self, work: Callable[[], Any]) -> Any:
        self.now += self._chunk_seconds
        return work()

    async def _sleep(self, seconds: float) -> None:
        if self.scrub.status().passes:
            self._over.set()
            await asyncio.Event().wait()
        self.rests.append(seconds)
        self.now += seconds

    async def passes(self) -> float:
        """Seconds that the first pass took."""
        running = asyncio.ensure_future(self.scrub.run())
        over = asyncio.ensure_future(self._over.wait())
        async with asyncio.timeout(30):
            await asyncio.wait({running, over}, return_when=asyncio.FIRST_COMPLETED)
        assert over.done(), running
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert self.scrub.messages == MESSAGES
        assert len(self.rests) > 1, "a bound for each chunk, not for all at once"
        return self.now


@pytest.mark.parametrize(
    ("held_per_second", "rate"),
    [
        (1.0, BYTES_PER_SECOND_MIN),  # there is time enough
        (4.0 * BYTES_PER_SECOND_MIN, 4.4 * BYTES_PER_SECOND_MIN),
        (1024.0 * BYTES_PER_SECOND_MIN, BYTES_PER_SECOND_MAX),  # there is not
    ],
    ids=["slowest", "in time", "fastest"],
)
async def test_a_pass_reads_at_a_bounded_rate(
    engine: Engine, held_per_second: float, rate: float
) -> None:
    """held_per_second: what would have to be read for a pass to take all of its time."""
    interval = engine.core.sources[ORDERS].held.bytes / held_per_second
    paced = Paced(engine, interval)
    seconds = await paced.passes()
    assert seconds == pytest.approx(paced.scrub.bytes / rate)
    assert seconds < interval or rate == BYTES_PER_SECOND_MAX


async def test_the_time_that_reading_takes_is_part_of_it(engine: Engine) -> None:
    quick = Paced(engine, 3600.0)
    seconds = await quick.passes()
    shortest = min(quick.rests)
    slow = Paced(engine, 3600.0, shortest / 2)
    assert await slow.passes() == pytest.approx(seconds)
    assert slow.rests == pytest.approx([each - shortest / 2 for each in quick.rests])


async def test_where_the_disk_is_slower_than_that_it_does_not_rest(engine: Engine) -> None:
    paced = Paced(engine, 3600.0, 1.0)
    assert await paced.passes() == len(paced.rests)
    assert set(paced.rests) == {0.0}
