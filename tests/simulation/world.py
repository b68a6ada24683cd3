"""The scheduler of the simulated world: virtual time, processes, and tasks that wait in it.

One seed decides everything that happens. A process may be paused (nothing in it runs until it
wakes) or killed (nothing in it ever runs again). Nothing here knows of messages or stores.
"""

from __future__ import annotations

import random
import types
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar, Union

T = TypeVar("T")
Wait = Union["Pending[Any]", float, None]
"""What a task waits for: a value to come, or some virtual seconds."""

TRACE_LINES = 80
_STEPS_MAX = 250_000
_BEGINNING = 1_800_000_000.0
"""The time of day when a world begins, in seconds since 1970."""
_TURN_SECONDS = 0.00002
"""Between what wakes a task and the task going on, at most: who goes first differs by seed."""


class Endless(Exception):
    """So much happens that it can never end."""


class World:
    """Virtual time, and what is to happen at which time."""

    def __init__(self, seed: int, trace_lines: int = TRACE_LINES) -> None:
        self.seed = seed
        self.chooser = random.Random(seed)
        self.now = 0.0
        self.faults: Counter[str] = Counter()
        """How often each kind of fault was injected."""
        self.reached: Counter[str] = Counter()
        """How often each rare state was seen."""
        self.steps = 0
        self._trace: deque[tuple[float, str, tuple[object, ...]]] = deque(maxlen=trace_lines)
        self._queue: list[tuple[float, int, Process | None, Callable[[], None]]] = []
        self._scheduled = 0

    def later(
        self, seconds: float, callback: Callable[[], None], process: Process | None = None
    ) -> None:
        """Have this called after so much virtual time, in that process if one is given."""
        self._scheduled += 1
        heappush(self._queue, (self.now + seconds, self._scheduled, process, callback))

    def run(self, until: float) -> None:
        """Let things happen until that time."""
        queue, pop, steps = self._queue, heappop, self.steps
        while queue and queue[0][0] <= until:
            self.now, _, process, callback = pop(queue)
            steps += 1
            if process is None or process.runs:
                callback()
            elif process.alive:
                process.defer(callback)
            if steps > _STEPS_MAX:
                raise Endless(f"{steps:,} steps by {self.now:.3f} s")
        self.steps = steps
        self.now = until

    def note(self, text: str, *arguments: object) -> None:
        """A line for the reader of a failure; formatted with %, and only if there is one.

        So an argument must not change afterwards.
        """
        self._trace.append((self.now, text, arguments))

    def trace(self) -> str:
        """The last lines."""
        return "\n".join(
            f"{at:10.5f} {text % what if what else text}" for at, text, what in self._trace
        )

    def fault(self, kind: str, text: str, *arguments: object) -> None:
        """A fault is injected."""
        self.faults[kind] += 1
        self.note(f"*** {kind}: {text}", *arguments)

    def reach(self, state: str, text: str = "", *arguments: object) -> None:
        """A rare state is reached."""
        self.reached[state] += 1
        self.note(f"    {state} {text}", *arguments)


@types.coroutine
def _sleep(seconds: float) -> Generator[float, None, None]:
    """Some virtual seconds."""
    yield seconds


class Pending(Generic[T]):
    """A value, or an error, to come; the first of them counts. One task waits for it."""

    __slots__ = ("_error", "_value", "_waiter", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T
        self._error: BaseException | None = None
        self._waiter: Callable[[], None] | None = None

    def set(self, value: T) -> None:
        if not self.done:
            self._value = value
            self.done = True
            if self._waiter is not None:
                self._waiter()

    def fail(self, error: BaseException) -> None:
        if not self.done:
            self._error = error
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

    __slots__ = ("_cancelled", "_coroutine", "_process", "_world")

    def __init__(self, process: Process, coroutine: Coroutine[Wait, None, None]) -> None:
        self._process = process
        self._world = process.world
        # Not its `send`: then the garbage collector may close it within itself, and complains.
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
        if isinstance(waits_for, Pending):
            waits_for.when_done(self._wake)
        else:
            # None as asyncio.sleep(0): others get their turn.
            self._world.later(waits_for or 0.0, self._step, self._process)

    def _wake(self) -> None:
        world = self._world
        world.later(world.chooser.random() * _TURN_SECONDS, self._step, self._process)


class Process:
    """What lives and dies together."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.paused = False
        self.runs = True
        """Alive and not paused."""
        self._deferred: list[Callable[[], None]] = []

    def start(self, coroutine: Coroutine[Wait, None, None]) -> Task:
        return Task(self, coroutine)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Have this called, in the process, after so much virtual time."""
        self.world.later(seconds, callback, self)

    def sleep(self, seconds: float) -> Awaitable[None]:
        return _sleep(seconds)

    def pause(self) -> None:
        self.paused = True
        self.runs = False

    def wake(self) -> None:
        """Everything that should have happened meanwhile happens now."""
        self.paused = False
        self.runs = self.alive
        deferred, self._deferred = self._deferred, []
        for callback in deferred:
            self.later(0.0, callback)

    def kill(self) -> None:
        self.alive = self.runs = False
        self._deferred.clear()

    def defer(self, callback: Callable[[], None]) -> None:
        """Have this called when the process wakes."""
        self._deferred.append(callback)


class WallClock:
    """The time of day as somebody takes it to be: it may jump, forwards and back."""

    def __init__(self, world: World, rate: float = 1.0) -> None:
        """rate: how many seconds pass by it while one passes in the world."""
        self._world = world
        self._rate = rate
        self._ahead = 0.0

    def jump(self, seconds: float) -> None:
        self._ahead += seconds

    def seconds(self) -> float:
        """Since 1970; never before."""
        return max(0.0, _BEGINNING + self._world.now * self._rate + self._ahead)


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
