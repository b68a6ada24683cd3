"""Quorate: three stores that sync before they acknowledge, and the client that ships."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import psutil

from bench.peers.load import Checker, Load
from bench.peers.system import Warm
from bench.recovery import named, stores
from quorate.client import connect

TOPIC = "peers"


class Quorate:
    """Three stores and a receiver, which is handed a message at once or once it is stable."""

    share = 1.0

    def __init__(self, *, live: bool) -> None:
        """live: whether the receiver is handed messages before they are stable."""
        self.name = "Quorate, live" if live else "Quorate"
        when = "at once" if live else "once it is stable"
        self.settings = (
            f"3 stores; a quorum has each message synced before it is acknowledged; "
            f"the receiver has it {when}"
        )
        self._live = live
        self._stack = AsyncExitStack()
        self._processes: list[psutil.Process] = []

    def missing(self) -> str:
        """Return nothing: it is here."""
        return ""

    async def start(self, directory: Path) -> str:
        """Start three stores."""
        children = await self._stack.enter_async_context(stores(directory))
        self._processes = [psutil.Process(child.pid) for child in children]
        return named(children)

    def processes(self) -> list[psutil.Process]:
        """Return the stores."""
        return self._processes

    async def stop(self) -> None:
        """Kill the stores."""
        await self._stack.aclose()

    async def send(self, address: str, load: Load, warm: Warm) -> None:
        """Send a load with `send_many`, and flush."""
        async with connect(address) as client, client.source(TOPIC, session_id=1) as source:
            for payloads in load.warm_up_slices():
                await source.send_many(payloads)
            await source.flush()
            await warm()
            for wait, payloads in load.slices():
                if payloads:
                    await source.send_many(payloads)
                else:
                    await asyncio.sleep(wait)
            await source.flush()

    async def receive(self, address: str, checker: Checker) -> None:
        """Take messages one by one, as `async for` gives them."""
        delivery = "live" if self._live else "stable"
        async with (
            connect(address) as client,
            client.receiver(TOPIC, session_id=2, start="earliest", delivery=delivery) as receiver,
        ):
            async for message in receiver:
                checker.take_all((message.payload,))
                if checker.done:
                    return
