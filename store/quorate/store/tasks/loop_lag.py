"""The lag of the event loop: how much later than asked for a sleep ends."""

from __future__ import annotations

import asyncio

from quorate.store.durations import Durations

SLEEP_SECONDS = 0.5


async def measure(lag: Durations) -> None:
    """Measure again and again, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + SLEEP_SECONDS
        await asyncio.sleep(SLEEP_SECONDS)
        lag.observe(max(0.0, loop.time() - due))
