"""How a client gets a store to take an epoch that is far above those that the store knows.

A store takes epochs in bounded steps (quorate.store.rules.epochs). Which epoch to ask for is
decided by each caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from quorate.protocol.errors import EpochTooFar

T = TypeVar("T")


async def in_steps(epoch: int, ask: Callable[[int], Awaitable[T]]) -> T:
    """Ask a store with this epoch, and return its answer.

    If the epoch is too far, lead the store up to it first, with one request for each step.
    """
    reached = 0
    while True:
        try:
            return await ask(epoch)
        except EpochTooFar as error:
            if not reached < error.admitted < epoch:
                raise
            reached = error.admitted
        await ask(reached)
