"""Work that reads much, done where nothing else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Apart(Protocol):
    """Does such work, and returns what comes of it."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


def in_threads(executor: Executor) -> Apart:
    """It is done in the threads of the executor, apart from the event loop."""

    async def do(work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return do
