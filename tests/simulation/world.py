"""The scheduler of the simulated world: virtual time, processes, and tasks that wait in it.

One seed decides everything that happens. A process may be paused (nothing in it runs until it
wakes) or killed (nothing in it ever runs again). Nothing here knows of messages or stores.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

TRACE_LINES = 60
_TURN_SECONDS = 0.00002
"""Between what wakes a task and the task going on, at most: who goes first differs by seed."""


class World:
    """Virtual time, and what is to happen at which time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chooser = random.Random(seed)
        self.now = 0.0
        self.faults: Counter[str] = Counter()
        """How often each kind of fault was injected."""
        self.reached: Counter[str] = Counter()
        """How often each rare state was seen."""
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self.steps = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Have this called after so much virtual time."""
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now + seconds, self._scheduled, callback))

    def run(self, until: float, done: Callable[[], bool] = lambda: False) -> None:
        """Let things happen until that time, or until done says so."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, callback = heapq.heappop(self._queue)
            self.steps += 1
            callback()
            if done():
                return
        self.now = until

    def note(self, text: str) -> None:
        """A line for the reader of a failure."""
        self.trace.append(f"{self.now:10.5f} {text}")

    def fault(self, kind: str, text: str) -> None:
        """A fault is injected."""
        self.faults[kind] += 1
        self.note(f"*** {kind}: {text}")

    def reach(self, state: str, text: str = "") -> None:
        """A rare state is reached."""
        self.reached[state] += 1
        self.note(f"    {state} {text}".rstrip())


class Pending(Generic[T]):
    """A value, or an error, to come; the first of them counts. One task waits for it."""

    def __init__(self) -> None:
        self.done = False
        self._value: T
        self._error: BaseException | None = None
        self._waiter: Callable[[], None] | None = None

    def set(self, value: T) -> None:
        if not self.done:
            self._value = value
            self._finish()

    def fail(self, error: BaseException) -> None:
        if not self.done:
            self._error = error
            self._finish()

    def _finish(self) -> None:
        self.done = True
        if self._waiter is not None:
            self._waiter()

    def when_done(self, waiter: Callable[[], None]) -> None:
        assert self._waiter is None
        self._waiter = waiter

    def __await__(self) -> Generator[Pending[T], None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value


class Task:
    """A coroutine that runs in a process, from wait to wait."""

    def __init__(self, process: Process, coroutine: Coroutine[Pending[Any], None, None]) -> None:
        self._process = process
        self._coroutine = coroutine
        self._cancelled = False
        self._step()

    def cancel(self) -> None:
        """It does not go on after its present wait."""
        self._cancelled = True

    def _step(self) -> None:
        if self._cancelled:
            return
        try:
            waits_for = self._coroutine.send(None)
        except StopIteration:
            return
        waits_for.when_done(self._wake)

    def _wake(self) -> None:
        process = self._process
        process.later(process.world.chooser.random() * _TURN_SECONDS, self._step)


class Process:
    """What lives and dies together."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.paused = False
        self._deferred: list[Callable[[], None]] = []

    def start(self, coroutine: Coroutine[Pending[Any], None, None]) -> Task:
        return Task(self, coroutine)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Have this called, in the process, after so much virtual time."""
        self.world.later(seconds, lambda: self._run(callback))

    async def sleep(self, seconds: float) -> None:
        pending: Pending[None] = Pending()
        self.later(seconds, lambda: pending.set(None))
        await pending

    def pause(self) -> None:
        self.paused = True

    def wake(self) -> None:
        """Everything that should have happened meanwhile happens now."""
        self.paused = False
        deferred, self._deferred = self._deferred, []
        for callback in deferred:
            self.later(0.0, callback)

    def kill(self) -> None:
        self.alive = False
        self._deferred.clear()

    def _run(self, callback: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.paused:
            self._deferred.append(callback)
        else:
            callback()


class Event:
    """Something that tasks of one process wait for, together."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._set = False
        self._waiting: list[Pending[None]] = []

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            pending.set(None)

    def clear(self) -> None:
        self._set = False

    async def wait(self, seconds: float | None = None) -> None:
        """Return once it is set, or after so many seconds."""
        if self._set:
            # Others get their turn, as with every wait.
            await self._process.sleep(0.0)
            return
        pending: Pending[None] = Pending()
        self._waiting.append(pending)
        if seconds is not None:
            self._process.later(seconds, lambda: pending.set(None))
        await pending

    async def pause(self, seconds: float | None = None) -> None:
        """The same, and take it back."""
        await self.wait(seconds)
        self.clear()
