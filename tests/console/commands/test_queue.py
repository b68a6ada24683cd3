"""`quorate queue` as a user has it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.console.command import Ran, quorate
from tests.queue.conftest import QueueStores

from quorate.client import connect
from quorate.console.group.queues import listed
from quorate.protocol.identity import StoreAddress
from quorate.v1.queue_pb2 import QueueStatus

pytestmark = [
    pytest.mark.processes,
    pytest.mark.expects_log("does not take|in limbo|lost its quorum|is fenced"),
]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[QueueStores]:
    made = QueueStores(tmp_path, {})
    for name in made.addresses:
        await made.start(name)
    yield made
    for name in list(made.nodes):
        await made.stop(name)


async def queue(stores: QueueStores, *arguments: str) -> Ran:
    """Run `quorate queue`."""
    return await quorate("queue", *arguments, "--stores", stores.named)


async def test_jobs_are_taken_and_queues_are_shown(stores: QueueStores) -> None:
    async with connect(stores.named) as client, client.source("orders", session_id=1) as source:
        await source.send_many([b"one", b"two", b"three"])
    code, out, err = await queue(stores, "take", "work", "--count", "1")
    assert (code, out, err) == (0, "one\n", "")
    code, out, _ = await queue(stores, "take", "work", "-n", "1", "-o", "jsonl")
    job = json.loads(out)
    assert (job["payload"], job["tries"], job["bookmark"]) == ("two", 1, "orders/0x1@1:1")

    code, out, _ = await queue(stores, "list", "-o", "json")
    [row] = json.loads(out)["queues"]
    assert (code, row["queue"], row["topics"]) == (0, "work", ["orders"])
    assert (row["ready"], row["leased"], row["done"], row["dead"]) == (1, 0, 2, 0)
    assert [row["dispatcher"]] == stores.dispatching

    async with connect(stores.named) as client, client.queue("work", name="w1") as consumer:
        await anext(consumer)
        code, out, _ = await queue(stores, "show", "work")
        assert code == 0
        assert "w1" in out
        code, out, _ = await queue(stores, "show", "work", "-o", "json")
        [of_consumer] = json.loads(out)["consumers"]
    assert (of_consumer["consumer"], of_consumer["has"], of_consumer["max_backlog"]) == ("w1", 1, 1)


async def test_what_fails_says_why(stores: QueueStores) -> None:
    code, _, err = await queue(stores, "show", "nothing")
    assert code == 1
    assert "has no queue nothing" in err
    code, _, err = await queue(stores, "take", "nothing")
    assert code == 1
    assert "has no queue nothing" in err
    await stores.stop("a")
    code, out, err = await queue(stores, "list", "--timeout", "2")
    assert code == 10
    assert "work" in out
    assert "cannot be reached" in err
    for name in "bc":
        await stores.stop(name)
    code, _, err = await queue(stores, "list", "--timeout", "1")
    assert code == 69
    assert "The list of queues needs more stores" in err


def test_a_queue_that_nobody_dispatches_is_a_problem() -> None:
    waits = QueueStatus(name="work", topics=["orders"])
    troubled = QueueStatus(name="work", topics=["orders"], trouble="It has no quorum.")
    found = listed({StoreAddress("a", "h:1"): [waits], StoreAddress("b", "h:2"): [troubled]})
    assert found.rows[0]["dispatcher"] is None
    assert found.problems == ["No store dispatches the queue work now (b: It has no quorum)."]
