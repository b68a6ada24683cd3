"""The runner of work outside the event loop, if it reads much from disk. The work is elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Apart(Protocol):
    """A function that runs work outside the event loop, and returns its result."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


def in_threads(executor: Executor) -> Apart:
    """Return the runner that uses the threads of the executor."""

    async def do(work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return do
