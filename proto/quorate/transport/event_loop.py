"""The event loop of Quorate's own programs: that of uvloop where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: one of uvloop if it is installed, else one of asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new event loop, as `asyncio.run` does, and return its result."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
