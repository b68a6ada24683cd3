"""The rests of work that may wait, so that it does not hold up who sends.

The lateness of the event loop tells how much else the store has to do. No other measure is needed.
"""

from __future__ import annotations

import asyncio

_TIMES = 10
"""The rest, as a multiple of how late the event loop is."""
_SECONDS_MIN, _SECONDS_MAX = 0.002, 0.02
"""Seconds of the shortest rest, and of the longest."""


async def give_way() -> None:
    """Rest for longer the later the event loop is.

    So a store that has much to do does less of this work, and catches up when it has less.
    """
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(0)
    if rest := rest_after(loop.time() - before):
        await asyncio.sleep(rest)


def rest_after(late: float) -> float:
    """Return the seconds to rest if the event loop is so late. late: in seconds."""
    rest = min(_SECONDS_MAX, _TIMES * late)
    return rest if rest >= _SECONDS_MIN else 0.0
