"""How long a registration takes, and that whoever waits is told. Times are only printed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.source.fake_store import FakeStore
from tests.source.real_stores import RealStores
from tests.source.support import open_source

from quorate.source import Event, SourceOptions, WaitingForStores, store_session

pytestmark = pytest.mark.expects_log("does not take")


async def test_registration(tmp_path: Path) -> None:
    stores = RealStores(tmp_path)
    await stores.start("abc")
    waits: list[WaitingForStores] = []

    def note(event: Event) -> None:
        if isinstance(event, WaitingForStores):
            waits.append(event)

    async def seconds(label: str, options: SourceOptions) -> float:
        began = time.perf_counter()
        source = await stores.open("abc", options=options, on_event=note)
        took = time.perf_counter() - began
        print(f"{label}: {took * 1000:.1f} ms")
        await source.close()
        return took

    options = SourceOptions(registration_interval=0.7)
    for label in ("first ever", "again", "and again"):
        await seconds(f"all stores up, {label}", options)
    await stores.stop("c")
    waits.clear()
    took = await seconds("one of three down, 0.7 s interval", options)
    # The wait happened once, and nobody was left in the dark.
    assert took >= 0.7
    # Before that it may have waited for others, too; and for stores to begin after it.
    (wait,) = [one for one in waits if one.missing == ("c",) and one.seconds > 0]
    assert wait.seconds <= 0.7
    await stores.stop_all()


async def test_who_waits_to_be_asked_again_is_asked_what_is_new_at_once(
    stores: list[FakeStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that has promised is asked less and less often while others are waited for."""
    for setting in ("_RETRY_SECONDS_FIRST", "_RETRY_SECONDS_MAX"):
        monkeypatch.setattr(store_session, setting, 1e6)
    first, second, third = stores
    second.answering.clear()
    third.answering.clear()
    options = SourceOptions(registration_interval=1.0)
    opening = asyncio.create_task(open_source(stores, options=options))
    async with asyncio.timeout(60):
        while len(first.promises) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    second.answering.set()
    source = await opening
    assert source.registered
    third.answering.set()
    await source.close()
