"""The systems that are compared, by the names that the command line has for them."""

from __future__ import annotations

from bench.peers.kafka import Kafka
from bench.peers.nats import Nats
from bench.peers.ours import Quorate
from bench.peers.rabbitmq import RabbitMQ
from bench.peers.redis import Redis
from bench.peers.system import System

SYSTEMS: dict[str, System] = {
    "quorate": Quorate(live=False),
    "quorate-live": Quorate(live=True),
    "kafka-synced": Kafka(synced=True),
    "kafka": Kafka(synced=False),
    "nats-synced": Nats(synced=True),
    "nats": Nats(synced=False),
    "rabbitmq": RabbitMQ(),
    "redis": Redis(),
}
