"""NATS JetStream: three servers, a stream with three copies, and nats-py."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bench.peers.install import NATS_SERVER
from bench.peers.load import Checker, Load
from bench.peers.nodes import Nodes, OnNodes
from bench.peers.system import Warm
from quorate.console.group.ports import free_addresses

SUBJECT = "peers"
PENDING_BYTES = 1 << 30


class Nats(OnNodes):
    """Three servers in a cluster. A stream in files, with a copy at each."""

    def __init__(self, *, synced: bool) -> None:
        """synced: whether servers sync each message to the disk before they acknowledge it."""
        super().__init__()
        self.name = "NATS JetStream, synced" if synced else "NATS JetStream, page cache"
        self.share = 0.03 if synced else 0.1
        self._interval = "always" if synced else "2m"
        default = "" if synced else " (the default)"
        self.settings = (
            f"3 servers, 3 copies, sync_interval: {self._interval}{default}; "
            "nats-py, `publish_async`"
        )

    def missing(self) -> str:
        """Return what is to be installed."""
        return "" if NATS_SERVER.exists() else "the NATS server: run `make peers`, which needs Go"

    async def start(self, directory: Path) -> str:
        """Start three servers, and make the stream."""
        addresses = free_addresses(6)
        clients, routes = addresses[:3], addresses[3:]
        listed = ", ".join(f'"nats://{route}"' for route in routes)
        self._nodes = Nodes(directory)
        for number, (client, route) in enumerate(zip(clients, routes, strict=True)):
            file = directory / f"server-{number}.conf"
            file.write_text(
                f"server_name: server-{number}\nlisten: {client}\n"
                f'jetstream {{ store_dir: "{directory}/server-{number}", '
                f"sync_interval: {self._interval} }}\n"
                f"cluster {{ name: peers, listen: {route}, routes: [{listed}] }}\n"
            )
            self._nodes.start(f"server-{number}", [str(NATS_SERVER), "-c", str(file)])
        await self._nodes.listening(clients)
        address = ",".join(f"nats://{client}" for client in clients)
        await self._make_stream(address)
        return address

    async def _make_stream(self, address: str) -> None:
        import nats as client
        from nats.js.api import StorageType, StreamConfig
        from nats.js.errors import ServiceUnavailableError

        connection = await client.connect(address.split(","))
        config = StreamConfig(
            name=SUBJECT, subjects=[SUBJECT], num_replicas=3, storage=StorageType.FILE
        )
        async with asyncio.timeout(60):
            while True:
                try:
                    await connection.jetstream().add_stream(config)
                    break
                except (ServiceUnavailableError, TimeoutError):
                    await asyncio.sleep(0.2)  # The servers still choose their leader.
        await connection.close()

    async def send(self, address: str, load: Load, warm: Warm) -> None:
        """Publish a load with as many messages in flight as the client allows."""
        import nats as client

        connection = await client.connect(address.split(","))
        stream = connection.jetstream(publish_async_max_pending=4000)
        futures: list[asyncio.Future[Any]] = []

        async def publish(payloads: list[bytes]) -> None:
            for payload in payloads:
                futures.append(await stream.publish_async(SUBJECT, payload))
            while futures and futures[0].done() and len(futures) > 20_000:
                _raise_failures(futures[:10_000])
                del futures[:10_000]

        for payloads in load.warm_up_slices():
            await publish(payloads)
        await stream.publish_async_completed()
        await warm()
        for wait, payloads in load.slices():
            await publish(payloads)
            if wait:
                await asyncio.sleep(wait)
        await stream.publish_async_completed()
        _raise_failures(futures)
        await connection.close()

    async def receive(self, address: str, checker: Checker) -> None:
        """Take messages from an ordered consumer."""
        import nats as client

        connection = await client.connect(address.split(","))
        ended = asyncio.Event()

        async def take(message: Any) -> None:
            checker.take_all((message.data,))
            if checker.done:
                ended.set()

        await connection.jetstream().subscribe(
            SUBJECT, cb=take, ordered_consumer=True, pending_bytes_limit=PENDING_BYTES
        )
        await ended.wait()
        await connection.close()


def _raise_failures(futures: list[asyncio.Future[Any]]) -> None:
    for future in futures:
        future.result()
