"""Run a command's coroutine: a signal stops it cleanly, a second signal at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import typer

from quorate.transport import event_loop

T = TypeVar("T")

STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run main and return its result. A signal cancels main, which may still return a result.

    Raises typer.Exit with 128 + the signal's number if main lets the cancellation pass.
    """
    results: list[T] = []

    async def keep() -> None:
        results.append(await _supervised(main))

    # Not the task's own result: the runner would write that out in full, to put the handler of
    # SIGINT back. A long answer takes seconds.
    event_loop.run(keep())
    return results[0]


async def _supervised(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(main())
    received: list[int] = []

    def stop(number: int) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        task.cancel()

    for number in STOPPING_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise typer.Exit(128 + received[0]) from None
        raise
    finally:
        for number in STOPPING_SIGNALS:
            loop.remove_signal_handler(number)
