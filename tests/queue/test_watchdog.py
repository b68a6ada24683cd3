"""No request of a consumer holds up the event loop of a store for more than 10 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import grpc
import pytest
from tests.queue.conftest import CHANGES_OF_DISPATCHER, Start
from tests.store.hostile import PATIENCE_SECONDS, TRIES, TURN_SECONDS_MAX
from tests.store.watchdog import longest_turn

from quorate.client import SourceOptions
from quorate.transport.channels import open_blocking_channel
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import queue_pb2 as queue_v1
from quorate.v1.queue_pb2_grpc import QueueStub

pytestmark = pytest.mark.expects_log(CHANGES_OF_DISPATCHER)

MESSAGES = 5_000
SOURCE = v1.SourceName(topic="orders", session_id=7)
UNKNOWN = v1.SourceName(topic="orders", session_id=8)


def consumes(queue: Any, *settlements: queue_v1.Settlement, name: str = "x") -> bool:
    """Say what becomes of jobs in one request. Return whether the store took it."""

    def requests() -> Iterator[queue_v1.ConsumeRequest]:
        opened = queue_v1.ConsumeOpen(queue="work", name=name, max_backlog=1000, protocol_version=1)
        yield queue_v1.ConsumeRequest(open=opened)
        every = queue_v1.Settlements(number=1, settlements=settlements)
        yield queue_v1.ConsumeRequest(settlements=every)
        answered.wait()

    answered = Event()
    try:
        for response in queue.Consume(requests(), timeout=PATIENCE_SECONDS):
            if response.settled_upto:
                return True
    except grpc.RpcError:
        return False
    finally:
        answered.set()
    return False


def settled(source: v1.SourceName, first: int, last: int) -> queue_v1.Settlement:
    return queue_v1.Settlement(
        source=source,
        epoch=1,
        bounds=[first, last],
        kind=queue_v1.SETTLEMENT_KIND_DONE,
        reason="x" * 10_000,
    )


def settles_much(queue: Any) -> None:
    """Settle very many messages in one request: those that are there, and others."""
    single = [settled(SOURCE, at, at) for at in range(0, 300, 2)]
    assert consumes(queue, *single)
    assert consumes(queue, settled(SOURCE, 0, MESSAGES - 1))
    consumes(queue, settled(UNKNOWN, 0, 99_999))
    assert not consumes(queue, settled(UNKNOWN, 0, 2**40))
    assert not consumes(queue, name="x" * 100_000)


def shows_queues(queue: Any) -> None:
    for name in ("", "work", "x" * 100_000):
        try:
            queue.ShowQueues(queue_v1.ShowQueuesRequest(queue=name), timeout=PATIENCE_SECONDS)
        except grpc.RpcError:
            assert name not in ("", "work")


async def held_up(address: str, acts: list[Callable[[Any], None]]) -> list[str]:
    """Let a hostile consumer act. Return in words which turns of the loop were too long."""
    too_long = []
    with open_blocking_channel(address) as channel:
        for act in acts:
            with longest_turn() as longest:
                await asyncio.to_thread(act, QueueStub(channel))
            if longest.seconds >= TURN_SECONDS_MAX:
                words = f"{act.__name__}: {longest.seconds * 1000:.1f} ms in {longest.what}"
                too_long.append(words)
    return too_long


async def test_a_consumer_holds_up_nobody(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client:
        options = SourceOptions(registration_interval=0.3)
        async with client.source("orders", session_id=7, options=options) as source:
            await source.send_many([b"%d" % number for number in range(MESSAGES)])
        async with client.queue("work") as consumer, asyncio.timeout(30):
            await anext(consumer)  # So one of the stores dispatches.
    [name] = stores.dispatching
    tries = []
    for _ in range(TRIES):
        tries.append(await held_up(stores.addresses[name], [shows_queues, settles_much]))
        if not tries[-1]:
            return
    pytest.fail(f"the store was held up in each of {TRIES} tries: {tries}")
