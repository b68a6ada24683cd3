"""The story of a queue under load whose dispatcher's store is killed, or paused.

Three stores are processes. Two consumers work while messages come. Each message is to be done at
least once, and few of them twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quorate.client import Client, connect
from quorate.console.group.children import StoreChild, founded, others
from quorate.console.group.ports import free_addresses
from quorate.console.group.queues import ask_all
from quorate.errors import QuorateError

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.expects_log("does not take|lost its quorum|in limbo"),
]

MESSAGES = 3_000
BACKLOG = 20
_KILLS = 2


class Group:
    """Three stores with a queue."""

    def __init__(self, directory: Path) -> None:
        addresses = dict(zip("abc", free_addresses(3), strict=True))
        self.named = ",".join(f"{name}={address}" for name, address in addresses.items())
        self.stores = {
            name: StoreChild(
                name,
                directory / name,
                address,
                others(list(addresses.values()), address),
                "--queue=orders",
                f"--stores={self.named}",
            )
            for name, address in addresses.items()
        }

    async def start(self) -> None:
        await asyncio.gather(*(store.start() for store in self.stores.values()))
        await founded(list(self.stores.values()))

    async def dispatcher(self, client: Client) -> StoreChild:
        """Return the store that dispatches, once one does."""
        async with asyncio.timeout(60):
            while True:
                answers = await ask_all(client._settings.layout.stores, "orders", 2.0)
                for store, answer in answers.items():
                    if not isinstance(answer, QuorateError) and answer[0].dispatches:
                        return self.stores[store.name]
                await asyncio.sleep(0.2)

    async def stop(self) -> None:
        await asyncio.gather(*(store.stop() for store in self.stores.values() if store.running))


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


@pytest.mark.parametrize("fault", ["killed", "paused"])
async def test_every_message_is_done_though_dispatchers_fail(group: Group, fault: str) -> None:
    done: Counter[bytes] = Counter()
    all_done = asyncio.Event()
    sent = {b"order %d" % number for number in range(MESSAGES)}
    chance = random.Random(7)

    async def work(name: str) -> None:
        async with connect(group.named) as client:
            consumer = await client.queue("orders", max_backlog=BACKLOG, name=name)
            async for job in consumer:
                await asyncio.sleep(chance.uniform(0.0, 0.004))
                job.done()
                done[job.payload] += 1
                if done.keys() == sent:
                    all_done.set()

    async def send(client: Client) -> None:
        async with client.source("orders") as source:
            for payload in sorted(sent):
                await source.send(payload, wait_quorum=True)
                await asyncio.sleep(0.003)

    async with connect(group.named) as client:
        workers = [asyncio.create_task(work(name)) for name in ("one", "two")]
        sending = asyncio.create_task(send(client))
        for _ in range(_KILLS):
            before = len(done)
            store = await group.dispatcher(client)
            async with asyncio.timeout(60):
                while len(done) < before + MESSAGES // 6:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.05)
            if fault == "killed":
                await store.kill()
            else:
                os.kill(store.pid, signal.SIGSTOP)
            other = await group.dispatcher(client)
            assert other is not store
            if fault == "killed":
                await store.start()
            else:
                # It believes for a moment that it still dispatches.
                os.kill(store.pid, signal.SIGCONT)
        async with asyncio.timeout(120):
            await sending
            await all_done.wait()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    assert done.keys() == sent
    twice = sum(count > 1 for count in done.values())
    # A consumer has no more than its backlog when a dispatcher fails. One that was paused hands out
    # a backlog once more when it wakes, until the stores refuse what it decides.
    backlogs = 2 if fault == "killed" else 4
    assert twice <= _KILLS * backlogs * BACKLOG
