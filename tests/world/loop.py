"""Event loops of a simulated world: one for each process, all on one clock that the world turns.

A loop has asyncio's futures and tasks. It never waits, has no threads, and takes the time from its
world. Work for an executor runs on the loop, a moment later. A process that crashes is a loop that
is run no more.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from asyncio import events
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Self

EXECUTOR_SECONDS = 0.002
"""The longest time, in seconds, after which work for an executor is done."""
ROUNDS_MAX = 10_000
"""The rounds of callbacks at one moment after which a process is taken to run for ever."""


class Clock:
    """The time of a world, in seconds, and the process whose turn it is."""

    EPOCH = 1_800_000_000.0
    """The world begins at this Unix time."""

    def __init__(self) -> None:
        """Begin at 1,000 s of the monotonic clock."""
        self.now = 1000.0
        self.here = ""
        """The name of the process whose turn it is, or was last."""
        self.jumps: dict[str, float] = {}
        """By process: the seconds by which the time of day of its host is wrong."""

    def time(self) -> float:
        """Return the Unix time, as the host of the process has it."""
        return self.EPOCH + self.now + self.jumps.get(self.here, 0.0)


class ProcessLoop(asyncio.BaseEventLoop):
    """The loop of one simulated process."""

    def __init__(self, name: str, clock: Clock, random: Random) -> None:
        """Begin with nothing to do."""
        super().__init__()
        self.name = name
        self._world_clock = clock
        self._random = random
        self._handles: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """A heap. Of two timers for one time the one that was made first comes first."""
        self._timers_made = 0
        self.tasks_made = 0
        self.crashed = False
        self.rounds_left: int | None = None
        """The rounds of callbacks after which the process crashes; None: it goes on."""
        self.steps = 0
        """The callbacks that were run."""
        self.paused_until = 0.0
        self.failures: list[dict[str, Any]] = []
        self.set_task_factory(_quiet_task)
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def __del__(self, _warn: Any = None) -> None:
        """Close nothing: a process that crashed closes nothing either."""

    # What the world does.

    def due(self) -> float | None:
        """Return when the process has something to do; None: when somebody wakes it."""
        if self.crashed:
            return None
        if self._handles:
            at = self._world_clock.now
        else:
            timers = self._timers
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers:
                return None
            at = timers[0][0]
        return at if at > self.paused_until else self.paused_until

    def turn(self) -> None:
        """Run what is due, and what that makes due at this moment. Other processes wait so long.

        It is the same to them: none hears of it before a later moment.
        """
        hooks = sys.get_asyncgen_hooks()
        self._thread_id: int | None = threading.get_ident()
        sys.set_asyncgen_hooks(
            firstiter=self._asyncgen_firstiter_hook,  # type: ignore[attr-defined]
            finalizer=self._asyncgen_finalizer_hook,  # type: ignore[attr-defined]
        )
        events._set_running_loop(self)
        try:
            self._run_all(self._world_clock.now)
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            self._thread_id = None

    def _run_all(self, now: float) -> None:
        timers, handles = self._timers, self._handles
        for _ in range(ROUNDS_MAX):
            while timers and timers[0][0] <= now:
                handles.append(heappop(timers)[2])
            if not handles:
                return
            for _ in range(len(handles)):
                handle = handles.popleft()
                if not handle._cancelled:
                    self.steps += 1
                    handle._run()
            if self.rounds_left is not None:
                self.rounds_left -= 1
                if self.rounds_left <= 0:
                    self.crashed = True
                    return
        raise AssertionError(f"{self.name} goes round and round at one moment")

    # In the place of asyncio's.

    def time(self) -> float:
        """Return the time of the world."""
        return self._world_clock.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *arguments: Any, context: Any = None
    ) -> asyncio.Handle:
        """Call the function in the next turn."""
        handle = asyncio.Handle(callback, arguments, self, context)
        self._handles.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]
    """There are no threads."""

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *arguments: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call the function at this time."""
        timer = asyncio.TimerHandle(when, callback, arguments, self, context)
        self._timers_made += 1
        heappush(self._timers, (when, self._timers_made, timer))
        return timer

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


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks have the same order whenever a seed is run."""

    def __new__(cls, _: Any, *, loop: ProcessLoop, **__: Any) -> Self:
        task = super().__new__(cls)
        loop.tasks_made += 1
        task.number = loop.tasks_made
        return task

    number: int

    def __hash__(self) -> int:
        return self.number


def _quiet_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **given: Any) -> asyncio.Task[Any]:
    """Return a task that does not complain when it is dropped with its process."""
    assert isinstance(loop, ProcessLoop)
    task = _Task(coroutine, loop=loop, **given)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task
