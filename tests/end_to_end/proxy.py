"""A TCP proxy that holds traffic up in one direction, or cuts it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Proxy:
    """Between one port and another, both on this host."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open = {"there": asyncio.Event(), "back": asyncio.Event()}
        self._passed = {way: asyncio.Event() for way in self._open}
        self._rations: dict[str, int] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._ways: set[asyncio.Task[None]] = set()
        self.port = 0
        self.refuses = False
        """Nobody is let in."""
        self.heal()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.heal()
            self.cut()

    def stall(self, way: str) -> None:
        """Nothing passes this way, and nobody is told."""
        self._open[way].clear()

    def ration(self, way: str, count: int) -> None:
        """Let so many bytes more pass this way, give or take a piece, and then stall it."""
        self._rations[way] = count
        self._open[way].set()

    def heal(self, *ways: str) -> None:
        """Let pass what waited and all that follows; without a way named, all of them."""
        for way in ways or self._open:
            self._rations.pop(way, None)
            self._open[way].set()

    async def until_passed(self, way: str) -> None:
        """Wait until something has passed this way since the connections were cut, if they were."""
        await self._passed[way].wait()

    def cut(self) -> None:
        """Break every connection; what was held up on them is lost."""
        for writer in list(self._writers):
            writer.transport.abort()
        for way in self._ways:
            way.cancel()
        for passed in self._passed.values():
            passed.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.refuses:
                raise ConnectionRefusedError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        ways = {
            asyncio.create_task(self._pass_on("there", reader, far_writer)),
            asyncio.create_task(self._pass_on("back", far_reader, writer)),
        }
        self._ways |= ways
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._ways -= ways
            for task in ways:
                task.cancel()
            for end in ends:
                end.transport.abort()
            self._writers -= ends

    async def _pass_on(
        self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._open[way].wait()
                writer.write(data)
                self._passed[way].set()
                self._spend(way, len(data))
                await writer.drain()

    def _spend(self, way: str, count: int) -> None:
        if way in self._rations:
            self._rations[way] -= count
            if self._rations[way] <= 0:
                self.stall(way)
