"""How long a registration takes, and that whoever waits is told. Times are only printed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores

from quorate.source import Event, SourceOptions, WaitingForStores

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
