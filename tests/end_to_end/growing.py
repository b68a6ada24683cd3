"""A group of stores in processes of their own, that operators change with the command."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.end_to_end.processes import PATIENCE_SECONDS, environment

from quorate.client import Source, connect
from quorate.console.group.children import StoreChild, founded
from quorate.console.group.ports import free_addresses

Row = dict[str, Any]


class Command:
    """A `quorate` command that tells its progress as lines of JSON."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.rows: list[Row] = []

    async def until(self, happened: Callable[[Row], bool]) -> Row:
        """Return the next row of which this is true."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for line in self._process.stdout:
                self.rows.append(json.loads(line))
                if happened(self.rows[-1]):
                    return self.rows[-1]
        raise AssertionError(f"in vain; it ended with {await self.errors()} after {self.rows}")

    async def until_waiting(self, title: str) -> Row:
        """Return the step that is awaited, with the operator's part."""
        return await self.until(
            lambda row: row["kind"] == "step" and title in row["step"] and not row["done"]
        )

    async def interrupt(self) -> int:
        """Interrupt it, as by Ctrl-C, and return its exit code."""
        self._process.send_signal(2)
        return await self.ended()

    async def ended(self) -> int:
        """Return its exit code, once it has ended."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._process.communicate()
            assert self._process.returncode is not None
            return self._process.returncode

    async def errors(self) -> str:
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode()


class GrowingGroup:
    """Stores by name; each keeps its address, and its directory until it is wiped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.addresses: dict[str, str] = {}
        self.children: dict[str, StoreChild] = {}

    async def __aenter__(self) -> GrowingGroup:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(child.stop() for child in self.children.values()))

    def place(self, names: Iterable[str]) -> None:
        """Give each of these stores an address."""
        named = list(names)
        self.addresses.update(zip(named, free_addresses(len(named)), strict=True))

    def text(self, names: Iterable[str]) -> str:
        """Return these stores as `--stores` takes them."""
        return ",".join(f"{name}={self.addresses[name]}" for name in names)

    async def found(self, names: Iterable[str]) -> None:
        """Start these stores as each other's peers, and wait until they are out of limbo."""
        self.place(set(names) - self.addresses.keys())
        for name in names:
            await self.start(name, names)
        await founded([self.children[name] for name in names])

    async def start(self, name: str, peers: Iterable[str]) -> None:
        """Start a store, also again, with these stores as its peers."""
        others = [self.addresses[each] for each in peers if each != name]
        child = StoreChild(name, self.path / name, self.addresses[name], others)
        self.children[name] = child
        await child.start()

    async def stop(self, *names: str) -> None:
        await asyncio.gather(*(self.children[name].stop() for name in names))

    async def restart(self, names: Iterable[str], peers: Iterable[str]) -> None:
        """Restart these stores, one after the other, as the manual says."""
        everyone = ("--stores", self.text(peers))
        for name in names:
            await self.quorate("status", "--wait", "60", "--without", name, *everyone, code=0)
            await self.stop(name)
            await self.start(name, peers)
        await self.quorate("status", "--wait", "60", *everyone, code=0)

    async def command(self, *arguments: str) -> Command:
        """Start a `quorate` command."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "quorate.console.main", *arguments),
            env=environment(),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        return Command(process)

    async def quorate(self, *arguments: str, code: int) -> str:
        """Run a command that ends with this code, and return all that it printed."""
        process = (await self.command(*arguments))._process
        out, err = await process.communicate()
        text = out.decode() + err.decode()
        assert process.returncode == code, text
        return text

    async def source(self, names: Iterable[str], *previous: Iterable[str]) -> Source:
        """Return the source `orders/1` on these stores, with those that it had before."""
        client = connect(self.text(names), previous_policies=[*map(self.text, previous)])
        return await client.source("orders", session_id=1, take_over=True)

    async def read(self, names: Iterable[str], last: int) -> list[bytes]:
        """Return all messages up to this one, as a new receiver gets them."""
        found: list[bytes] = []
        async with connect(self.text(names)) as client:
            async with asyncio.timeout(PATIENCE_SECONDS):
                async with client.receiver("orders", delivery="stable") as receiver:
                    async for message in receiver:
                        assert message.sequence == len(found)
                        found.append(message.payload)
                        if message.sequence == last:
                            break
        return found
