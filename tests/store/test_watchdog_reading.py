"""No request of a reader holds up a store's event loop for more than 10 ms.

Readers subscribe to journals, and ask for the state of the world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.store.hostile import Hostile, hold_up_nobody, registers, slow_patterns
from tests.store.support import ORDERS, Client

from quorate.protocol.attributes import Attributes
from quorate.protocol.filters.parse import LENGTH_MAX
from quorate.protocol.framing import encode_batch
from quorate.protocol.wire import source_to_wire
from quorate.store.node import StoreNode
from quorate.store.rpc.state import KEYS_ASKED_MAX
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

pytestmark = pytest.mark.long

PLACES = 10_000
"""The places of a long position. gRPC itself reads a request in one turn, however long it is."""
SOURCES = 1500
ROWS = 8192
ONE_KEY = [store_v1.StateKey(raw=b"7")]
KEYED: Any = {"topic": ({"pattern": "orders", "keys": "$key"},)}


def long_texts(word: str, between: str) -> Iterator[str]:
    """Yield a text as long as a store takes, and one that is too long."""
    count = LENGTH_MAX // len(word + between)
    yield between.join([word] * count)
    yield between.join([word] * 20 * count)


def long_filters() -> Iterator[str]:
    yield from long_texts("$key = 'a'", " OR ")
    yield from long_texts("a.b[3] + 1 < 2", " AND ")
    yield "(" * (LENGTH_MAX // 2)
    yield "NOT " * (LENGTH_MAX // 4) + "a"


def long_position() -> store_v1.Position:
    """Return a position of many sources that no store knows."""
    sources = (v1.SourceName(topic="orders", session_id=100 + number) for number in range(PLACES))
    return store_v1.Position(
        places=(store_v1.Place(source=source, epoch=1, sequence=7) for source in sources)
    )


def subscription(**fields: Any) -> store_v1.SubscribeRequest:
    values: dict[str, Any] = {
        "protocol_version": 1,
        "pattern": ".*",
        "delivered": store_v1.DELIVERED_LIVE,
        "end_now": True,
    }
    return store_v1.SubscribeRequest(**(values | fields))


def subscribes_to_everything(client: Hostile) -> None:
    """Subscribe to all sources, from everywhere, by patterns as slow as the store takes them."""
    for pattern in slow_patterns():
        client.read("Subscribe", subscription(pattern=pattern))
    client.read("Subscribe", subscription(now=True))
    client.read("Subscribe", subscription(since_ns=1))
    client.read("Subscribe", subscription(end_before_ns=2**62))
    client.read("Journal", store_v1.JournalRequest(protocol_version=1))
    for pattern in slow_patterns():
        client.read("Journal", store_v1.JournalRequest(topic_pattern=pattern, protocol_version=1))


def subscribes_by_long_texts(client: Hostile) -> None:
    """Subscribe with the longest filters and selections."""
    for where in long_filters():
        client.read("Subscribe", subscription(where=where, now=True))
    for select in long_texts("a.b[3]", ","):
        client.read("Subscribe", subscription(select=select, now=True))


def subscribes_from_many_places(client: Hostile) -> None:
    """Subscribe from, and up to, positions and bookmarks with as many places as a request takes."""
    position = long_position()
    for field in ("position", "bookmarks", "before_bookmarks"):
        client.read("Subscribe", subscription(**{field: position}))
    for field in ("end_position", "end_bookmarks", "end_before_bookmarks"):
        client.read("Subscribe", subscription(**{field: position}), 1)


async def make_sources(node: StoreNode) -> None:
    with Hostile(node.address) as client:
        await asyncio.to_thread(registers, client, SOURCES)


async def make_rows(node: StoreNode) -> None:
    """Send one message for each of many keys."""
    payload = b'{"a": 1, "b": {"c": [1, 2, 3]}, "name": "x"}'
    async with Client(node.address) as client:
        stream = await client.stream()
        for first in range(0, ROWS, 4096):
            numbers = range(first, first + 4096)
            await stream.batch(
                encode_batch(
                    ORDERS,
                    1,
                    first,
                    [payload] * 4096,
                    1_700_000_000_000_000_000,
                    attributes=[Attributes(b"%d" % number, {}) for number in numbers],
                ),
                first - 1,
            )
            await stream.durable(first + 4095)
        await stream.batch(
            encode_batch(ORDERS, 1, ROWS, [payload], 1_700_000_000_000_000_001), ROWS - 1
        )
        await stream.close()
        rows = store_v1.DigestStateRequest(
            protocol_version=1, topic="orders", at_least=behind(ROWS - 1), wait_seconds=60
        )
        assert (await client.call("DigestState", rows)).count == ROWS


def behind(sequence: int) -> store_v1.Position:
    place = store_v1.Place(source=source_to_wire(ORDERS), epoch=1, sequence=sequence)
    return store_v1.Position(places=[place])


def query(**fields: Any) -> store_v1.QueryStateRequest:
    return store_v1.QueryStateRequest(protocol_version=1, topic="orders", **fields)


def watch(**fields: Any) -> store_v1.WatchStateRequest:
    return store_v1.WatchStateRequest(protocol_version=1, topic="orders", **fields)


def asks_for_all_rows(client: Hostile) -> None:
    """Ask for all rows, in every way."""
    client.read("QueryState", query())
    client.read("QueryState", query(order_by=["b.c[1]", "-name", "$key"]))
    client.read("QueryState", query(counts_only=True))
    client.read("QueryState", query(as_of_ns=1_700_000_000_000_000_000))
    client.read("QueryState", query(where="a > 0 AND name LIKE '%x%'", select="-b"))
    client.read("WatchState", watch(), 20)
    client.read("WatchState", watch(behind=behind(1)), 1)
    client.call("DigestState", store_v1.DigestStateRequest(protocol_version=1, topic="orders"))
    for keys in ("$key", "a" * 100_000):
        request = store_v1.StateCandidatesRequest(protocol_version=1, topic="orders", keys=keys)
        client.read("StateCandidates", request)


def asks_for_rows_at_length(client: Hostile) -> None:
    """Ask for rows with the longest filters, selections, orders, keys and positions."""
    for where in long_filters():
        client.read("QueryState", query(where=where, keys=ONE_KEY))
        client.read("WatchState", watch(where=where), 1)
    for select in long_texts("a.b[3]", ","):
        client.read("QueryState", query(select=select, keys=ONE_KEY))
        client.read("WatchState", watch(select=select), 1)
    for count in (KEYS_ASKED_MAX, 10 * KEYS_ASKED_MAX):
        raw = [store_v1.StateKey(raw=b"%d" % number) for number in range(count)]
        client.read("QueryState", query(keys=raw))
        values = [store_v1.StateKey(values=f'["{number}"]') for number in range(count)]
        client.read("QueryState", query(keys=values))
    client.read("QueryState", query(keys=[store_v1.StateKey(values="[" * 100_000)]))
    client.read("QueryState", query(order_by=["a.b[3]"] * 10_000))
    position = long_position()
    client.read("QueryState", query(at_least=position))
    client.read("WatchState", watch(at_least=position), 1)
    client.read("WatchState", watch(behind=position), 1)
    digest = store_v1.DigestStateRequest(protocol_version=1, topic="orders", at_least=position)
    client.call("DigestState", digest)


async def test_a_subscriber_to_very_many_sources_holds_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(tmp_path, subscribes_to_everything, prepare=make_sources)


async def test_long_subscriptions_hold_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(
        tmp_path, subscribes_by_long_texts, subscribes_from_many_places, prepare=make_rows, **KEYED
    )


async def test_queries_of_many_rows_hold_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(tmp_path, asks_for_all_rows, prepare=make_rows, **KEYED)


async def test_long_queries_hold_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(tmp_path, asks_for_rows_at_length, prepare=make_rows, **KEYED)
