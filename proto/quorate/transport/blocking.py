"""An event loop in a thread of its own, for callers without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from quorate.protocol.errors import QuorateError, WaitsForItself
from quorate.transport import forks
from quorate.transport.event_loop import new_event_loop

T = TypeVar("T")

_lock = threading.Lock()
_shared: asyncio.AbstractEventLoop | None = None


def shared_loop() -> asyncio.AbstractEventLoop:
    """Return the process's background loop. It starts on first use and ends with the process.

    Raises UsedBeforeFork.
    """
    global _shared
    forks.use()
    with _lock:
        if _shared is None or _shared.is_closed():
            loop = new_event_loop()
            threading.Thread(target=loop.run_forever, name="quorate-loop", daemon=True).start()
            _shared = loop
        return _shared


def check_may_wait() -> None:
    """Raise WaitsForItself on the background thread: a call that waits would wait for itself."""
    if _shared is not None and asyncio._get_running_loop() is _shared:
        raise WaitsForItself("A blocking call")


def run_blocking(coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Run a coroutine on the background loop and wait for it; Ctrl-C cancels it.

    Raises WaitsForItself on the background thread, which runs the callbacks, and UsedBeforeFork.
    """
    try:
        forks.check()
        check_may_wait()
    except QuorateError:
        coroutine.close()
        raise
    future = asyncio.run_coroutine_threadsafe(coroutine, shared_loop())
    try:
        return future.result(timeout)
    except BaseException:
        future.cancel()
        raise
