"""The common part of the child processes: orders from the parent, reports back to it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from quorate.transport import event_loop


def say(kind: str, **fields: Any) -> None:
    """Report one line to the parent."""
    print(json.dumps({"kind": kind, **fields}), flush=True)


def main(run: Callable[[dict[str, Any]], Coroutine[Any, Any, None]]) -> None:
    """Run with the orders that the parent gave as the only argument."""
    event_loop.run(run(json.loads(sys.argv[1])))


async def further_orders() -> AsyncIterator[Any]:
    """Yield the orders that the parent gives later, each a line of JSON on stdin.

    They end when the parent closes stdin, because this process is to finish or the parent died.
    """
    parts: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, lambda: parts.put_nowait(os.read(0, 4096)))
    try:
        text = b""
        while part := await parts.get():
            *lines, text = (text + part).split(b"\n")
            for line in lines:
                yield json.loads(line)
    finally:
        loop.remove_reader(0)


async def until_stdin_ends() -> None:
    """Return when the parent closes stdin."""
    async for _ in further_orders():
        pass


async def tell_events(events: AsyncIterator[Any], sentence: Callable[[Any], str | None]) -> None:
    """Report the SDK's events to the parent, if there is a sentence for them."""
    async for event in events:
        if text := sentence(event):
            say("event", text=text)


async def every(seconds: float, act: Callable[[], None]) -> None:
    """Act at this interval until cancelled."""
    while True:
        act()
        await asyncio.sleep(seconds)
