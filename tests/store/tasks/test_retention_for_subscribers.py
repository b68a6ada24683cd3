"""Retention and the subscriptions that run: what waits for them, and what they are told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests import seams
from tests.store.support import Client, running
from tests.store.tasks.test_retention import archived, filled, until

from quorate.protocol.framing import read_header
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.store.node import StoreNode
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

Responses = AsyncGenerator[store_v1.SubscribeResponse, None]

BOUNDS: dict[str, Any] = {"retention_messages": 30, "retain_until": ("archived",)}
"""With them messages may go as soon as they are archived."""


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.RETENTION_ROUND_SECONDS.replace(monkeypatch, 0.02)


@asynccontextmanager
async def subscription(node: StoreNode) -> AsyncIterator[Responses]:
    """A subscription that has begun with the first message, and reads no further by itself."""
    assert node._service is not None
    context: Any = SimpleNamespace(peer=lambda: "ipv4:1.2.3.4:5")
    request = store_v1.SubscribeRequest(
        protocol_version=PROTOCOL_VERSION, topic="orders", delivered=store_v1.DELIVERED_STABLE
    )
    async with aclosing(cast(Responses, node._service.Subscribe(request, context))) as responses:
        assert (await anext(responses)).HasField("begins")
        yield responses


async def given(responses: Responses) -> list[tuple[str, int, int]]:
    """What it is given until history is over: what it is, and its first and last number."""
    found: list[tuple[str, int, int]] = []
    async for response in responses:
        for each in response.given:
            if each.HasField("gone"):
                assert each.gone.why == v1.LOOKUP_RELEASED
                found.append(("gone", each.gone.first, each.gone.last))
            else:
                header = read_header(each.fetched.batch)
                found.append(("messages", header.first, header.last))
        if response.completed:
            return found
    raise AssertionError("it ended")


def batches(first: int, last: int) -> list[tuple[str, int, int]]:
    return [("messages", at, at + 9) for at in range(first, last, 10)]


async def test_a_subscription_is_told_of_what_goes_before_it_was_read(tmp_path: Path) -> None:
    async with running(tmp_path, **BOUNDS) as node, Client(node.address) as client:
        await filled(client)
        async with subscription(node) as responses:
            await archived(client, 99)
            await until(client, lambda source: source.retained_from == 70)
            assert await given(responses) == [("gone", 0, 69), *batches(70, 99)]


async def test_messages_wait_until_a_subscription_has_read_them(tmp_path: Path) -> None:
    settings = BOUNDS | {"retain_for_subscribers_seconds": 3600.0}
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        await filled(client)
        async with subscription(node) as responses:
            await archived(client, 99)
            source = await until(client, lambda source: "subscription" in source.kept_because)
            assert "ipv4:1.2.3.4:5 has read up to -1 only" in source.kept_because
            assert source.retained_from == 0
            assert await given(responses) == batches(0, 99)
            await until(client, lambda source: source.retained_from == 70)


async def test_messages_do_not_wait_for_a_subscription_that_has_ended(tmp_path: Path) -> None:
    settings = BOUNDS | {"retain_for_subscribers_seconds": 3600.0}
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        await filled(client)
        async with subscription(node):
            await archived(client, 99)
            await until(client, lambda source: "subscription" in source.kept_because)
        await until(client, lambda source: source.retained_from == 70)


async def test_messages_wait_for_no_longer_than_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    clocks = SimpleNamespace(time=lambda: now, monotonic=lambda: now)
    seams.TIME_IN_RETENTION.replace(monkeypatch, clocks)
    settings = BOUNDS | {"retain_for_subscribers_seconds": 600.0}
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        await filled(client)
        async with subscription(node) as responses:
            await archived(client, 99)
            await until(client, lambda source: "subscription" in source.kept_because)
            now += 600.0
            await until(client, lambda source: source.retained_from == 70)
            assert await given(responses) == [("gone", 0, 69), *batches(70, 99)]
