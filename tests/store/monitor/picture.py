"""Make the picture of the live page anew: `python -m tests.store.monitor.picture docs/page.png`.

A group of three stores works while the picture is taken: sources, a receiver, a subscriber and a
queue with consumers. It needs Chromium, as the tests of the page do.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.store.monitor.browser import Page, opened

from quorate.client import Client, connect
from quorate.consumer import Consumer
from quorate.receiver import Receiver
from quorate.source import Source
from quorate.subscriber import Subscriber

_WIDTH = 1100
_BASE_PORT = 7301
_PAGE = "127.0.0.1:7381"
"""The page of the first store of `quorate dev`."""
_EVERY_SECONDS = {"orders": 0.08, "trades": 0.1, "quotes": 0.005}
"""Seconds from one message to the next, by topic."""


@asynccontextmanager
async def _group() -> AsyncIterator[str]:
    """Yield the stores of a new group, as clients name them."""
    options = ("--base-port", str(_BASE_PORT), "--page", "--queue", "orders")
    dev = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "dev", *options), stdout=PIPE
    )
    try:
        assert dev.stdout is not None
        # It prints `export QUORATE_STORES=…` once the stores serve.
        line = (await dev.stdout.readline()).decode()
        yield shlex.split(line)[1].partition("=")[2]
    finally:
        dev.terminate()
        await dev.wait()


async def _send(source: Source, every: float) -> None:
    number = 0
    while True:
        await source.send(b"%d" % (number := number + 1))
        await asyncio.sleep(every)


async def _read(reader: Receiver | Subscriber) -> None:
    async for _ in reader:
        pass


async def _work(consumer: Consumer) -> None:
    """Give up each fiftieth job, and do the others."""
    number = 0
    async for job in consumer:
        await asyncio.sleep(0.05)
        if (number := number + 1) % 50:
            await job.done()
        else:
            await job.discard("no such customer")


async def _picture(page: Page, stores: str, path: Path) -> None:
    """Take the picture while clients of these stores work."""

    def client(name: str) -> Client:
        return connect(stores, name=name)

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as working:
        pricing = await stack.enter_async_context(client("pricing"))
        work = []
        for session, (topic, every) in enumerate(_EVERY_SECONDS.items(), 1):
            source = await stack.enter_async_context(pricing.source(topic, session_id=session))
            work.append(_send(source, every))
        booking = await stack.enter_async_context(client("booking"))
        receiver = await stack.enter_async_context(booking.receiver("trades", session_id=21))
        risk = await stack.enter_async_context(client("risk"))
        subscriber = await stack.enter_async_context(risk.subscriber("quotes", begin="epoch"))
        shipping = await stack.enter_async_context(client("shipping"))
        consumer = await stack.enter_async_context(shipping.queue("orders", max_backlog=4))
        work += [_read(receiver), _read(subscriber), _work(consumer)]
        tasks = [working.create_task(each) for each in work]
        await page.sees("#queues tr[data-queue=orders] td[data-field=dead]", "1")
        await page.sees("#subscribers tr", "risk")
        await page.sees("#sources tr", "booking")
        await page.save(path)
        for task in tasks:
            task.cancel()


async def main(path: Path) -> None:
    """Make the picture."""
    async with _group() as stores, opened(f"http://{_PAGE}/", width=_WIDTH) as page:
        await _picture(page, stores, path)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
