"""What the demo's source and receiver processes share: orders from the demo, words back to it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any


def say(kind: str, **fields: Any) -> None:
    """One line to the demo."""
    print(json.dumps({"kind": kind, **fields}), flush=True)


def main(run: Callable[[dict[str, Any]], Coroutine[Any, Any, None]]) -> None:
    """Run with the orders that the demo gave as the only argument."""
    asyncio.run(run(json.loads(sys.argv[1])))


async def until_stdin_ends() -> None:
    """Until the demo closes our stdin: it wants us to finish, or it is no more."""
    ended = asyncio.Event()

    def read() -> None:
        if not os.read(0, 4096):
            ended.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(0, read)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(0)


async def tell_events(events: AsyncIterator[Any], sentence: Callable[[Any], str | None]) -> None:
    """Pass on to the demo what the SDK reports, as far as there is a sentence for it."""
    async for event in events:
        if text := sentence(event):
            say("event", text=text)


async def every(seconds: float, act: Callable[[], None]) -> None:
    """Act now and again."""
    while True:
        act()
        await asyncio.sleep(seconds)
