"""How long a registration takes, and that whoever waits is told.

The bounds are such that only a wait breaks them that should not be, or one that lacks.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.source.fake_store import FakeStore
from tests.source.real_stores import RealStores
from tests.source.support import open_source

from quorate.protocol.delays import Delays
from quorate.source import (
    Event,
    SourceOptions,
    WaitingForStores,
)

pytestmark = pytest.mark.expects_log("does not take")

INTERVAL = 4.0
"""Long beside all that a registration does but wait."""


async def seconds(stores: RealStores, interval: float) -> tuple[float, list[WaitingForStores]]:
    """How long a source takes to open with all of its stores or without, and what it waited for."""
    waits: list[WaitingForStores] = []

    def note(event: Event) -> None:
        if isinstance(event, WaitingForStores):
            waits.append(event)

    options = SourceOptions(registration_interval=interval)
    began = time.perf_counter()
    source = await stores.open("abc", options=options, on_event=note)
    took = time.perf_counter() - began
    await source.close()
    return took, waits


async def test_with_all_stores_up_nothing_is_waited_for(tmp_path: Path) -> None:
    stores = RealStores(tmp_path)
    await stores.start("abc")
    for label in ("first ever", "again", "and again"):
        took, _ = await seconds(stores, 10.0)
        print(f"all stores up, {label}: {took * 1000:.1f} ms")
        assert took < 10.0
    await stores.stop_all()


async def test_a_store_that_is_down_is_waited_for_once(tmp_path: Path) -> None:
    stores = RealStores(tmp_path)
    await stores.start("abc")
    await seconds(stores, INTERVAL)
    await stores.stop("c")
    took, waits = await seconds(stores, INTERVAL)
    print(f"one of three down, {INTERVAL} s interval: {took * 1000:.1f} ms")
    assert took >= INTERVAL
    # Nobody was left in the dark. Before that it may have waited for others, too; and for stores to
    # begin after it.
    (wait,) = [one for one in waits if one.missing == ("c",) and one.seconds > 0]
    assert wait.seconds <= INTERVAL
    await stores.stop_all()


async def test_who_waits_to_be_asked_again_is_asked_what_is_new_at_once(
    stores: list[FakeStore],
) -> None:
    """A store that has promised is asked less and less often while others are waited for."""
    first, second, third = stores
    second.answering.clear()
    third.answering.clear()
    seldom = Delays(first=1e6, longest=1e6)
    options = SourceOptions(registration_interval=1.0, delays=seldom)
    opening = asyncio.create_task(open_source(stores, options=options))
    async with asyncio.timeout(60):
        while len(first.promises) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    second.answering.set()
    source = await opening
    assert source.registered
    third.answering.set()
    await source.close()
