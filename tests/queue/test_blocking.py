"""A queue for code without asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.queue.conftest import CHANGES_OF_DISPATCHER, QueueStores

from quorate.client import connect_blocking
from quorate.client.blocking import Client
from quorate.errors import Closed, InvalidArgument, UnknownQueue
from quorate.transport.blocking import run_blocking

pytestmark = pytest.mark.expects_log(CHANGES_OF_DISPATCHER)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    stores = QueueStores(tmp_path, {"tries": 2})

    async def started() -> None:
        for name in stores.addresses:
            await stores.start(name)

    async def stopped() -> None:
        for name in list(stores.nodes):
            await stores.stop(name)

    run_blocking(started())
    with connect_blocking(stores.named) as made:
        yield made
    run_blocking(stopped())


def test_a_plain_loop_takes_jobs(client: Client) -> None:
    with client.source("orders") as source:
        source.send_many([b"good", b"late", b"bad"])
    tried: list[tuple[bytes, int]] = []
    with client.queue("work", max_backlog=3) as consumer:
        for job in consumer:
            tried.append((job.payload, job.tries))
            assert job.topic == job.source.topic == job.message.topic == "orders"
            if job.payload == b"bad":
                job.discard("it is bad")
            elif job.payload == b"late" and job.tries == 1:
                job.retry(0.1)
            else:
                job.extend()
                job.done()
                with pytest.raises(InvalidArgument, match="was settled before"):
                    job.extend()
            if len(tried) == 4:
                break
        consumer.flush(10)
    assert sorted(tried) == [(b"bad", 1), (b"good", 1), (b"late", 1), (b"late", 2)]
    assert consumer.queue == "work"
    with pytest.raises(Closed):
        next(iter(consumer))


def test_an_unknown_queue_is_an_error(client: Client) -> None:
    with pytest.raises(UnknownQueue):
        client.queue("nothing")
