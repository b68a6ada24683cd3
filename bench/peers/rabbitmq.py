"""RabbitMQ streams: three nodes, a stream with three copies, and rstream."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bench.peers.install import RabbitFiles, rabbit_files
from bench.peers.load import Checker, Load
from bench.peers.nodes import Nodes, OnNodes
from bench.peers.system import Warm
from quorate.console.group.ports import free_addresses

STREAM = "peers"
IN_FLIGHT_MESSAGES = 100_000
ACCOUNT = {"username": "guest", "password": "guest"}  # RabbitMQ's own, for loopback only


class RabbitMQ(OnNodes):
    """Three nodes in a cluster, with the plugin of streams. A stream with a copy at each."""

    name = "RabbitMQ streams"
    share = 0.3
    settings = (
        "3 nodes, 3 copies; a quorum has a message in its page cache (streams do not sync); rstream"
    )

    def missing(self) -> str:
        """Return what is to be installed."""
        return "" if rabbit_files() else "RabbitMQ: run `make peers`"

    async def start(self, directory: Path) -> str:
        """Start Erlang's registry of names and three nodes, and make the stream."""
        files = rabbit_files()
        assert files is not None
        registry, *addresses = free_addresses(10)
        queues, streams, clusters = addresses[:3], addresses[3:6], addresses[6:]
        self._nodes = Nodes(directory)
        command = [str(files.registry), "-address", "127.0.0.1", "-port", _port(registry)]
        self._nodes.start("registry", command)
        await self._nodes.listening([registry])
        _write_shared(directory)
        for number, each in enumerate(zip(queues, streams, clusters, strict=True)):
            self._start_node(number, files, directory, _port(registry), *map(_port, each))
        await self._nodes.listening(streams)
        await _make_stream(streams[0])
        return streams[0]

    def _start_node(
        self,
        number: int,
        files: RabbitFiles,
        directory: Path,
        registry: str,
        queues: str,
        streams: str,
        cluster: str,
    ) -> None:
        settings = directory / f"node-{number}.conf"
        settings.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{queues}\n"
            f"stream.listeners.tcp.1 = 127.0.0.1:{streams}\n"
            f"stream.advertised_host = 127.0.0.1\n"
            f"stream.advertised_port = {streams}\n"
            "cluster_formation.peer_discovery_backend = classic_config\n"
            + "".join(
                f"cluster_formation.classic_config.nodes.{n + 1} = {_name(n)}\n" for n in range(3)
            )
        )
        environment = files.environment | {
            "HOME": str(directory),  # where the nodes' shared secret is
            "ERL_EPMD_PORT": registry,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": _name(number),
            "RABBITMQ_DIST_PORT": cluster,
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(directory),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        }
        assert self._nodes is not None
        self._nodes.start(f"node-{number}", ["sh", str(files.server)], environment)

    async def send(self, address: str, load: Load, warm: Warm) -> None:
        """Publish a load in batches, with a bound for what is not confirmed."""
        from rstream import Producer

        sent, confirmed, refused, news = 0, 0, 0, asyncio.Event()

        async def confirm(status: Any) -> None:
            nonlocal confirmed, refused
            confirmed += 1
            refused += not status.is_confirmed
            news.set()

        async def drain(in_flight: int) -> None:
            while sent - confirmed > in_flight:
                news.clear()
                await news.wait()

        async with Producer(*_split(address), **ACCOUNT) as producer:

            async def publish(payloads: list[bytes]) -> None:
                nonlocal sent
                await drain(IN_FLIGHT_MESSAGES)
                sent += len(payloads)
                await producer.send_batch(STREAM, payloads, on_publish_confirm=confirm)

            for payloads in load.warm_up_slices():
                await publish(payloads)
            await drain(0)
            await warm()
            for wait, payloads in load.slices():
                if payloads:
                    await publish(payloads)
                else:
                    await asyncio.sleep(wait)
            await drain(0)
        if refused:
            raise RuntimeError(f"{refused} messages were not taken")

    async def receive(self, address: str, checker: Checker) -> None:
        """Take messages from the first on, one by one."""
        from rstream import Consumer, ConsumerOffsetSpecification, OffsetType

        consumer = Consumer(*_split(address), **ACCOUNT)

        def take(message: bytes, _: object) -> None:
            checker.take_all((message,))
            if checker.done:
                consumer.stop()

        await consumer.start()
        first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
        await consumer.subscribe(STREAM, take, offset_specification=first)
        await consumer.run()
        await consumer.close()


def _write_shared(directory: Path) -> None:
    """Write what all nodes read: the plugins, and the secret by which they know each other."""
    (directory / "plugins").write_text("[rabbitmq_stream].\n")
    secret = directory / ".erlang.cookie"
    secret.write_text("peers")
    secret.chmod(0o400)


async def _make_stream(address: str) -> None:
    """Make the stream once all nodes have found each other."""
    from rstream import Producer

    async with asyncio.timeout(60):
        while True:
            try:
                async with Producer(*_split(address), **ACCOUNT) as producer:
                    await producer.create_stream(STREAM, arguments={"initial-cluster-size": 3})
                    return
            except Exception as error:  # The client has no common class for "not yet".
                print(f"RabbitMQ does not take the stream yet: {error!r}")
                await asyncio.sleep(1)


def _name(number: int) -> str:
    return f"peer-{number}@localhost"


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
