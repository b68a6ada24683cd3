"""Subscribers and queues on the page: their rates and lags, from stores that run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from tests.queue.conftest import QueueStores
from tests.store.monitor.browser import needs_browser, opened
from tests.store.monitor.support import ask

from quorate.client import connect
from quorate.protocol.layout import Layout

pytestmark = [
    pytest.mark.processes,
    pytest.mark.expects_log(
        "does not take|in limbo|lost its quorum|is fenced|waits for another instance"
    ),
]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[QueueStores]:
    made = QueueStores(tmp_path, {}, monitor=True)
    for name in made.addresses:
        await made.start(name)
    yield made
    for name in list(made.nodes):
        await made.stop(name)


async def view_when(stores: QueueStores, reached: Callable[[Any], bool]) -> Any:
    """Return the first view that store a sends and that is as expected."""

    def read(answer: HTTPResponse) -> bytes:
        while True:
            line = answer.readline()
            if line.startswith(b"data: ") and reached(json.loads(line[6:])):
                return line[6:]

    page = stores.nodes["a"].monitor_address
    async with asyncio.timeout(60):
        return (await ask(page, "/api/group", read=read)).json()


async def test_a_view_has_queues_and_subscribers_of_all_stores(stores: QueueStores) -> None:
    async with (
        connect(stores.named, name="risk") as client,
        client.source("orders", session_id=1) as source,
        client.queue("work", name="w1", max_backlog=1) as consumer,
        client.subscriber("orders", begin="epoch") as subscriber,
    ):
        await source.send_many([b"%d" % number for number in range(5)])
        job = await anext(consumer)
        await job.discard("no such customer")
        await anext(consumer)
        view = await view_when(stores, lambda view: any(each["dead"] for each in view["queues"]))
        (work,) = view["queues"]
        assert work["name"] == "work"
        assert [work["dispatcher"]] == stores.dispatching
        assert work["dead"] == work["leased"] == work["consumers"] == 1
        assert work["ready"] == 3

        read = aiter(subscriber)
        for _ in range(5):
            await anext(read)
        view = await view_when(stores, lambda view: any(each["read"] == 5 for each in risk(view)))
        (shown,) = risk(view)
        assert (shown["topics"], shown["behind"]) == ("orders", 0)
        assert shown["number"] >= 1

        sending = asyncio.create_task(_send_on(source))
        try:
            await view_when(
                stores, lambda view: any(each["messages_per_second"] for each in risk(view))
            )
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


def risk(view: Any) -> list[Any]:
    """Return the subscribers of the test's own client. The dispatcher of a queue has one, too."""
    return [each for each in view["subscribers"] if each["application"].startswith("risk ")]


async def _send_on(source: Any) -> None:
    while True:
        await source.publish(b"more")


@needs_browser
@pytest.mark.long
async def test_queues_and_subscribers_in_the_browser(stores: QueueStores) -> None:
    async with (
        connect(stores.named, name="risk") as client,
        client.source("orders", session_id=1) as source,
        client.queue("work", name="w1", max_backlog=1) as consumer,
        client.subscriber("orders", begin="epoch"),
        opened(f"http://{stores.nodes['b'].monitor_address}/") as page,
    ):
        await source.send_many([b"%d" % number for number in range(1005)])
        job = await anext(consumer)
        await job.discard("no such customer")
        await anext(consumer)
        row = "#queues tr[data-queue=work]"
        (dispatcher,) = stores.dispatching
        await page.sees(row, dispatcher)
        await page.sees(f"{row} td[data-field=ready]", "1,003")
        await page.sees(f"{row} td[data-field=leased]", "1")
        await page.sees(f"{row} td[data-field=dead]", "1")
        await page.sees("#subscribers tr", "risk")
        await page.sees("#subscribers tr", "orders")
        assert page.problems == []


@needs_browser
@pytest.mark.long
async def test_a_replica_in_the_browser(stores: QueueStores) -> None:
    a, b, c = stores.named.split(",")
    async with (
        connect(Layout.plain(f"{a},{b}", also=c)) as client,
        client.source("trades", session_id=2) as source,
        opened(f"http://{stores.nodes['a'].monitor_address}/") as page,
    ):
        await source.publish(b"one")
        # The dispatcher of the queue has store c as a member, so not all of it is a replica.
        row = "#sources tr[data-source='trades/0x2']"
        await page.sees(row, "c (replica)")
        assert not await page.has(row, "a (replica)")
        assert page.problems == []
