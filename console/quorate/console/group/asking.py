"""One question to all stores at once. The question itself is not known here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import StoreAddress

T = TypeVar("T")


async def answers_of(
    stores: Sequence[StoreAddress], ask: Callable[[StoreAddress], Awaitable[T]]
) -> dict[StoreAddress, T | QuorateError]:
    """Ask all stores at once. Return the answer of each, or its error in the place."""

    async def one(store: StoreAddress) -> T | QuorateError:
        try:
            return await ask(store)
        except QuorateError as error:
            return error

    return dict(zip(stores, await asyncio.gather(*map(one, stores)), strict=True))
