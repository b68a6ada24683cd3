"""A bad batch that is mended while it is read: the good copy in its place is not taken for bad."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from tests import seams
from tests.seams import Seam
from tests.store.support import ORDERS, Client, batch, payload, running

from quorate.protocol.ranges import Range, RangeSet
from quorate.store.engine import Engine
from quorate.store.node import StoreNode
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.maintenance_records import ScrubRecord
from quorate.store.storage.reader import StoredBatch
from quorate.store.tasks import (
    comparison as comparing,
)
from quorate.store.tasks import (
    scrub,
)
from quorate.store.tasks.executor import in_threads

MESSAGES = 30


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def begun(node: StoreNode, client: Client) -> Engine:
    """A store with three batches."""
    stream = await client.stream()
    for first in range(0, MESSAGES, 10):
        await stream.batch(batch(first, first + 9))
    await stream.durable(MESSAGES - 1)
    await stream.close()
    engine = node._engine
    assert engine is not None
    return engine


async def spoil_until_read(engine: Engine, reading: Seam, to: pytest.MonkeyPatch) -> None:
    """Damage [10, 19] until this seam reads it. Before it says so, others have it mended."""
    key, good = next(
        (key, value)
        for key, value in engine.reads.scan(Table.JOURNAL, b"", b"\xff" * 8, 9)
        if payload(15) in value
    )
    bad = good.replace(payload(15), b"_" * len(payload(15)))
    await engine.writer.durable(engine.writer.submit([Write(Table.JOURNAL, key, bad)]))
    state, loop = engine.core.sources[ORDERS], asyncio.get_running_loop()

    async def mend() -> None:
        engine.submit(state, state.found_unreadable(10, 19))
        mended = (Write(Table.JOURNAL, key, good), *state.read_well(10, 19))
        await engine.writer.durable(engine.submit(state, mended))

    real_read = reading.real()

    def read(*arguments: Any) -> list[StoredBatch]:
        found: list[StoredBatch] = real_read(*arguments)
        if any(each.problem for each in found):
            asyncio.run_coroutine_threadsafe(mend(), loop).result(30)
        return found

    reading.replace(to, read)


async def test_a_fetch_reads_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        engine = await begun(node, client)
        await spoil_until_read(engine, seams.READ_IN_STORE_SERVICE, monkeypatch)
        fetched = await client.fetch()
        assert fetched.messages == {number: payload(number) for number in range(MESSAGES)}
        assert not engine.core.sources[ORDERS].unreadable


async def test_a_scrub_reads_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor
) -> None:
    async def at_once(*_: float) -> None:
        pass

    async with running(tmp_path) as node, Client(node.address) as client:
        engine = await begun(node, client)
        await spoil_until_read(engine, seams.READ_IN_SCRUB, monkeypatch)
        checking = scrub.Scrub(engine, in_threads(executor), ScrubRecord(), 0.0)
        assert await checking.check(engine.core.sources[ORDERS], 0, at_once) == MESSAGES
        assert checking.unreadable == 0
        assert not engine.core.sources[ORDERS].unreadable


async def test_a_comparison_leaves_it_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor
) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        engine = await begun(node, client)
        await spoil_until_read(engine, seams.READ_IN_COMPARISON, monkeypatch)
        comparison = comparing.Comparing(engine, in_threads(executor), cast(Any, None))
        theirs = batch(10, 19)
        state = engine.core.sources[ORDERS]
        assert await comparison._against_ours(state, theirs, Range(10, 19)) == []
        assert state.unreadable == RangeSet()
