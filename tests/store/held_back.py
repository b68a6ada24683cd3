"""A store whose writer is held back, so that a test sees what waits for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from unittest.mock import Mock

from tests.store.ended import FSYNC, Heardsay, Quiet
from tests.store.support import FIRST_LINEAGE, ORDERS, World, batch

from quorate.store.engine import Engine
from quorate.store.rpc.operator import Upkeep
from quorate.store.rpc.requests import (
    AskedPosition,
    AskedReceiver,
    Requests,
)
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.lifetimes import Lifetimes
from quorate.store.storage.group_commit import Acknowledged
from quorate.store.storage.interface import Columns, Write, with_columns
from quorate.store.storage.maintenance_records import ScrubRecord
from quorate.store.tasks.lifecycle import Keeper

A = TypeVar("A")

SESSION = 0x20


def receiver(**changes: Any) -> AskedReceiver:
    asked = AskedReceiver(ORDERS, SESSION, 1, b"r", False, Lifetimes(), 0)
    return asked._replace(**changes)


def position(upto: int, epoch: int = 1, **changes: Any) -> AskedPosition:
    return AskedPosition(ORDERS, epoch, upto, 1, b"r")._replace(**changes)


class HeldBack:
    """As the engine's writer; writes what was submitted when it is let."""

    failure = None
    full = False

    def __init__(self, world: World) -> None:
        self.committed = 0
        self.waited_for = asyncio.Event()
        self.lazy: list[Sequence[Write]] = []
        """The rows that may wait for the next commit."""
        self._world = world
        self._submitted: list[tuple[Sequence[Write], Acknowledged | None, int]] = []
        self._waiting: list[asyncio.Future[None]] = []

    def submit(
        self,
        writes: Sequence[Write],
        _: bool = True,
        acknowledge: Acknowledged | None = None,
        upto: int = 0,
        columns: Columns | None = None,
    ) -> int:
        writes = with_columns(writes, [columns] if columns else [])
        if writes or acknowledge is not None:
            self._submitted.append((writes, acknowledge, upto))
        return self.committed + len(self._submitted)

    def submit_lazily(self, writes: Sequence[Write]) -> int:
        self.lazy.append(writes)
        return self.submit(writes)

    async def durable(self, number: int) -> None:
        if number > self.committed:
            self._waiting.append(asyncio.get_running_loop().create_future())
            self.waited_for.set()
            await self._waiting[-1]

    def let(self) -> None:
        """Everything that was submitted becomes durable."""
        submitted, self._submitted = self._submitted, []
        for writes, _, _ in submitted:
            self._world.write(writes)
        self.committed += len(submitted)
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()
        for _, acknowledge, upto in submitted:
            if acknowledge is not None:
                acknowledge.acknowledge(upto)


class Store:
    """A store whose writer is held back."""

    def __init__(self) -> None:
        self.world = World()
        self.core = self.world.core
        self.writer = HeldBack(self.world)
        writer: Any = self.writer
        self.engine = Engine(
            self.core, self.world.receivers, writer, self.world.storage, lambda _: FSYNC
        )
        peers: Any = Heardsay()
        proxying: Any = Quiet()
        self.losses = Losses("s1", self.core.sources, self.world.storage)
        self.keeper = Keeper(self.engine, peers, proxying, self.losses, 0.0)
        self.requests = Requests(self.engine, self.keeper, self.losses)
        self.upkeep = Upkeep(self.engine, Mock(), peers, "s1:1", self.losses, ScrubRecord(), 0.0)

    async def held_up(self, request: Coroutine[Any, Any, A]) -> asyncio.Task[A]:
        """Ask for it, and return when that waits until something is durable."""
        asked = asyncio.create_task(request)
        await self._waits(asked)
        assert not asked.done(), "it was answered at once"
        return asked

    async def finished(self, asked: asyncio.Task[A]) -> A:
        """Let everything become durable until it is answered."""
        while not asked.done():
            self.writer.let()
            await self._waits(asked)
        return asked.result()

    async def done(self, request: Coroutine[Any, Any, A]) -> A:
        """Ask for it, with nothing held back."""
        asked = asyncio.create_task(request)
        await self._waits(asked)
        return await self.finished(asked)

    async def _waits(self, asked: asyncio.Task[A]) -> None:
        self.writer.waited_for.clear()
        waits = asyncio.create_task(self.writer.waited_for.wait())
        await asyncio.wait((asked, waits), return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()

    def is_put_back(self) -> None:
        """It finds that it is not who it was last."""
        self.writer.submit(self.core.enter_limbo("it was put back", b"another").writes)

    async def registered(self, **changes: Any) -> None:
        """A source has begun, and a receiver has registered."""
        self.world.begin(FIRST_LINEAGE)
        self.world.append(self.world.open(), batch(0, 9), stable_upto=9)
        await self.done(self.requests.register_receiver(receiver(**changes)))
