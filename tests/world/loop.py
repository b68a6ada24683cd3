"""Event loops of a simulated world: one for each process, all on one clock that the world turns.

A loop is asyncio's own, except that it never waits, has no threads, and takes the time from its
world. Work for an executor runs on the loop, a moment later. A process that crashes is a loop that
is run no more.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from asyncio import events
from collections.abc import Callable
from heapq import heappop
from random import Random
from typing import Any

EXECUTOR_SECONDS = 0.002
"""The longest time, in seconds, after which work for an executor is done."""


class Clock:
    """The time of a world, in seconds, and the process whose turn it is."""

    EPOCH = 1_800_000_000.0
    """The world begins at this Unix time."""

    def __init__(self) -> None:
        """Begin at 1,000 s of the monotonic clock."""
        self.now = 1000.0

    def time(self) -> float:
        """Return the Unix time."""
        return self.EPOCH + self.now


class _NoSelector:
    """Stands for the selector of a loop without sockets."""

    def select(self, _: float | None) -> list[Any]:
        return []

    def get_map(self) -> dict[Any, Any]:
        return {}


class ProcessLoop(asyncio.BaseEventLoop):
    """The loop of one simulated process."""

    def __init__(self, name: str, clock: Clock, random: Random) -> None:
        """Begin with nothing to do."""
        super().__init__()
        self.name = name
        self._world_clock = clock
        self._random = random
        self._selector = _NoSelector()
        self._clock_resolution = 1e-9
        self.crashed = False
        self.paused_until = 0.0
        self.failures: list[dict[str, Any]] = []
        self.set_task_factory(_quiet_task)
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def __del__(self, _warn: Any = None) -> None:
        """Close nothing: a process that crashed closes nothing either."""

    def time(self) -> float:
        """Return the time of the world."""
        return self._world_clock.now

    def due(self) -> float | None:
        """Return when the process has something to do; None: when somebody wakes it."""
        if self.crashed:
            return None
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0].cancelled():
            handle = heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if self._ready:  # type: ignore[attr-defined]
            at = self._world_clock.now
        elif scheduled:
            at = scheduled[0].when()
        else:
            return None
        return max(at, self.paused_until)

    def turn(self) -> None:
        """Run what is due, once."""
        self._thread_id: int | None = threading.get_ident()
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(
            firstiter=self._asyncgen_firstiter_hook,  # type: ignore[attr-defined]
            finalizer=self._asyncgen_finalizer_hook,  # type: ignore[attr-defined]
        )
        events._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            self._thread_id = None

    def run_in_executor(  # type: ignore[override]
        self, _: Any, function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Run the function on this loop, a moment later."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = function(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self._random.uniform(0, EXECUTOR_SECONDS), run)
        return future

    def _process_events(self, _: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *arguments: Any, context: Any = None
    ) -> Any:
        """Do what call_soon does: there are no threads."""
        return self.call_soon(callback, *arguments, context=context)


def _quiet_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **given: Any) -> asyncio.Task[Any]:
    """Return a task that does not complain when it is dropped with its process."""
    task = asyncio.Task(coroutine, loop=loop, **given)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task
