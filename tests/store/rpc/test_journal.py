"""A store's report of its journal: what it has of each source, and the subscriptions that run."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests.store.support import Client, Stream, running

from quorate.client import connect
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.store.rpc.journal import SUBSCRIPTIONS_AT_ONCE
from quorate.store.rpc.status import PART_MAX
from quorate.transport.failures import error_from_call
from quorate.transport.status import read_status, status_request
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


async def report(client: Client, pattern: str = "", most: int = 0) -> store_v1.JournalResponse:
    request = store_v1.JournalRequest(
        protocol_version=PROTOCOL_VERSION, topic_pattern=pattern, subscriptions_max=most
    )
    whole = store_v1.JournalResponse()
    try:
        async for part in client.stub.Journal(request):
            assert len(part.sources) <= PART_MAX
            assert len(part.subscriptions) <= SUBSCRIPTIONS_AT_ONCE
            whole.MergeFrom(part)
    except grpc.aio.AioRpcError as error:
        raise error_from_call(client.address, error) from error
    return whole


async def filled(client: Client, source: SourceName, last: int, stable_upto: int) -> Stream:
    """Messages 0 to last, sent in the second of their number."""
    stream = await client.stream(1, source)
    for number in range(last + 1):
        await stream.batch(encode_batch(source, 1, number, [b"%d" % number], number * 10**9))
    await stream.durable(last)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=stable_upto))
    return stream


async def subscribe(client: Client, **request: Any) -> None:
    """Run a subscription that has nothing to read any more."""
    request = {"delivered": store_v1.DELIVERED_STABLE, "now": True} | request
    call = client.stub.Subscribe(
        store_v1.SubscribeRequest(protocol_version=PROTOCOL_VERSION, **request)
    )
    begun: Any = await call.read()
    assert begun.HasField("begins")


async def test_what_the_journal_has_of_each_source(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"retention_messages": 5, "retain_until": ("archived",)}
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        await filled(client, SourceName("orders", 1), 19, 19)
        await client.promise(source=SourceName("quiet", 1))
        found = await report(client)
        assert found.store_name == "s1"
        assert found.disk_bytes > 0
        orders, quiet = found.sources
        assert (orders.first, orders.last, orders.messages) == (0, 19, 20)
        assert (orders.first_ns, orders.last_ns) == (0, 19 * 10**9)
        assert orders.bytes == (await client.status()).sources[0].journal_bytes > 0
        assert not orders.compressed
        assert (quiet.first, quiet.last, quiet.messages, quiet.last_ns) == (-1, -1, 0, 0)


async def test_who_reads_and_how_far_each_is_behind(tmp_path: Path) -> None:
    async with running(tmp_path, subscriptions_max=9) as node, Client(node.address) as client:
        stream = await filled(client, SourceName("orders", 1), 19, 9)
        await subscribe(client, topic="orders", delivered=store_v1.DELIVERED_LIVE)
        await subscribe(client, pattern="o.*", where="$size > 5")
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=19))
        found = await report(client)
        assert (found.subscription_count, found.subscription_bound) == (2, 9)
        by_topics = {each.topic or each.pattern: each for each in found.subscriptions}
        live, filtered = by_topics["orders"], by_topics["o.*"]
        assert (live.delivered, live.behind) == (store_v1.DELIVERED_LIVE, 0)
        assert (filtered.delivered, filtered.where) == (store_v1.DELIVERED_STABLE, "$size > 5")
        assert live.client.startswith("ipv4:127.0.0.1:")
        assert live.seconds >= 0


async def test_only_topics_that_match_and_only_so_many_subscriptions(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        names = [SourceName(f"t{number % 10}", number + 1) for number in range(PART_MAX + 9)]
        for name in names:
            await client.promise(source=name)
        for topic in ("t3", "t4", "t5"):
            await subscribe(client, topic=topic)
        await subscribe(client, pattern="t[45]")
        found = await report(client, "t[34]")
        assert {each.source.topic for each in found.sources} == {"t3", "t4"}
        assert {each.topic or each.pattern for each in found.subscriptions} == {"t3", "t4", "t[45]"}
        assert found.subscription_count == 4
        everything = await report(client, most=2)
        assert len(everything.sources) == len(names)
        assert len(everything.subscriptions) == everything.subscriptions_left_out == 2
        with pytest.raises(InvalidArgument):
            await report(client, "(")


async def test_the_subscriptions_that_are_furthest_behind_are_reported(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        assert node._service is not None
        await filled(client, SourceName("orders", 1), 19, 19)
        await subscribe(client, topic="orders")
        # By hand, so that it reads nothing by itself.
        request = store_v1.SubscribeRequest(
            protocol_version=PROTOCOL_VERSION, topic="orders", delivered=store_v1.DELIVERED_STABLE
        )
        context: Any = type("Context", (), {"peer": lambda _: "ipv4:1.2.3.4:5"})()
        slow: Any = node._service.Subscribe(request, context)
        async with aclosing(slow):
            await anext(slow)
            (behind,) = (await report(client, most=1)).subscriptions
            assert (behind.client, behind.behind) == ("ipv4:1.2.3.4:5", 20)


async def test_a_status_has_the_subscriptions_that_are_furthest_behind_if_asked(
    tmp_path: Path,
) -> None:
    async with (
        running(tmp_path) as node,
        Client(node.address) as client,
        connect(node.address) as quorate,
        quorate.subscriber("orders"),
        quorate.subscriber("trades"),
    ):
        for most, expected in ((0, 0), (1, 1), (9, 2)):
            status = await read_status(client.stub.Status(status_request("", most)))
            assert len(status.subscriptions) == expected
            assert {each.topic for each in status.subscriptions} <= {"orders", "trades"}
        status = await read_status(client.stub.Status(status_request("trades", 9)))
        assert [each.topic for each in status.subscriptions] == ["trades"]
