"""The rests of work that may wait, so that it does not hold up who sends.

The lateness of the event loop tells how much else the store has to do. No other measure is needed.
"""

from __future__ import annotations

import asyncio

_TIMES = 40
"""The rest, as a multiple of how late the event loop is."""
_SHARE = 8
"""The longest rest, as a multiple of the time that the work took."""
_SECONDS_MIN = 0.002
"""Seconds of the shortest rest."""


async def give_way(took: float) -> None:
    """Rest for longer the later the event loop is.

    So a store that has much to do does less of this work, and catches up when it has less. The work
    gets a ninth of the time, however much there is to do.

    took: the seconds that the work took since the last rest; 0: there is nothing to give way to.
    """
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(0)
    if rest := rest_after(took, loop.time() - before):
        await asyncio.sleep(rest)


def rest_after(took: float, late: float) -> float:
    """Return the seconds to rest after work that took so long, if the event loop is so late."""
    rest = min(_SHARE * took, _TIMES * late)
    return rest if rest >= _SECONDS_MIN else 0.0
