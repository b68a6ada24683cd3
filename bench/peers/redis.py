"""Redis streams: one server that syncs each write, and redis-py."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.peers.install import redis_server
from bench.peers.load import Checker, Load
from bench.peers.nodes import Nodes, OnNodes
from bench.peers.system import Warm
from quorate.console.group.ports import free_addresses

STREAM = "peers"


class Redis(OnNodes):
    """One server: Redis has no quorum whose members sync before they acknowledge."""

    name = "Redis streams, one server"
    share = 0.3
    settings = "1 server, no copy, appendfsync always; redis-py with hiredis, pipelines of 1,000"

    def missing(self) -> str:
        """Return what is to be installed."""
        return "" if redis_server() else "redis-server: run `make peers`, or install it"

    async def start(self, directory: Path) -> str:
        """Start the server."""
        (address,) = free_addresses(1)
        host, _, port = address.rpartition(":")
        command = redis_server()
        assert command is not None
        options = {"bind": host, "port": port, "dir": str(directory), "save": ""}
        options |= {"appendonly": "yes", "appendfsync": "always"}
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._nodes = Nodes(directory)
        self._nodes.start("server", [*command, *arguments])
        await self._nodes.listening([address])
        return address

    async def send(self, address: str, load: Load, warm: Warm) -> None:
        """Add a load, a pipeline at a time."""
        client = _client(address)

        def add(payloads: list[bytes]) -> None:
            pipeline = client.pipeline(transaction=False)
            for payload in payloads:
                pipeline.xadd(STREAM, {b"": payload})
            pipeline.execute()

        for payloads in load.warm_up_slices():
            add(payloads)
        await warm()
        for wait, payloads in load.slices():
            if payloads:
                add(payloads)
            else:
                await asyncio.sleep(wait)

    async def receive(self, address: str, checker: Checker) -> None:
        """Read what is new, in lists of up to 1,000."""
        await asyncio.to_thread(_read_all, address, checker)


def _read_all(address: str, checker: Checker) -> None:
    client, last = _client(address), b"0"
    while not checker.done:
        for _, entries in client.xread({STREAM: last}, count=1000, block=1000):
            checker.take_all([fields[b""] for _, fields in entries])
            last = entries[-1][0]


def _client(address: str):  # type: ignore[no-untyped-def]
    import redis

    host, _, port = address.rpartition(":")
    return redis.Redis(host, int(port))
