"""A queue at a store with TLS and rules of access: who may take its jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.certificates import files
from tests.queue.conftest import CHANGES_OF_DISPATCHER

from quorate.client import Client, connect
from quorate.console.group.authority import Authority
from quorate.console.group.ports import free_addresses
from quorate.errors import AccessDenied
from quorate.queue.beside import Queues
from quorate.store.configuration import StoreConfiguration
from quorate.store.node import StoreNode

pytestmark = pytest.mark.expects_log("may not|" + CHANGES_OF_DISPATCHER)

RULES = [
    {"identities": ["store-a"], "verbs": ["replicate"]},
    {
        "identities": ["store-a"],
        "verbs": ["send", "subscribe"],
        "topics": ["quorate[.]queue[.].*", "orders.*"],
    },
    {"identities": ["worker"], "verbs": ["consume"], "topics": ["work"]},
    {"identities": ["shop"], "verbs": ["send"], "topics": ["orders"]},
]


class Guarded:
    """A store, and clients by identity."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.authority = Authority.new()
        [address] = free_addresses(1)
        self.named = f"a={address}"
        own = files(path / "store", self.authority, "store-a")
        configuration = StoreConfiguration.model_validate(
            {
                "name": "a",
                "data_directory": path / "a",
                "listen": address,
                "peers": (),
                "tls": {"ca": own.ca, "certificate": own.certificate, "key": own.key},
                "access": RULES,
                "stores": self.named,
                "queue": [{"name": "work", "topics": ["orders"], "dead_letters": "orders.dead"}],
            }
        )
        settings = [each.settings for each in configuration.queue]
        queues = Queues(settings, self.named, "a", own)
        self.node = StoreNode(configuration, queues)

    def client(self, identity: str) -> Client:
        own = files(self.path / identity, self.authority, identity)
        return connect(self.named, tls=own, timeout=10)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    made = Guarded(tmp_path)
    await made.node.start()
    yield made
    await made.node.stop()


async def test_only_a_consumer_of_the_queue_gets_its_jobs(guarded: Guarded) -> None:
    async with guarded.client("shop") as shop, guarded.client("worker") as worker:
        source = await shop.source("orders")
        await source.publish(b"one")
        async with worker.queue("work") as consumer:
            job = await anext(consumer)
            assert job.payload == b"one"
            await job.discard()
        with pytest.raises(AccessDenied, match="shop may not consume topic work"):
            await shop.queue("work")
        with pytest.raises(AccessDenied, match="worker may not subscribe"):
            await worker.subscriber("orders")
