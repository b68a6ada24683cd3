"""The heartbeats that `connect` is told are those of the client's connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.receiver.fakes import NAME, Group
from tests.receiver.support import told
from tests.source.fake_store import FakeStore
from tests.source.support import addresses, event_of

from quorate.client import connect, connect_blocking
from quorate.client.receiver_events import StoreUnresponsive as ReceiverMisses
from quorate.client.source_events import StoreUnresponsive as SourceMisses
from quorate.protocol.errors import Unreachable
from quorate.transport.blocking import run_blocking

PACE: dict[str, Any] = {"heartbeat_interval": 0.02, "heartbeat_timeout": 0.2}
SILENCE = "it said nothing for 0.2 s"


async def started() -> list[FakeStore]:
    made = [FakeStore() for _ in range(3)]
    for store in made:
        await store.start()
    return made


async def stopped(stores: list[FakeStore]) -> None:
    for store in stores:
        await store.stop()


async def hush(store: Any) -> None:
    """Let the store beat no longer."""
    store.beating.clear()


@pytest.fixture
async def stores() -> AsyncIterator[list[FakeStore]]:
    made = await started()
    yield made
    await stopped(made)


@pytest.fixture
def aside() -> Iterator[list[FakeStore]]:
    """Three stores on the background loop."""
    made = run_blocking(started())
    yield made
    run_blocking(stopped(made))


@pytest.fixture
async def group() -> AsyncIterator[Group]:
    group = Group()
    await group.start()
    await group.announce()
    yield group
    await group.stop()


@pytest.fixture
def group_aside() -> Iterator[Group]:
    group = Group()
    run_blocking(group.start())
    run_blocking(group.announce())
    yield group
    run_blocking(group.stop())


@pytest.mark.expects_log("does not take")
async def test_a_source_misses_a_store_that_stops_beating(stores: list[FakeStore]) -> None:
    async with connect(addresses(stores), **PACE) as quorate:
        source = await quorate.source("orders")
        await hush(stores[0])
        missed = await event_of(source, SourceMisses)
        assert str(missed.reason) == str(Unreachable(stores[0].address, SILENCE))


@pytest.mark.expects_log("does not take")
def test_a_blocking_source_misses_it(aside: list[FakeStore]) -> None:
    with connect_blocking(addresses(aside), **PACE) as quorate:
        source = quorate.source("orders")
        run_blocking(hush(aside[0]))
        missed = next(event for event in source.events() if isinstance(event, SourceMisses))
        assert str(missed.reason) == str(Unreachable(aside[0].address, SILENCE))


@pytest.mark.expects_log(SILENCE)
async def test_a_receiver_misses_a_store_that_stops_beating(group: Group) -> None:
    async with connect(group.addresses, **PACE) as quorate:
        receiver = await quorate.receiver(NAME.topic, session_id=0x20)
        await hush(group.stores[0])
        missed = await told(receiver, ReceiverMisses)
        assert missed.store == "a"
        assert SILENCE in missed.reason


@pytest.mark.expects_log(SILENCE)
def test_a_blocking_receiver_misses_it(group_aside: Group) -> None:
    with connect_blocking(group_aside.addresses, **PACE) as quorate:
        receiver = quorate.receiver(NAME.topic, session_id=0x20)
        run_blocking(hush(group_aside.stores[0]))
        events = receiver.events()
        missed = next(event for event in events if isinstance(event, ReceiverMisses))
        assert missed.store == "a"
        assert SILENCE in missed.reason
