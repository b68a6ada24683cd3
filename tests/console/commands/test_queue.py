"""`quorate queue` as a user has it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.console.command import Ran, quorate
from tests.queue.conftest import CHANGES_OF_DISPATCHER, QueueStores

from quorate.client import connect
from quorate.console.group.check import check
from quorate.console.group.rules.findings import Bounds, Kind
from quorate.console.group.rules.queue_reports import listed
from quorate.protocol.identity import StoreAddress
from quorate.v1.queue_pb2 import QueueStatus

pytestmark = [
    pytest.mark.processes,
    pytest.mark.expects_log(CHANGES_OF_DISPATCHER),
]


@pytest.fixture
async def stores(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[QueueStores]:
    made = QueueStores(tmp_path, {})
    for name in made.addresses:
        await made.start(name, has_queue=getattr(request, "param", True))
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


@pytest.mark.parametrize("stores", [False], indirect=True)
async def test_a_group_without_queues_says_so(stores: QueueStores) -> None:
    assert await queue(stores, "list") == (0, "Queues: no store has a queue\n", "")
    for call in ("show", "take"):
        code, _, err = await queue(stores, call, "work")
        assert (code, "has no queue work. Write a [[queue]] entry" in err) == (1, True)


async def problems(stores: QueueStores, backlog_max: int = 10_000) -> list[str]:
    """Return what the check says of queues."""
    addresses = [StoreAddress(name, address) for name, address in stores.addresses.items()]
    found = await check(addresses, 5.0, "", Bounds(queue_backlog_max=backlog_max), 0.0)
    return [each.what for each in found if each.kind is Kind.QUEUE]


async def checked(stores: QueueStores, *arguments: str) -> tuple[int, list[str]]:
    """Run `quorate check`. Return its exit code, and all that is wrong."""
    code, out, _ = await quorate("check", *arguments, "-o", "json", "--stores", stores.named)
    return code, [each["what"] for each in json.loads(out)["findings"]]


async def test_check_says_what_is_wrong_with_queues(stores: QueueStores) -> None:
    while await problems(stores):
        pass  # until one begins to dispatch
    async with connect(stores.named) as client, client.source("orders", session_id=1) as source:
        await source.send_many([b"one", b"two", b"three"])
        # The dispatcher reads them some time after they are stable.
        alone = "The queue work has no consumer, and 3 messages wait for one."
        while await problems(stores) != [alone]:
            pass
        assert await checked(stores) == (10, [alone])
        assert await checked(stores, "--topic", "orders") == (0, []), "queues are left out"
        async with client.queue("work") as consumer:
            for _ in range(2):
                await (await anext(consumer)).retry()
            while not (found := await problems(stores)):
                pass
            vain = "handed out in vain again and again, one of them 2 times."
            assert found == [f"1 messages of the queue work were {vain}"]
            backlog, _ = await problems(stores, backlog_max=1)
            assert backlog == "The queue work has a backlog of 2 messages, and 1 consumers."
            await (await anext(consumer)).discard("no such customer")
            while not (found := await problems(stores)) or vain in found[0]:
                pass  # until the dead letter is published
            assert found == [
                "1 messages of the queue work became dead letters since its dispatcher began, the "
                "last one 0 minutes ago."
            ]


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
    assert found.problems == [
        "No store that answers dispatches the queue work now (b: It has no quorum)."
    ]
