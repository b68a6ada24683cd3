"""Kafka: three brokers without ZooKeeper, and the client of librdkafka."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import uuid
from pathlib import Path

from bench.peers.install import JARS, java
from bench.peers.load import Checker, Load
from bench.peers.nodes import Nodes, OnNodes
from bench.peers.system import Warm
from quorate.console.group.ports import free_addresses

TOPIC = "peers"
_JVM = ("-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")  # as Kafka's own script starts it
IN_FLIGHT_MESSAGES = 500_000


class Kafka(OnNodes):
    """Three brokers in one cluster, each also a controller. A topic with one partition."""

    share = 1.0

    def __init__(self, *, synced: bool) -> None:
        """synced: whether brokers sync each append to the disk before they acknowledge it."""
        super().__init__()
        self.name = "Kafka, synced" if synced else "Kafka, page cache"
        disk = "syncs each append" if synced else "leaves the disk to the page cache (the default)"
        self.settings = (
            f"3 brokers, acks=all, min.insync.replicas=2; a broker {disk}; confluent-kafka"
        )
        self._synced = synced

    def missing(self) -> str:
        """Return what is to be installed."""
        if not JARS.is_dir():
            return "Kafka's packages: run `make peers`, which needs Maven"
        return "" if java() else "a Java runtime: run `make setup`"

    async def start(self, directory: Path) -> str:
        """Format three directories, start their brokers, and make the topic."""
        addresses = free_addresses(6)
        brokers, controllers = addresses[:3], addresses[3:]
        voters = ",".join(f"{number}@{address}" for number, address in enumerate(controllers))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._nodes = Nodes(directory)
        for number, (broker, controller) in enumerate(zip(brokers, controllers, strict=True)):
            file = directory / f"broker-{number}.properties"
            file.write_text(self._properties(number, broker, controller, voters, directory))
            await asyncio.to_thread(_format, file, cluster)
            self._nodes.start(f"broker-{number}", _tool("kafka.Kafka", str(file)))
        await self._nodes.listening(brokers)
        await asyncio.to_thread(_make_topic, ",".join(brokers))
        return ",".join(brokers)

    def _properties(
        self, number: int, broker: str, controller: str, voters: str, directory: Path
    ) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": number,
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": directory / f"broker-{number}",
            "min.insync.replicas": 2,
            "default.replication.factor": 3,
            "offsets.topic.replication.factor": 3,
        }
        if self._synced:
            settings["log.flush.interval.messages"] = 1
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    async def send(self, address: str, load: Load, warm: Warm) -> None:
        """Produce a load, with callbacks that count what is acknowledged."""
        import confluent_kafka

        failures: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(error)

        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": address,
                "log_level": 3,  # Errors only: a coordinator that still loads is none.
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0 if load.rate else 5,
                "batch.size": 1_000_000,
                "batch.num.messages": 100_000,
                "queue.buffering.max.messages": IN_FLIGHT_MESSAGES,
            }
        )

        def produce(payload: bytes) -> None:
            while True:
                try:
                    producer.produce(TOPIC, payload, on_delivery=delivered)
                except BufferError:
                    producer.poll(0.01)
                else:
                    return

        for payloads in load.warm_up_slices():
            for payload in payloads:
                produce(payload)
            producer.poll(0)
        producer.flush()
        await warm()
        for wait, payloads in load.slices():
            for payload in payloads:
                produce(payload)
            if wait:
                await asyncio.sleep(wait)
            producer.poll(0)
        producer.flush()
        if failures:
            raise RuntimeError(f"{len(failures)} messages were not taken, the first: {failures[0]}")

    async def receive(self, address: str, checker: Checker) -> None:
        """Consume messages in the lists that the client gives."""
        import confluent_kafka

        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "peers",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign(
            [confluent_kafka.TopicPartition(TOPIC, 0, confluent_kafka.OFFSET_BEGINNING)]
        )
        while not checker.done:
            messages = consumer.consume(1000, timeout=0.001 if checker.is_paced else 1.0)
            for message in messages:
                if message.error() is not None:
                    raise RuntimeError(str(message.error()))
            checker.take_all([message.value() or b"" for message in messages])
        consumer.close()


def _tool(main: str, *arguments: str) -> list[str]:
    runtime = java()
    assert runtime is not None
    return [runtime, *_JVM, "-cp", f"{JARS}/*", main, *arguments]


def _format(properties: Path, cluster: str) -> None:
    command = _tool("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties))
    subprocess.run(command, check=True, capture_output=True)


def _make_topic(brokers: str) -> None:
    from confluent_kafka import admin as administration

    admin = administration.AdminClient({"bootstrap.servers": brokers})
    for each in admin.create_topics([administration.NewTopic(TOPIC, 1, 3)]).values():
        each.result(timeout=60)
